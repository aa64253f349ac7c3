// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ErasedStops.h.

#include "ErasedStops.h"

#include "KnownTensors.h"
#include "SameValues.h"
#include "Subgraphs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

using llvm::StringRef;

namespace shardonnx {
namespace {

class Finder {
public:
  Finder(const ::onnx::GraphProto &graph,
         llvm::function_ref<bool(StringRef)> isTrained)
      : graph(graph), isTrained(isTrained), same(graph, KnownTensors(graph)) {}

  std::string find() {
    for (const ::onnx::NodeProto &node : graph.node()) {
      add(node);
      if (std::string text = describe(node); !text.empty())
        return text;
    }
    return "";
  }

private:
  bool trains(StringRef value) {
    return trained.contains(value) || isTrained(value);
  }
  void add(const ::onnx::NodeProto &node);
  /// The two operands of the node that makes `value`, if it is of this op.
  const ::onnx::NodeProto *maker(StringRef value, StringRef op) const {
    const ::onnx::NodeProto *node = makers.lookup(same.firstLike(value));
    return node && isOp(*node, op) && node->input_size() == 2 ? node : nullptr;
  }
  bool isEqual(StringRef one, StringRef other) const {
    return same.firstLike(one) == same.firstLike(other);
  }
  /// What the node computes if it takes away, by `minus`, what it adds by
  /// `plus`. Not (x + y) - x, which is what a residual block has added.
  std::string form(const ::onnx::NodeProto &node, StringRef plus,
                   StringRef minus, StringRef sign, StringRef opposite);
  std::string describe(const ::onnx::NodeProto &node);

  const ::onnx::GraphProto &graph;
  llvm::function_ref<bool(StringRef)> isTrained;
  SameValues same;
  llvm::StringMap<const ::onnx::NodeProto *> makers;
  llvm::StringSet<> trained;
};

void Finder::add(const ::onnx::NodeProto &node) {
  bool moves = !hasNoGradient(node) &&
               (isControlFlow(node) ||
                llvm::any_of(node.input(), [&](const std::string &input) {
                  return trains(input);
                }));
  if (moves)
    trained.insert_range(node.output());
  for (const std::string &output : node.output())
    makers[output] = &node;
}

std::string Finder::form(const ::onnx::NodeProto &node, StringRef plus,
                         StringRef minus, StringRef sign, StringRef opposite) {
  auto text = [](auto... parts) { return (StringRef(parts).str() + ...); };
  StringRef a = node.input(0), b = node.input(1);
  if (isOp(node, minus)) {
    if (isEqual(a, b))
      return text("x ", opposite, " x");
    const ::onnx::NodeProto *inner = maker(b, minus);
    return inner && isEqual(inner->input(0), a)
               ? text("x ", opposite, " (x ", opposite, " y)")
               : "";
  }
  if (!isOp(node, plus))
    return "";
  for (auto [term, other] : {std::pair(a, b), std::pair(b, a)})
    if (const ::onnx::NodeProto *inner = maker(other, minus);
        inner && isEqual(inner->input(1), term))
      return text("x ", sign, " (y ", opposite, " x)");
  return "";
}

std::string Finder::describe(const ::onnx::NodeProto &node) {
  if (node.input_size() != 2 || node.output_size() != 1 ||
      !trained.contains(node.output(0)))
    return "";
  std::string text = form(node, "Add", "Sub", "+", "-");
  if (text.empty())
    text = form(node, "Mul", "Div", "*", "/");
  return text.empty()
             ? ""
             : "'" + (node.name().empty() ? node.output(0) : node.name()) +
                   "' (" + node.op_type() + ") computes " + text;
}

} // namespace

std::string findErasedStop(const ::onnx::GraphProto &graph,
                           llvm::function_ref<bool(StringRef)> isTrained) {
  return Finder(graph, isTrained).find();
}

} // namespace shardonnx
