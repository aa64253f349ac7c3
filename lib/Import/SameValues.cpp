// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SameValues.h.

#include "SameValues.h"

#include "Subgraphs.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {

/// Constants with more bytes are told apart by their names.
static constexpr size_t kMostBytes = 256;

/// Whether each such node may give another value.
static bool draws(const ::onnx::NodeProto &node) {
  StringRef op = node.op_type();
  return op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial" ||
         op == "Dropout" || isControlFlow(node);
}

SameValues::SameValues(const ::onnx::GraphProto &graph,
                       const KnownTensors &known) {
  for (const ::onnx::NodeProto &node : graph.node())
    visit(node, known);
}

void SameValues::visit(const ::onnx::NodeProto &node,
                       const KnownTensors &known) {
  if (draws(node))
    return;
  std::string key = node.domain() + '\n' + node.op_type();
  for (const std::string &input : node.input())
    key += '\n' + firstLike(input);
  for (const ::onnx::AttributeProto &attribute : node.attribute()) {
    std::string bytes = attribute.SerializeAsString();
    if (bytes.size() > kMostBytes)
      return;
    key += '\n' + bytes;
  }
  for (auto [i, output] : enumerate(node.output())) {
    StringRef source = known.movedFrom(output); // seen before, like its own
    std::string first =
        source != output
            ? firstLike(source)
            : computed.try_emplace(key + '\n' + std::to_string(i), output)
                  .first->second;
    if (first != output)
      firsts[output] = first;
  }
}

} // namespace shardonnx
