// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns an entry of a PTX module into a Program: operands become places in a
// frame, calls are inlined, branches know where their lanes meet again.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_DECODER_H
#define SHARDONNX_TEST_CUDA_EMULATOR_DECODER_H

#include "Access.h"
#include "Handlers.h"
#include "Ptx.h"

namespace shardonnx::emulator {

/// Addresses of the module's .global and .const variables.
using SymbolAddresses = std::unordered_map<std::string, uint64_t>;

class Decoder {
public:
  Decoder(const PtxModule &module, const SymbolAddresses &addresses)
      : module(module), addresses(addresses), table(HandlerTable::get()) {}

  Program decode(const PtxFunction &entry);

private:
  struct Symbol {
    Space space;
    uint64_t offset;
  };
  /// One inlined copy of a function.
  struct Frame {
    const PtxFunction *function;
    unsigned id;
    std::unordered_map<std::string, Ref> registers;
    std::unordered_map<std::string, Symbol> symbols;
    std::vector<uint32_t> codeAt;
    std::vector<std::pair<uint32_t, std::string>> branches;
    std::vector<uint32_t> returns;
  };
  using Op = PtxInstruction;
  using Method = void (Decoder::*)(const Op &);

  // Frames (Decoder.cpp).
  void inlineFunction(Frame &next);
  void declareVariables(Frame &next);
  void finishBranches(Frame &done);
  Symbol placeVariable(const PtxVariable &variable);
  void statement(const Op &op);
  void simple(const Op &op);
  void control(const Op &op);
  void branch(const Op &op);
  void branchTable(const Op &op);
  void leave(const Op &op);
  void call(const Op &op);
  void ignore(const Op &) {}
  void fence(const Op &op);

  // Operands (Operands.cpp).
  Ref allocate(unsigned bytes);
  unsigned registerBytes(const std::string &name);
  bool isRegister(const std::string &name);
  Ref registerRef(const std::string &name, unsigned bytes);
  Ref source(const PtxOperand &operand, unsigned bytes, bool isFloat = false);
  Ref destination(const PtxOperand &operand, unsigned bytes);
  Ref special(const std::string &name);
  template <class T> Ref constant(T value);
  bool findSymbol(const std::string &name, Symbol &symbol);
  bool symbolValue(const std::string &name, uint64_t &value);
  /// Sets a, imm and wideAddress; returns the space a symbol's name implies.
  void address(Instr &instr, const PtxOperand &operand, Space &space);
  Instr &emit(Handler run);
  uint32_t list(std::vector<uint32_t> refs);
  bool has(const Op &op, const char *part) const;
  [[noreturn]] void fail(const std::string &what) const;

  // Memory (DecodeMemory.cpp).
  void move(const Op &op);
  void pack(const Op &op, unsigned bytes);
  void unpack(const Op &op, unsigned bytes);
  void loadStore(const Op &op);
  void convertAddress(const Op &op);
  void convert(const Op &op);
  void atomic(const Op &op);
  void asyncCopy(const Op &op);
  void isSpace(const Op &op);
  Space spaceOf(const Op &op) const;
  uint32_t vectorOf(const PtxOperand &operand, unsigned bytes, bool write,
                    unsigned &count, bool isFloat);

  // Warps (DecodeWarp.cpp).
  void compare(const Op &op);
  void select(const Op &op);
  void shuffle(const Op &op);
  void vote(const Op &op);
  void activeMask(const Op &op);
  void reduceWarp(const Op &op);
  void barrier(const Op &op);
  void matrix(const Op &op);
  void loadMatrix(const Op &op);
  void fourOperands(const Op &op);
  void carry(const Op &op);
  void multiplyCarry(const Op &op);
  void trap(const Op &op);
  void dependencies(const Op &op);

  const PtxModule &module;
  const SymbolAddresses &addresses;
  const HandlerTable &table;
  Program program;
  Frame *frame = nullptr;
  const Op *current = nullptr;
  unsigned depth = 0;
  unsigned frames = 0;
  Ref carryFlag = kNowhere;
  std::unordered_map<std::string, Symbol> sharedVariables;
  std::unordered_map<uint64_t, Ref> constants[3];
};

/// Sets the joins of divergent branches (the immediate post-dominators).
void findJoins(Program &program);

} // namespace shardonnx::emulator

#endif
