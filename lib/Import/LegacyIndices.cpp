// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See LegacyIndices.h. The exporter's sums are told from a module's own
// `x.flatten(0, 1)[i * size + j]` by the sizes: PyTorch's are scalars, the
// exporter's are lists of one.

#include "LegacyIndices.h"

#include "KnownTensors.h"
#include "NodeWriter.h"
#include "Subgraphs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {
namespace {

/// Files are not checked yet: sums may go round in circles, and lack operands.
constexpr int kMostSteps = 64;

StringRef inputOf(const ::onnx::NodeProto &node, int place) {
  return place < node.input_size() ? StringRef(node.input(place)) : StringRef();
}

/// An index of an axis, which one node reads as operand number `place`.
struct Index {
  std::string reader;
  int place;
  int64_t axis;
  std::string flattened;
};

class Finder {
public:
  explicit Finder(const ::onnx::GraphProto &graph) {
    auto note = [&](const std::string &name, const ::onnx::TensorProto &value) {
      if (value.dims_size() == 1 && value.dims(0) == 1)
        listsOfOne.insert(name);
    };
    for (const ::onnx::TensorProto &tensor : graph.initializer())
      note(tensor.name(), tensor);
    for (const ::onnx::NodeProto &node : graph.node()) {
      if (node.output_size() == 1 && !node.output(0).empty())
        producers[node.output(0)] = &node;
      if (const auto *value = findAttribute(node, "value");
          value && isOp(node, "Constant") && node.output_size() == 1)
        note(node.output(0), value->t());
    }
  }

  /// Those of one Gather; none where it is another's.
  std::vector<Index> find(const ::onnx::NodeProto &gather) const;
  /// Whether elements of what an op makes are handed on as this.
  bool comesFrom(StringRef value, ArrayRef<StringRef> ops) const;

private:
  const ::onnx::NodeProto *producerOf(StringRef value, StringRef op) const {
    const ::onnx::NodeProto *node = producers.lookup(value);
    return node && isOp(*node, op) ? node : nullptr;
  }
  bool isSizeOfAxis(StringRef value) const;
  /// One axis, or several multiplied.
  bool isSize(StringRef value) const;

  StringMap<const ::onnx::NodeProto *> producers;
  StringSet<> listsOfOne; // constants
};

bool Finder::isSizeOfAxis(StringRef value) const {
  if (const ::onnx::NodeProto *gather = producerOf(value, "Gather"))
    return producerOf(inputOf(*gather, 0), "Shape") &&
           listsOfOne.contains(inputOf(*gather, 1));
  return listsOfOne.contains(value);
}

bool Finder::isSize(StringRef value) const {
  for (int step = 0; step < kMostSteps; ++step) {
    const ::onnx::NodeProto *product = producerOf(value, "Mul");
    if (!product)
      return isSizeOfAxis(value);
    if (!isSizeOfAxis(inputOf(*product, 1)))
      return false;
    value = inputOf(*product, 0);
  }
  return false;
}

bool Finder::comesFrom(StringRef value, ArrayRef<StringRef> ops) const {
  static const StringSet<> handsOn = {"Identity",  "Reshape", "Transpose",
                                      "Squeeze",   "Slice",   "Split",
                                      "Unsqueeze", "Expand",  "Gather"};
  const ::onnx::NodeProto *node = producers.lookup(value);
  for (int step = 0; node && step < kMostSteps && node->domain().empty() &&
                     handsOn.contains(node->op_type());
       ++step)
    node = producers.lookup(inputOf(*node, 0));
  return node && node->domain().empty() && is_contained(ops, node->op_type());
}

std::vector<Index> Finder::find(const ::onnx::NodeProto &gather) const {
  if (!isOp(gather, "Gather") || gather.input_size() != 2 ||
      gather.output_size() != 1 || intAttribute(gather, "axis", 0) != 0)
    return {};
  const ::onnx::NodeProto *flatten = producerOf(gather.input(0), "Flatten");
  int64_t count = flatten ? intAttribute(*flatten, "axis", 1) : 0;
  if (count < 2 || count > kMostSteps || flatten->input_size() != 1)
    return {};
  std::vector<Index> indices;
  const ::onnx::NodeProto *reader = &gather;
  int place = 1;
  for (int64_t axis = 0; axis < count - 1; ++axis) {
    const ::onnx::NodeProto *sum = producerOf(inputOf(*reader, place), "Add");
    const ::onnx::NodeProto *product =
        sum ? producerOf(inputOf(*sum, 1), "Mul") : nullptr;
    if (!product || !isSize(inputOf(*product, 1)))
      return {};
    indices.push_back({product->output(0), 0, axis, flatten->input(0)});
    reader = sum;
    place = 0;
  }
  indices.push_back({reader->output(0), place, count - 1, flatten->input(0)});
  erase_if(indices, [&](const Index &index) {
    const ::onnx::NodeProto *node = producers.lookup(index.reader);
    return !node || comesFrom(inputOf(*node, index.place),
                              {"NonZero", "ArgMax", "ArgMin"});
  });
  return indices;
}

/// The index, counted from the beginning.
std::string writeCounted(NodeWriter &writer, const Index &index,
                         const std::string &value) {
  auto add = [&](StringRef op, ArrayRef<std::string> inputs) {
    std::string result = writer.names.newName(value + "_counted");
    writer.add(op, inputs, {result});
    return result;
  };
  auto list = [&](int64_t number) {
    return writer.addConstant(asTensor({number}), value + "_counted");
  };
  std::string size =
      add("Gather", {add("Shape", {index.flattened}), list(index.axis)});
  return add("Where",
             {add("Less", {value, list(0)}), add("Add", {value, size}), value});
}

void countFromOwnEnds(::onnx::GraphProto &graph, int opset) {
  // By the result of the node that reads it: sums may be shared.
  std::map<std::pair<std::string, int>, Index> found;
  Finder finder(graph);
  for (const ::onnx::NodeProto &node : graph.node())
    for (const Index &index : finder.find(node))
      found.try_emplace({index.reader, index.place}, index);
  if (found.empty())
    return;
  NodeWriter writer(graph, opset);
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes;
  nodes.Swap(graph.mutable_node());
  for (::onnx::NodeProto &node : nodes) {
    writer.standFor(node);
    for (int place = 0; place < node.input_size(); ++place) {
      if (node.output_size() == 0)
        continue;
      auto index = found.find({node.output(0), place});
      if (index != found.end())
        *node.mutable_input(place) =
            writeCounted(writer, index->second, node.input(place));
    }
    writer.keep(node);
  }
}

/// The zeros are of the shape of what the sum adds them to, and nothing else
/// reads the scatter. A mask has no place twice.
void addUp(::onnx::GraphProto &graph) {
  Finder finder(graph);
  StringMap<const ::onnx::NodeProto *> shapes, zeros;
  StringMap<::onnx::NodeProto *> scatters;
  StringMap<int> readers;
  for (const ::onnx::NodeProto &node : graph.node())
    for (const std::string &input : node.input())
      ++readers[input];
  for (const ::onnx::ValueInfoProto &output : graph.output())
    ++readers[output.name()];
  for (::onnx::NodeProto &node : *graph.mutable_node()) {
    if (node.output_size() != 1)
      continue;
    if (isOp(node, "Shape")) {
      shapes[node.output(0)] = &node;
    } else if (isOp(node, "ConstantOfShape")) {
      const ::onnx::AttributeProto *value = findAttribute(node, "value");
      if (shapes.contains(inputOf(node, 0)) && value &&
          isZeroTensor(value->t()))
        zeros[node.output(0)] = shapes.lookup(inputOf(node, 0));
    } else if (isOp(node, "ScatterND")) {
      if (zeros.contains(inputOf(node, 0)) &&
          readers.lookup(node.output(0)) == 1 &&
          !findAttribute(node, "reduction") &&
          !finder.comesFrom(inputOf(node, 1), {"NonZero"}))
        scatters[node.output(0)] = &node;
    } else if (isOp(node, "Add")) {
      auto scatter = scatters.find(inputOf(node, 1));
      if (scatter != scatters.end() &&
          inputOf(*zeros.lookup(inputOf(*scatter->second, 0)), 0) ==
              inputOf(node, 0))
        addAttribute(*scatter->second, "reduction", StringRef("add"));
    }
  }
}

/// Since which a scatter can add up.
constexpr int kScattersAdd = 16;

} // namespace

void mendLegacyIndices(::onnx::GraphProto &graph, int opset) {
  countFromOwnEnds(graph, opset);
  if (opset >= kScattersAdd)
    addUp(graph);
}

} // namespace shardonnx
