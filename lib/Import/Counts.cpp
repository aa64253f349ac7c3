// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Counts.h.

#include "Counts.h"

#include "KnownTensors.h"
#include "NodeWriter.h"
#include "Subgraphs.h"

#include "llvm/ADT/STLExtras.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {
namespace {

class Finder {
public:
  explicit Finder(const KnownTensors &known) : known(known) {}

  /// The name of N where `node` sums so; else nothing.
  StringRef find(const ::onnx::NodeProto &node) const;

private:
  bool isNumber(StringRef name, int64_t number) const {
    const std::vector<int64_t> *ints = known.intsOf(name);
    return ints && *ints == std::vector<int64_t>{number};
  }
  bool isZeroOrOne(StringRef name) const;
  bool isAboveLargest(StringRef name, StringRef of) const;
  bool isLargest(StringRef name, StringRef of) const;

  const KnownTensors &known;
};

} // namespace

/// Whether it is a condition as a number.
bool Finder::isZeroOrOne(StringRef name) const {
  if (isNumber(name, 1))
    return true;
  const ::onnx::NodeProto *lifted = known.producerOf(name, "Unsqueeze");
  const ::onnx::NodeProto *cast =
      lifted ? known.producerOf(lifted->input(0), "Cast") : nullptr;
  return cast && known.producerOf(cast->input(0), "Greater");
}

/// Whether it is max(x), or 0 of an x without elements.
bool Finder::isLargest(StringRef name, StringRef of) const {
  const ::onnx::NodeProto *lifted = known.producerOf(name, "Unsqueeze");
  const ::onnx::NodeProto *largest =
      lifted ? known.producerOf(lifted->input(0), "ReduceMax") : nullptr;
  const ::onnx::NodeProto *more =
      largest && largest->input_size() == 1
          ? known.producerOf(largest->input(0), "Concat")
          : nullptr;
  return more && more->input_size() == 2 && more->input(0) == of &&
         isNumber(more->input(1), 0);
}

/// Whether it is max(x) + 1, or less: times 0 where there is no x.
bool Finder::isAboveLargest(StringRef name, StringRef of) const {
  if (const ::onnx::NodeProto *product = known.producerOf(name, "Mul"))
    return isZeroOrOne(product->input(1)) &&
           isAboveLargest(product->input(0), of);
  const ::onnx::NodeProto *sum = known.producerOf(name, "Add");
  return sum && isNumber(sum->input(1), 1) && isLargest(sum->input(0), of);
}

StringRef Finder::find(const ::onnx::NodeProto &node) const {
  if (!isOp(node, "ScatterElements") || node.input_size() != 3)
    return {};
  const ::onnx::NodeProto *zeros = known.producerOf(node.input(0), "Expand");
  const ::onnx::NodeProto *size =
      zeros ? known.producerOf(zeros->input(1), "Max") : nullptr;
  if (!size || size->input_size() != 2 ||
      !(known.isZero(zeros->input(0)) || isNumber(zeros->input(0), 0)) ||
      !isAboveLargest(size->input(0), node.input(1)))
    return {};
  const std::vector<int64_t> *least = known.intsOf(size->input(1));
  return least && least->size() == 1 ? StringRef(size->input(1)) : StringRef();
}

/// The indices, in which what is negative is less by the size: out of range.
static std::string refuseNegatives(NodeWriter &writer, const std::string &of,
                                   const std::string &size) {
  auto add = [&](StringRef op, ArrayRef<std::string> inputs) {
    std::string result = writer.names.newName(of + "_counted");
    return &writer.add(op, inputs, {result});
  };
  ::onnx::NodeProto *numbers = add("Cast", {of});
  addAttribute(*numbers, "to", int64_t(::onnx::TensorProto::INT64));
  const std::string number = numbers->output(0);
  std::string zero = writer.addConstant(asTensor({0}), of + "_counted");
  std::string negative = add("Less", {number, zero})->output(0);
  std::string less = add("Sub", {number, size})->output(0);
  return add("Where", {negative, less, number})->output(0);
}

void fixNumbersOfCounts(::onnx::GraphProto &graph, int opset) {
  if (none_of(graph.node(), [](const ::onnx::NodeProto &node) {
        return isOp(node, "ScatterElements");
      }))
    return;
  StringMap<std::string> sizes; // of zeros that are read once, by their name
  {
    KnownTensors known(graph);
    Finder finder(known);
    StringMap<int> readers;
    for (const ::onnx::NodeProto &node : graph.node())
      for (const std::string &input : node.input())
        ++readers[input];
    for (const ::onnx::NodeProto &node : graph.node())
      if (StringRef size = finder.find(node);
          !size.empty() && readers.lookup(node.input(0)) == 1)
        sizes[node.input(0)] = size.str();
  }
  if (sizes.empty())
    return;
  NodeWriter writer(graph, opset);
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes;
  nodes.Swap(graph.mutable_node());
  for (::onnx::NodeProto &node : nodes) {
    if (auto made = sizes.find(node.output_size() ? node.output(0) : "");
        made != sizes.end())
      node.set_input(1, made->second);
    // The only reader of its zeros.
    if (auto counts = sizes.find(node.input_size() ? node.input(0) : "");
        counts != sizes.end()) {
      writer.standFor(node);
      node.set_input(1, refuseNegatives(writer, node.input(1), counts->second));
    }
    writer.keep(node);
  }
}

} // namespace shardonnx
