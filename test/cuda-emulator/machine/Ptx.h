// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// PTX text as a tree: modules, variables, functions, statements. Nothing is
// interpreted here except scopes: names declared inside braces are made unique.

#ifndef SHARDONNX_TEST_CUDA_EMULATOR_PTX_H
#define SHARDONNX_TEST_CUDA_EMULATOR_PTX_H

#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace shardonnx::emulator {

/// What is wrong with a PTX text, with its line.
struct PtxError : std::runtime_error {
  PtxError(unsigned line, const std::string &what)
      : std::runtime_error("PTX line " + std::to_string(line) + ": " + what) {}
};

struct PtxOperand {
  enum Kind {
    Name,    ///< register, symbol, label or special register; may have imm
    Int,     ///< imm
    Float32, ///< imm holds the bits
    Float64, ///< imm holds the bits
    Vector,  ///< {a, b, …}
    Address, ///< [name+imm]
    List     ///< (a, b, …) of a call
  };
  Kind kind = Name;
  std::string name;
  /// Second destination, after a `|`.
  std::string pair;
  int64_t imm = 0;
  /// `!p`
  bool negated = false;
  std::vector<PtxOperand> elements;
};

struct PtxInstruction {
  std::string guard;
  bool guardNegated = false;
  /// "ld", "global", "v4", "f32"
  std::vector<std::string> opcode;
  std::string text;
  std::vector<PtxOperand> operands;
  unsigned line = 0;
};

struct PtxVariable {
  std::string name;
  std::string space; ///< "global", "const", "shared", "local", "param"
  std::string type;
  uint64_t align = 1;
  uint64_t size = 0;
  bool isExtern = false;
  /// Initial bytes (shorter than size: zeros follow).
  std::vector<uint8_t> initial;
  struct Reference {
    uint64_t offset;
    std::string symbol;
    int64_t addend;
  };
  std::vector<Reference> references;
};

struct PtxFunction {
  std::string name;
  bool isEntry = false;
  bool isDeclaration = false;
  std::vector<PtxVariable> results, params;
  /// Variables declared in the body.
  std::vector<PtxVariable> variables;
  /// Declared registers: exact name, or prefix of a numbered range, to type.
  std::unordered_map<std::string, std::string> registers, ranges;
  std::vector<PtxInstruction> body;
  /// Label to the index of the instruction that follows it.
  std::unordered_map<std::string, size_t> labels;
  std::unordered_map<std::string, std::vector<std::string>> branchTargets;
  uint32_t maxThreads = 0;
};

struct PtxModule {
  std::string target;
  unsigned version = 0;
  std::vector<PtxVariable> variables;
  std::vector<PtxFunction> functions;

  const PtxFunction *findFunction(const std::string &name) const;
};

/// Parses null-terminated PTX. Throws PtxError.
PtxModule parsePtx(const char *text);

/// Bytes of a scalar type such as "b32", "bf16x2"; 0 if it is none.
unsigned ptxTypeBytes(const std::string &type);

} // namespace shardonnx::emulator

#endif
