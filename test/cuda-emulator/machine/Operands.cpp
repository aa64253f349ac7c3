// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands of PTX instructions as places in a frame.

#include "Decoder.h"
#include <algorithm>
#include <cctype>

using namespace shardonnx::emulator;

void Decoder::fail(const std::string &what) const {
  throw PtxError(current ? current->line : 0,
                 what + (current ? " in '" + current->text + "'" : ""));
}

Instr &Decoder::emit(Handler run) {
  Instr instr;
  instr.run = run;
  instr.line = current->line;
  if (!current->guard.empty()) {
    instr.guard = registerRef(current->guard, 0);
    instr.guardNegated = current->guardNegated;
  }
  program.code.push_back(instr);
  program.texts.push_back(current->text);
  return program.code.back();
}

uint32_t Decoder::list(std::vector<uint32_t> refs) {
  program.lists.push_back(std::move(refs));
  return static_cast<uint32_t>(program.lists.size() - 1);
}

bool Decoder::has(const Op &op, const char *part) const {
  return std::find(op.opcode.begin() + 1, op.opcode.end(), part) !=
         op.opcode.end();
}

Ref Decoder::allocate(unsigned bytes) {
  // Predicates are one word for the warp.
  uint32_t size = bytes ? (bytes * kLanes + 63) / 64 * 64 : 64;
  Ref ref = program.frameBytes;
  program.frameBytes += size;
  ++program.virtualRegisters;
  return ref | kRegisters;
}

static std::string typeOfRegister(const PtxFunction &function,
                                  const std::string &name) {
  auto exact = function.registers.find(name);
  if (exact != function.registers.end())
    return exact->second;
  size_t digits = name.size();
  while (digits && std::isdigit(static_cast<unsigned char>(name[digits - 1])))
    --digits;
  if (digits == name.size())
    return "";
  auto range = function.ranges.find(name.substr(0, digits));
  return range == function.ranges.end() ? "" : range->second;
}

bool Decoder::isRegister(const std::string &name) {
  return !typeOfRegister(*frame->function, name).empty();
}

unsigned Decoder::registerBytes(const std::string &name) {
  std::string type = typeOfRegister(*frame->function, name);
  if (type.empty())
    fail("unknown register '" + name + "'");
  return type == "pred" ? 0 : ptxTypeBytes(type);
}

Ref Decoder::registerRef(const std::string &name, unsigned bytes) {
  unsigned declared = registerBytes(name);
  if (declared != bytes)
    fail("register '" + name + "' has " + std::to_string(declared) +
         " bytes where " + std::to_string(bytes) + " are expected");
  auto found = frame->registers.find(name);
  if (found != frame->registers.end())
    return found->second;
  return frame->registers[name] = allocate(declared);
}

template <class T> Ref Decoder::constant(T value) {
  uint64_t key = 0;
  std::memcpy(&key, &value, sizeof value);
  unsigned which = sizeof(T) == 2 ? 0 : sizeof(T) == 4 ? 1 : 2;
  auto found = constants[which].find(key);
  if (found != constants[which].end())
    return found->second;
  size_t offset = program.constants.size();
  program.constants.resize((offset + kLanes * sizeof(T) + 63) / 64 * 64);
  for (unsigned l = 0; l < kLanes; ++l)
    std::memcpy(program.constants.data() + offset + l * sizeof(T), &value,
                sizeof value);
  return constants[which][key] = static_cast<Ref>(offset) | kConstants;
}

template Ref Decoder::constant(uint16_t);
template Ref Decoder::constant(uint32_t);
template Ref Decoder::constant(uint64_t);

static const std::unordered_map<std::string, uint32_t> &specials() {
  static const std::unordered_map<std::string, uint32_t> map = {
      {"%tid.x", kTidX},
      {"%tid.y", kTidY},
      {"%tid.z", kTidZ},
      {"%ntid.x", kNtidX},
      {"%ntid.y", kNtidY},
      {"%ntid.z", kNtidZ},
      {"%ctaid.x", kCtaidX},
      {"%ctaid.y", kCtaidY},
      {"%ctaid.z", kCtaidZ},
      {"%nctaid.x", kNctaidX},
      {"%nctaid.y", kNctaidY},
      {"%nctaid.z", kNctaidZ},
      {"%laneid", kLaneId},
      {"%warpid", kWarpId},
      {"%nwarpid", kNwarpId},
      {"%lanemask_eq", kLaneMaskEq},
      {"%lanemask_le", kLaneMaskLe},
      {"%lanemask_lt", kLaneMaskLt},
      {"%lanemask_ge", kLaneMaskGe},
      {"%lanemask_gt", kLaneMaskGt},
      {"%dynamic_smem_size", kDynamicShared},
      {"%total_smem_size", kTotalShared},
  };
  return map;
}

/// kNowhere if the name is no special register.
Ref Decoder::special(const std::string &name) {
  auto found = specials().find(name);
  return found == specials().end() ? kNowhere : found->second | kSpecials;
}

bool Decoder::findSymbol(const std::string &name, Symbol &symbol) {
  auto local = frame->symbols.find(name);
  if (local != frame->symbols.end()) {
    symbol = local->second;
    return true;
  }
  auto shared = sharedVariables.find(name);
  if (shared != sharedVariables.end()) {
    symbol = shared->second;
    return true;
  }
  auto global = addresses.find(name);
  if (global == addresses.end())
    return false;
  symbol = {Global, global->second};
  return true;
}

bool Decoder::symbolValue(const std::string &name, uint64_t &value) {
  Symbol symbol;
  if (!findSymbol(name, symbol))
    return false;
  value = symbol.offset;
  return true;
}

Ref Decoder::source(const PtxOperand &operand, unsigned bytes, bool isFloat) {
  uint64_t bits = static_cast<uint64_t>(operand.imm);
  switch (operand.kind) {
  case PtxOperand::Name: {
    if (isRegister(operand.name))
      return registerRef(operand.name, bytes);
    Ref known = special(operand.name);
    if (known != kNowhere && bytes == 4)
      return known;
    uint64_t value;
    if (operand.name == "WARP_SZ")
      bits = kLanes;
    else if (symbolValue(operand.name, value))
      bits = value + bits;
    else
      fail("unknown name '" + operand.name + "'");
    break;
  }
  case PtxOperand::Int:
    break;
  case PtxOperand::Float32:
    if (bytes == 8 && isFloat)
      bits = bitcast<uint64_t>(
          double(bitcast<float>(static_cast<uint32_t>(bits))));
    break;
  case PtxOperand::Float64:
    if (bytes == 4)
      bits = bitcast<uint32_t>(static_cast<float>(bitcast<double>(bits)));
    break;
  default:
    fail("unexpected kind of operand");
  }
  switch (bytes) {
  case 0:
    return constant<uint32_t>(bits ? ~0u : 0u);
  case 2:
    return constant<uint16_t>(static_cast<uint16_t>(bits));
  case 4:
    return constant<uint32_t>(static_cast<uint32_t>(bits));
  case 8:
    return constant<uint64_t>(bits);
  default:
    fail("constants of " + std::to_string(bytes) + " bytes are not emulated");
  }
}

Ref Decoder::destination(const PtxOperand &operand, unsigned bytes) {
  if (operand.kind != PtxOperand::Name)
    fail("the destination is not a register");
  if (operand.name == "_")
    return allocate(bytes);
  return registerRef(operand.name, bytes);
}

void Decoder::address(Instr &instr, const PtxOperand &operand, Space &space) {
  if (operand.kind != PtxOperand::Address)
    fail("expected an address");
  instr.imm = operand.imm;
  if (operand.name.empty())
    return;
  if (isRegister(operand.name)) {
    unsigned bytes = registerBytes(operand.name);
    if (bytes != 4 && bytes != 8)
      fail("an address must have 32 or 64 bits");
    instr.a = registerRef(operand.name, bytes);
    instr.wideAddress = bytes == 8;
    return;
  }
  Symbol symbol;
  if (!findSymbol(operand.name, symbol))
    fail("unknown name '" + operand.name + "'");
  instr.imm += static_cast<int64_t>(symbol.offset);
  // Parameters of inlined calls live in local memory.
  if (space == Param || space == Generic)
    space = symbol.space;
  else if (space != symbol.space)
    fail("'" + operand.name + "' is not in this state space");
}
