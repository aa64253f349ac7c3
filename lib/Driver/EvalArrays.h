// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The arrays that `shardonnx eval` reads and writes: .npy files, MLIR's types
// and constants.

#ifndef SHARDONNX_LIB_DRIVER_EVALARRAYS_H
#define SHARDONNX_LIB_DRIVER_EVALARRAYS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "shardonnx/Support/Diagnostics.h"

namespace shardonnx {

/// A value that the command line gives: a .npy file whose header was read.
struct EvalInput {
  std::string name, path;
  std::string descr; // NumPy's word for the dtype
  std::vector<int64_t> shape;
  int64_t offset = 0; // of the elements in the file

  std::string source() const { return "--input " + name + "='" + path + "'"; }
};

/// Reads the header of `NAME=FILE.npy` and checks it against the file's size.
mlir::FailureOr<EvalInput> readEvalInput(llvm::StringRef argument,
                                         Diagnostics &diagnostics);

/// NumPy's word for the elements of a type; bfloat16, which NumPy lacks, is
/// what ml_dtypes writes.
std::string numpyDescr(mlir::Type elementType);
/// Whether a file of this dtype holds elements of the type.
bool holds(llvm::StringRef descr, mlir::Type elementType);
/// As in an ONNX message: float32, int64, bool.
std::string typeName(mlir::Type elementType);

/// The value as a constant of `type`, or an error that has been printed.
mlir::FailureOr<mlir::DenseElementsAttr>
readElements(const EvalInput &input, mlir::RankedTensorType type,
             Diagnostics &diagnostics);

/// Header and elements of a .npy file.
std::string npyOf(mlir::DenseElementsAttr value);

/// The file name that an output or input of this name has, without `.npy`:
/// letters, digits and `_.-~` stand for themselves, other bytes are %XX.
std::string fileNameOf(llvm::StringRef name);

} // namespace shardonnx

#endif // SHARDONNX_LIB_DRIVER_EVALARRAYS_H
