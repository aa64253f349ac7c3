// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves, conversions, loads and stores.

#include "Decoder.h"
#include "WarpHandlers.h"
#include <algorithm>

using namespace shardonnx::emulator;

static std::string bitsOf(unsigned bytes) { return std::to_string(bytes * 8); }

void Decoder::move(const Op &op) {
  std::string type = op.opcode.back();
  unsigned bytes = type == "pred" ? 0 : ptxTypeBytes(type);
  if (op.operands.size() != 2 || (type != "pred" && !bytes))
    fail("malformed mov");
  const PtxOperand &to = op.operands[0], &from = op.operands[1];
  if (to.kind == PtxOperand::Vector)
    return unpack(op, bytes);
  if (from.kind == PtxOperand::Vector)
    return pack(op, bytes);
  bool symbolic = from.kind == PtxOperand::Name && !isRegister(from.name);
  if (symbolic && from.name[0] == '%' && special(from.name) == kNowhere) {
    const HandlerTable::Entry *entry = table.find(from.name);
    if (!entry || entry->bytes[0] != bytes)
      fail("the emulator has no special register '" + from.name + "'");
    Ref d = destination(to, bytes);
    emit(entry->run).d = d;
    return;
  }
  Ref a = source(from, bytes, type[0] == 'f');
  Ref d = destination(to, bytes);
  Instr &instr =
      emit(table.find("mov." + (bytes ? "b" + bitsOf(bytes) : "pred"))->run);
  instr.d = d;
  instr.a = a;
}

void Decoder::pack(const Op &op, unsigned bytes) {
  const PtxOperand &from = op.operands[1];
  unsigned count = static_cast<unsigned>(from.elements.size());
  Handler run = count ? packHandler(bytes, bytes / count) : nullptr;
  if (!run)
    fail("this packing is not emulated");
  std::vector<uint32_t> parts;
  for (const PtxOperand &element : from.elements)
    parts.push_back(source(element, bytes / count));
  Ref d = destination(op.operands[0], bytes);
  uint32_t target = list(std::move(parts));
  Instr &instr = emit(run);
  instr.d = d;
  instr.target = target;
}

void Decoder::unpack(const Op &op, unsigned bytes) {
  const PtxOperand &to = op.operands[0];
  unsigned count = static_cast<unsigned>(to.elements.size());
  Handler run = count ? unpackHandler(bytes, bytes / count) : nullptr;
  if (!run)
    fail("this unpacking is not emulated");
  Ref a = source(op.operands[1], bytes);
  std::vector<uint32_t> parts;
  for (const PtxOperand &element : to.elements)
    parts.push_back(element.name == "_" ? kNowhere
                                        : destination(element, bytes / count));
  uint32_t target = list(std::move(parts));
  Instr &instr = emit(run);
  instr.a = a;
  instr.target = target;
}

Space Decoder::spaceOf(const Op &op) const {
  for (const std::string &part : op.opcode) {
    if (part == "global" || part == "const")
      return Global;
    if (part == "shared" || part == "shared::cta")
      return Shared;
    if (part == "local")
      return Local;
    if (part == "param" || part == "param::entry" || part == "param::func")
      return Param;
    if (part == "shared::cluster")
      fail("clusters are not emulated");
  }
  return Generic;
}

/// The registers of a scalar or vector operand as a list; they may be wider
/// than `bytes`, but all alike: the width is returned in `bytes`' stead.
uint32_t Decoder::vectorOf(const PtxOperand &operand, unsigned bytes,
                           bool write, unsigned &count, bool isFloat) {
  std::vector<PtxOperand> elements = {operand};
  if (operand.kind == PtxOperand::Vector)
    elements = operand.elements;
  if (elements.size() != count)
    fail("a vector of another width than the instruction's");
  unsigned width = 0;
  for (const PtxOperand &element : elements)
    if (element.kind == PtxOperand::Name && isRegister(element.name))
      width = std::max(width, registerBytes(element.name));
  if (!width)
    width = std::max(bytes, 2u);
  std::vector<uint32_t> refs;
  for (const PtxOperand &element : elements)
    refs.push_back(write && element.name == "_" ? kNowhere
                   : write ? destination(element, width)
                           : source(element, width, isFloat));
  count = width;
  return list(std::move(refs));
}

void Decoder::loadStore(const Op &op) {
  bool isLoad = op.opcode[0] != "st";
  Space space = spaceOf(op);
  const std::string &type = op.opcode.back();
  unsigned bytes = ptxTypeBytes(type);
  unsigned count = has(op, "v2") ? 2 : has(op, "v4") ? 4 : 1;
  if (!bytes || op.operands.size() < 2)
    fail("malformed load or store");
  const PtxOperand &place = op.operands[isLoad ? 0 : 1];
  unsigned width = count;
  uint32_t target = vectorOf(place, bytes, isLoad, width, type[0] == 'f');
  Instr located;
  address(located, op.operands[isLoad ? 1 : 0], space);
  bool uniform = space == Param && located.a == kNowhere;
  Handler run = !isLoad   ? storeHandler(type, width)
                : uniform ? loadParamHandler(type, width)
                          : loadHandler(type, width);
  if (!run)
    fail("this type and register are not emulated");
  if (uniform &&
      (located.imm < 0 || located.imm + bytes * count > program.paramBytes))
    fail("kernel parameter out of range");
  if (space == Shared || space == Generic)
    program.sharedGranule = std::min(program.sharedGranule, bytes * count);
  Instr &instr = emit(run);
  instr.a = located.a;
  instr.imm = located.imm;
  instr.wideAddress = located.wideAddress;
  instr.target = target;
  instr.mode = static_cast<uint8_t>(space | (count - 1) << 4);
}

/// Where a state space lies among generic addresses; global memory is there.
static uint64_t windowOf(Space space) {
  switch (space) {
  case Shared:
    return kSharedWindow;
  case Local:
    return kLocalWindow;
  case Param:
    return kParamWindow;
  default:
    return 0;
  }
}

void Decoder::convertAddress(const Op &op) {
  bool toSpace = has(op, "to");
  uint64_t window = windowOf(spaceOf(op));
  if (op.opcode.back() != "u64")
    fail("only 64-bit addresses are emulated");
  Ref a = source(op.operands.at(1), 8), b = constant<uint64_t>(window);
  Ref d = destination(op.operands[0], 8);
  Instr &instr = emit(table.find(toSpace ? "sub.u64" : "add.u64")->run);
  instr.d = d;
  instr.a = a;
  instr.b = b;
}

/// Registers wider than the types are cut before and extended after.
void Decoder::convert(const Op &op) {
  std::string name;
  for (const std::string &part : op.opcode)
    if (part != "rn" && part != "ftz" && part != "satfinite")
      name += (name.empty() ? "" : ".") + part;
  const HandlerTable::Entry *entry = table.find(name);
  if (!entry || op.operands.size() != entry->bytes.size())
    fail("the emulator does not know '" + name + "'");
  unsigned to = entry->bytes[0], from = entry->bytes[1];
  Ref refs[3] = {kNowhere, kNowhere, kNowhere};
  for (size_t k = 1; k < op.operands.size(); ++k) {
    const PtxOperand &operand = op.operands[k];
    bool isReg = operand.kind == PtxOperand::Name && isRegister(operand.name);
    unsigned width = isReg ? registerBytes(operand.name) : from;
    if (width == from) {
      refs[k] = source(operand, width, op.opcode.back()[0] == 'f');
      continue;
    }
    if (width < from)
      fail("a register narrower than its type");
    Ref wide = source(operand, width);
    refs[k] = allocate(from);
    Instr &cut =
        emit(table.find("cvt.u" + bitsOf(from) + ".u" + bitsOf(width))->run);
    cut.a = wide;
    cut.d = refs[k];
  }
  unsigned width = registerBytes(op.operands[0].name);
  Ref d = destination(op.operands[0], width);
  if (width < to)
    fail("a register narrower than its type");
  refs[0] = width == to ? d : allocate(to);
  Instr &instr = emit(entry->run);
  instr.d = refs[0];
  instr.a = refs[1];
  instr.b = refs[2];
  if (width == to)
    return;
  const std::string &type = op.opcode[op.opcode.size() - 2];
  std::string kind = type[0] == 's' ? "s" : "u";
  Instr &extend = emit(
      table.find("cvt." + kind + bitsOf(width) + "." + kind + bitsOf(to))->run);
  extend.d = d;
  extend.a = refs[0];
}

void Decoder::atomic(const Op &op) {
  bool returns = op.opcode[0] == "atom";
  Space space = spaceOf(op);
  static const char *const names[] = {"add",  "min", "max",  "and",
                                      "or",   "xor", "inc",  "dec",
                                      "exch", "cas", nullptr};
  std::string name;
  for (const char *const *known = names; *known; ++known)
    if (has(op, *known))
      name = *known;
  const std::string &type = op.opcode.back();
  const HandlerTable::Entry *entry = table.find("atom." + name + "." + type);
  if (!entry || has(op, "v2") || has(op, "v4"))
    fail("the emulator does not know this atomic operation");
  size_t first = returns ? 1 : 0, operands = entry->bytes.size();
  if (op.operands.size() != operands - 1 + first)
    fail("wrong number of operands");
  unsigned bytes = entry->bytes[0];
  Instr located;
  address(located, op.operands[first], space);
  Ref b = source(op.operands[first + 1], bytes, type[0] == 'f');
  Ref c = operands > 3 ? source(op.operands[first + 2], bytes) : kNowhere;
  Ref d = returns ? destination(op.operands[0], bytes) : kNowhere;
  if (space == Shared || space == Generic)
    program.sharedGranule = std::min(program.sharedGranule, bytes);
  Instr &instr = emit(entry->run);
  instr.a = located.a;
  instr.imm = located.imm;
  instr.wideAddress = located.wideAddress;
  instr.b = b;
  instr.c = c;
  instr.d = d;
  instr.mode = space;
}

void Decoder::asyncCopy(const Op &op) {
  if (!has(op, "async") || has(op, "bulk") || has(op, "mbarrier"))
    fail("bulk and tensor copies are not emulated");
  if (has(op, "commit_group")) {
    emit(commitCopies);
    return;
  }
  if (has(op, "wait_all") || has(op, "wait_group")) {
    int64_t keep = has(op, "wait_all") ? -1 : op.operands.at(0).imm;
    emit(waitCopies).imm = keep;
    return;
  }
  Instr to, from;
  Space shared = Shared, global = Global;
  address(to, op.operands.at(0), shared);
  address(from, op.operands.at(1), global);
  const PtxOperand &size = op.operands.at(2);
  if (size.kind != PtxOperand::Int ||
      (size.imm != 4 && size.imm != 8 && size.imm != 16))
    fail("cp.async copies 4, 8 or 16 bytes");
  Ref sourceSize = kNowhere;
  if (op.operands.size() > 3)
    sourceSize = source(op.operands[3], 4);
  program.sharedGranule =
      std::min(program.sharedGranule, static_cast<uint32_t>(size.imm));
  uint32_t target =
      list({static_cast<uint32_t>(to.imm), static_cast<uint32_t>(size.imm),
            to.wideAddress, sourceSize});
  Instr &instr = emit(startCopy);
  instr.a = from.a;
  instr.imm = from.imm;
  instr.wideAddress = from.wideAddress;
  instr.d = to.a;
  instr.target = target;
}

void Decoder::isSpace(const Op &op) {
  uint64_t window = windowOf(spaceOf(op));
  Ref a = source(op.operands.at(1), 8);
  Ref d = destination(op.operands[0], 0);
  Instr &instr = emit(testSpace);
  instr.d = d;
  instr.a = a;
  instr.imm = static_cast<int64_t>(window);
}
