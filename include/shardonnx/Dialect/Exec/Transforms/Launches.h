// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every launch and library call of a step, with the bytes that it moves and the
// fewest that would do: the manifest's "launches" (docs/manifest.md), which
// `shardonnx inspect --traffic` reads.

#ifndef SHARDONNX_DIALECT_EXEC_TRANSFORMS_LAUNCHES_H
#define SHARDONNX_DIALECT_EXEC_TRANSFORMS_LAUNCHES_H

#include "shardonnx/Dialect/Exec/IR/Exec.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace shardonnx::exec {

/// The location of an exec op: that of the nn op that it comes from, with that
/// op's place in the model and in the step.
mlir::Location withPlace(mlir::Operation *op);

/// Whether all ranks make this call together, or it belongs to a copy that runs
/// beside the work: the manifest's "collectives".
bool isCommonCall(mlir::Operation *op);

/// What withPlace has put into the op's location, or null.
nn::PlaceAttr placeInStep(mlir::Operation *op);

/// The op's phase in the step; forward where it has no place.
nn::Phase phaseOf(mlir::Operation *op);

/// The kind of launches between the ranks of an axis of the mesh, whose names
/// are the call's and the axis's.
inline constexpr llvm::StringLiteral kMeshLaunch = "mesh";
/// Of those that the common call behind them starts.
inline constexpr llvm::StringLiteral kStartedMeshLaunch = "mesh start";

/// Launches of a planned module, equal ones once.
class LaunchTable {
public:
  /// Units are numbered by their order in the module.
  explicit LaunchTable(mlir::ModuleOp module);

  /// The manifest's "launches" of a function: [launch, unit, phase, count,
  /// common calls before it].
  llvm::json::Array runsOf(mlir::func::FuncOp function);
  /// Which of its function's runs a launch or call is, once that function has
  /// been asked for; of any other op nothing.
  std::optional<int64_t> runOf(mlir::Operation *op) const;
  /// The manifest's "launches", once all functions have been asked for.
  llvm::json::Array launches() const;

private:
  struct Launch {
    std::string kind, name;
    double flops = 0, read = 0, written = 0, least = 0, elements = 0;
    int64_t kernels = 0, calls = 0;
    auto key() const {
      return std::tie(kind, name, flops, read, written, least, elements,
                      kernels, calls);
    }
    bool operator<(const Launch &other) const { return key() < other.key(); }
  };
  Launch describe(mlir::Operation *op) const;
  static Launch describeShares(LinearCrossEntropyOp loss, int64_t count);
  int64_t numberOf(Launch launch);

  llvm::DenseMap<mlir::StringAttr, int64_t> units;
  std::map<Launch, int64_t> numbers;
  llvm::DenseMap<mlir::Operation *, int64_t> runOfOp;
  std::vector<const Launch *> list; // by number
};

} // namespace shardonnx::exec

#endif // SHARDONNX_DIALECT_EXEC_TRANSFORMS_LAUNCHES_H
