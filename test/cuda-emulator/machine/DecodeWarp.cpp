// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Comparisons and what the lanes of a warp or a block do together.

#include "Decoder.h"
#include "WarpHandlers.h"
#include <algorithm>

using namespace shardonnx::emulator;

/// setp.lt.and.s32 p|q, a, b, !c
void Decoder::compare(const Op &op) {
  std::string name = "setp." + op.opcode.at(1) + "." + op.opcode.back();
  const HandlerTable::Entry *entry = table.find(name);
  if (!entry || op.operands.size() < 3)
    fail("the emulator does not know '" + name + "'");
  unsigned bytes = entry->bytes[1];
  bool isFloat = op.opcode.back()[0] == 'f';
  Ref a = source(op.operands[1], bytes, isFloat);
  Ref b = source(op.operands[2], bytes, isFloat);
  Ref c = kNowhere;
  uint8_t mode = has(op, "and")   ? 1
                 : has(op, "or")  ? 2
                 : has(op, "xor") ? 3
                                  : 0;
  if ((mode != 0) != (op.operands.size() == 4))
    fail("wrong number of operands");
  if (mode)
    c = source(op.operands[3], 0);
  Ref d = destination(op.operands[0], 0);
  uint32_t target = 0;
  if (!op.operands[0].pair.empty())
    target = list({registerRef(op.operands[0].pair, 0)});
  Instr &instr = emit(entry->run);
  instr.d = d;
  instr.a = a;
  instr.b = b;
  instr.c = c;
  instr.mode = mode;
  instr.imm = mode && op.operands[3].negated ? 0xffffffff : 0;
  instr.target = target;
}

void Decoder::select(const Op &op) {
  const std::string &type = op.opcode.back();
  unsigned bytes = ptxTypeBytes(type);
  const HandlerTable::Entry *entry =
      table.find("selp.b" + std::to_string(bytes * 8));
  if (!entry || op.operands.size() != 4)
    fail("malformed selp");
  Ref a = source(op.operands[1], bytes, type[0] == 'f');
  Ref b = source(op.operands[2], bytes, type[0] == 'f');
  Ref c = source(op.operands[3], 0);
  Ref d = destination(op.operands[0], bytes);
  Instr &instr = emit(entry->run);
  instr.d = d;
  instr.a = a;
  instr.b = b;
  instr.c = c;
  instr.imm = op.operands[3].negated ? 0xffffffff : 0;
}

/// shfl.sync.bfly.b32 d|p, a, b, c, mask
void Decoder::shuffle(const Op &op) {
  if (!has(op, "sync") || op.operands.size() != 5)
    fail("only shfl.sync is emulated");
  uint8_t mode = has(op, "up")     ? ShuffleUp
                 : has(op, "down") ? ShuffleDown
                 : has(op, "bfly") ? ShuffleBfly
                                   : ShuffleIdx;
  Ref a = source(op.operands[1], 4), b = source(op.operands[2], 4);
  Ref c = source(op.operands[3], 4), members = source(op.operands[4], 4);
  Ref d = destination(op.operands[0], 4);
  Ref valid = kNowhere;
  if (!op.operands[0].pair.empty() && op.operands[0].pair != "_")
    valid = registerRef(op.operands[0].pair, 0);
  uint32_t target = list({valid, members});
  Instr &instr = emit(shuffleLanes);
  instr.d = d;
  instr.a = a;
  instr.b = b;
  instr.c = c;
  instr.mode = mode;
  instr.target = target;
}

void Decoder::vote(const Op &op) {
  if (!has(op, "sync") || op.operands.size() != 3)
    fail("only vote.sync and match.sync are emulated");
  bool match = op.opcode[0] == "match";
  if (match && (!has(op, "any") || op.opcode.back() != "b32"))
    fail("only match.any.sync.b32 is emulated");
  uint8_t mode = has(op, "ballot") ? VoteBallot
                 : has(op, "all")  ? VoteAll
                 : has(op, "any")  ? VoteAny
                                   : VoteUni;
  Ref a = source(op.operands[1], match ? 4 : 0);
  Ref members = source(op.operands[2], 4);
  Ref d = destination(op.operands[0], match || mode == VoteBallot ? 4 : 0);
  Instr &instr = emit(match ? matchLanes : voteLanes);
  instr.d = d;
  instr.a = a;
  instr.b = members;
  instr.mode = mode;
  instr.imm = op.operands[1].negated ? 0xffffffff : 0;
}

void Decoder::activeMask(const Op &op) {
  Ref d = destination(op.operands.at(0), 4);
  emit(readActiveMask).d = d;
}

void Decoder::reduceWarp(const Op &op) {
  bool isSigned = op.opcode.back() == "s32";
  if (op.operands.size() != 3 || op.opcode.back()[0] == 'f')
    fail("this redux is not emulated");
  uint8_t mode =
      has(op, "add")   ? ReduceAdd
      : has(op, "min") ? (isSigned ? ReduceMinSigned : ReduceMinUnsigned)
      : has(op, "max") ? (isSigned ? ReduceMaxSigned : ReduceMaxUnsigned)
      : has(op, "and") ? ReduceAnd
      : has(op, "or")  ? ReduceOr
                       : ReduceXor;
  Ref a = source(op.operands[1], 4), members = source(op.operands[2], 4);
  Ref d = destination(op.operands[0], 4);
  Instr &instr = emit(reduceLanes);
  instr.d = d;
  instr.a = a;
  instr.b = members;
  instr.mode = mode;
}

/// bar.sync a{, b}; bar.warp.sync mask; bar.arrive a, b; bar.red.
void Decoder::barrier(const Op &op) {
  if (has(op, "warp")) {
    Ref members = source(op.operands.at(0), 4);
    emit(syncWarp).b = members;
    return;
  }
  if (has(op, "cluster"))
    fail("clusters are not emulated");
  bool reduction = has(op, "red");
  // bar.red.popc.u32 d, a{, b}, {!}c
  size_t first = reduction ? 1 : 0, end = op.operands.size() - first;
  Ref which = source(op.operands.at(first), 4);
  Ref count = kNowhere, value = kNowhere, d = kNowhere;
  if (end > first + 1)
    count = source(op.operands[first + 1], 4);
  uint8_t mode = has(op, "arrive") ? 1 : 0;
  if (reduction) {
    value = source(op.operands.back(), 0);
    bool popc = has(op, "popc");
    d = destination(op.operands[0], popc ? 4 : 0);
    mode = popc ? 2 : has(op, "and") ? 3 : 4;
  }
  uint32_t target = list({value, op.operands.back().negated});
  Instr &instr = emit(nullptr);
  instr.flow = Flow::Barrier;
  instr.a = which;
  instr.b = count;
  instr.d = d;
  instr.mode = mode;
  instr.target = target;
}

void Decoder::matrix(const Op &op) {
  const std::string shape = op.opcode.size() > 3 ? op.opcode[3] : "";
  std::vector<std::string> types(op.opcode.end() - 4, op.opcode.end());
  uint8_t mode = types[1] == "f16"    ? MatrixHalf
                 : types[1] == "bf16" ? MatrixBFloat
                                      : MatrixTensorFloat;
  bool known = types[0] == "f32" && types[3] == "f32" && types[1] == types[2];
  unsigned k = shape == "m16n8k16"  ? 16
               : shape == "m16n8k8" ? 8
               : shape == "m16n8k4" ? 4
                                    : 0;
  known = known &&
          (mode == MatrixTensorFloat ? types[1] == "tf32" && (k == 8 || k == 4)
                                     : k == 16 || k == 8);
  if (!known || !has(op, "row") || !has(op, "col"))
    fail("this matrix multiplication is not emulated");
  // Registers of A: 16 x K elements over 32 lanes, packed in 32 bits.
  unsigned perRegister = mode == MatrixTensorFloat ? 1 : 2;
  size_t sizes[4] = {4, 16 * k / 32 / perRegister, 8 * k / 32 / perRegister, 4};
  std::vector<uint32_t> refs;
  for (unsigned part : {0u, 1u, 2u, 3u}) {
    const PtxOperand &operand = op.operands.at(part);
    if (operand.elements.size() != sizes[part])
      fail("wrong number of registers");
    for (const PtxOperand &element : operand.elements)
      refs.push_back(part ? source(element, 4) : destination(element, 4));
  }
  uint32_t target = list(std::move(refs));
  Instr &instr = emit(multiplyMatrix);
  instr.mode = mode;
  instr.imm = k;
  instr.target = target;
}

void Decoder::loadMatrix(const Op &op) {
  unsigned count = has(op, "x4") ? 4 : has(op, "x2") ? 2 : 1;
  if (!has(op, "m8n8") || op.opcode.back() != "b16")
    fail("this ldmatrix is not emulated");
  Space space = spaceOf(op);
  if (space != Shared)
    fail("ldmatrix reads shared memory");
  Instr located;
  address(located, op.operands.at(1), space);
  unsigned width = count;
  uint32_t target = vectorOf(op.operands[0], 4, true, width, false);
  program.sharedGranule = std::min(program.sharedGranule, 16u);
  Instr &instr = emit(loadMatrices);
  instr.a = located.a;
  instr.imm = located.imm;
  instr.wideAddress = located.wideAddress;
  instr.target = target;
  instr.mode = has(op, "trans") ? 1 : 0;
}

/// bfi and lop3: the fourth source is in a list.
void Decoder::fourOperands(const Op &op) {
  const HandlerTable::Entry *entry =
      table.find(op.opcode[0] + "." + op.opcode.back());
  if (!entry || op.operands.size() != 5)
    fail("malformed instruction");
  Ref refs[5];
  for (unsigned k = 1; k < 5; ++k)
    refs[k] = source(op.operands[k], entry->bytes[k]);
  refs[0] = destination(op.operands[0], entry->bytes[0]);
  uint32_t target = list({refs[4]});
  Instr &instr = emit(entry->run);
  instr.d = refs[0];
  instr.a = refs[1];
  instr.b = refs[2];
  instr.c = refs[3];
  instr.target = target;
}

/// A sum with the carry flag: add, sub, mad and their forms with a c.
void Decoder::carry(const Op &op) {
  bool in = op.opcode[0].back() == 'c';
  bool out = has(op, "cc");
  if (!in && !out)
    return simple(op);
  if (carryFlag == kNowhere)
    carryFlag = allocate(0);
  if (op.opcode[0][0] == 'm')
    multiplyCarry(op);
  else
    simple(op);
  Instr &instr = program.code.back();
  instr.c = carryFlag;
  instr.mode = static_cast<uint8_t>((in ? 1 : 0) | (out ? 2 : 0) |
                                    (op.opcode[0][0] == 's' ? 4 : 0));
}

/// mad.lo.cc and the like are a product and a sum; only the sum carries.
void Decoder::multiplyCarry(const Op &op) {
  const std::string &type = op.opcode.back();
  const HandlerTable::Entry *product =
      table.find(std::string(has(op, "hi") ? "mul.hi." : "mul.lo.") + type);
  const HandlerTable::Entry *sum = table.find("add.cc." + type);
  if (!product || !sum || op.operands.size() != 4)
    fail("malformed instruction");
  unsigned bytes = sum->bytes[0];
  Ref a = source(op.operands[1], bytes), b = source(op.operands[2], bytes);
  Ref c = source(op.operands[3], bytes);
  Ref d = destination(op.operands[0], bytes), partial = allocate(bytes);
  Instr &multiply = emit(product->run);
  multiply.d = partial;
  multiply.a = a;
  multiply.b = b;
  Instr &add = emit(sum->run);
  add.d = d;
  add.a = partial;
  add.b = c;
}

void Decoder::trap(const Op &) { emit(trapLanes); }

/// Here dependents begin when a kernel has ended, which is always allowed.
void Decoder::dependencies(const Op &op) {
  if (has(op, "wait"))
    emit(waitForGrids);
}
