// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The interfaces of library calls, and what a call passes to the runtime.

#ifndef SHARDONNX_DIALECT_EXEC_IR_RUNTIMECALL_H
#define SHARDONNX_DIALECT_EXEC_IR_RUNTIMECALL_H

#include "mlir/IR/OpDefinition.h"
#include "shardonnx/runtime/ABI.h"

#include <string>
#include <type_traits>
#include <variant>

namespace shardonnx {
struct LibraryModel;
}

namespace shardonnx::exec {

struct Layout;
class CallEmitter;

/// Whether anything goes from rank to rank in a call of MeshABI.h's.
bool callSends(uint64_t call);

/// Bytes of the program whose address is passed.
struct ProgramConstant {
  std::string bytes;
  llvm::StringRef name; // the begin of the symbol's name
  unsigned alignment = 1;
};

/// What a function of the ABI takes: a buffer's address (of a null value the
/// null pointer), the address of a constant, or an int64_t.
using CallArgument = std::variant<mlir::Value, ProgramConstant, int64_t>;

/// A struct of the ABI, as the compiler itself lays it out. So the layout has
/// one definition, ABI.h, and code is made for machines of the compiler's own
/// layout rules (64 bits, little-endian).
template <typename Descriptor>
ProgramConstant descriptorOf(const Descriptor &descriptor,
                             llvm::StringRef name) {
  static_assert(sizeof(void *) == 8 && sizeof(float) == 4 &&
                std::is_trivially_copyable_v<Descriptor>);
  return {std::string(reinterpret_cast<const char *>(&descriptor),
                      sizeof(descriptor)),
          name, alignof(Descriptor)};
}

/// Bytes read from and written to memory.
struct Traffic {
  double read = 0, written = 0;
  double bytes() const { return read + written; }
};

/// Bytes of all elements that a buffer's type reaches; an axis of stride 0
/// repeats what is there.
double bytesOf(mlir::Value buffer);

/// What an op moves that touches each operand once, by its effects, and reads
/// what it adds to; what it keeps in a workspace is not counted.
Traffic operandTraffic(mlir::Operation *op);

} // namespace shardonnx::exec

#include "shardonnx/Dialect/Exec/IR/ExecInterfaces.h.inc"

#endif // SHARDONNX_DIALECT_EXEC_IR_RUNTIMECALL_H
