// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `Loop` and `Scan` nodes whose number of turns is known are their bodies, one
// behind the other.

#ifndef SHARDONNX_LIB_IMPORT_LOOPS_H
#define SHARDONNX_LIB_IMPORT_LOOPS_H

#include "llvm/ADT/StringMap.h"

#include <optional>
#include <string>
#include <vector>

namespace onnx {
class GraphProto;
class NodeProto;
} // namespace onnx

namespace shardonnx {

/// What decides how often a loop's body runs.
struct LoopTurns {
  /// The name of the number of turns (Loop), or of a tensor whose size along
  /// `axis` it is (Scan).
  std::string value;
  std::optional<int64_t> axis;
  /// Conditions that must hold, for else the loop ends before.
  std::vector<std::string> conditions;
};

/// Nothing for what is no loop, ends by what it computes, or has weights of its
/// own. The node need not be valid; `opset` is its graph's.
std::optional<LoopTurns> turnsOf(const ::onnx::NodeProto &node, int opset);

/// By what a loop is known: its first result that has a name, or "".
std::string loopName(const ::onnx::NodeProto &node);

/// Unrolls the loops, all of which have `turnsOf`, whose name is a key of
/// `turns`; those of no turn, or that would make the graph too large, stay.
void unrollLoops(::onnx::GraphProto &graph,
                 const llvm::StringMap<int64_t> &turns, int opset);

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_LOOPS_H
