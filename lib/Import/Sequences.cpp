// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Sequences.h.

#include "Sequences.h"

#include "KnownTensors.h"
#include "NodeWriter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Endian.h"

#include <optional>

using namespace llvm;

namespace shardonnx {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
using Names = std::vector<std::string>;

/// Of a longer one, no elements are known: each op of it copies their names.
constexpr size_t kMostElements = 4096;

std::optional<int64_t> numberOf(const ::onnx::TensorProto &tensor) {
  if (tensor.data_type() != ::onnx::TensorProto::INT64)
    return std::nullopt;
  if (tensor.int64_data_size() == 1)
    return tensor.int64_data(0);
  if (tensor.raw_data().size() == sizeof(int64_t))
    return support::endian::read64le(tensor.raw_data().data());
  return std::nullopt;
}

class SequenceResolver {
public:
  SequenceResolver(::onnx::GraphProto &graph, int opset)
      : graph(graph), writer(graph, opset) {}

  void run() {
    for (const ::onnx::TensorProto &tensor : graph.initializer())
      noteNumber(tensor.name(), tensor);
    Nodes nodes;
    nodes.Swap(graph.mutable_node());
    for (::onnx::NodeProto &node : nodes) {
      writer.standFor(node);
      if (!resolve(node))
        writer.keep(node);
    }
    dropUnread();
  }

private:
  void noteNumber(const std::string &name, const ::onnx::TensorProto &value) {
    if (std::optional<int64_t> number = numberOf(value))
      numbers[name] = *number;
  }

  /// The elements of a sequence that is known.
  const Names *elements(const ::onnx::NodeProto &node) const {
    auto known = sequences.find(node.input_size() ? node.input(0) : "");
    return known == sequences.end() ? nullptr : &known->second;
  }

  /// The place that input `i` says, of 0 … `size` - 1; `otherwise` without it.
  std::optional<size_t> placeAt(const ::onnx::NodeProto &node, int i,
                                size_t size,
                                std::optional<size_t> otherwise) const {
    if (node.input_size() <= i || node.input(i).empty())
      return otherwise;
    auto number = numbers.find(node.input(i));
    if (number == numbers.end())
      return std::nullopt;
    int64_t place = number->second, end = int64_t(size);
    place += place < 0 ? end : 0;
    if (place < 0 || place >= end)
      return std::nullopt;
    return size_t(place);
  }

  bool isTensor(const ::onnx::NodeProto &node, int i) const {
    return node.input_size() > i && !node.input(i).empty() &&
           !sequences.contains(node.input(i));
  }

  bool resolve(const ::onnx::NodeProto &node);
  void make(const ::onnx::NodeProto &node);
  void change(const ::onnx::NodeProto &node, const Names &before);
  bool read(const ::onnx::NodeProto &node, const Names &from);
  bool map(const ::onnx::NodeProto &node);
  void dropUnread();

  ::onnx::GraphProto &graph;
  NodeWriter writer;
  StringMap<int64_t> numbers;
  StringMap<Names> sequences; // their elements
};

} // namespace

void SequenceResolver::make(const ::onnx::NodeProto &node) {
  if (!isOp(node, "SequenceEmpty") && !isOp(node, "SequenceConstruct"))
    return;
  for (int i = 0; i < node.input_size(); ++i)
    if (!isTensor(node, i))
      return;
  sequences[node.output(0)] = Names(node.input().begin(), node.input().end());
}

void SequenceResolver::change(const ::onnx::NodeProto &node,
                              const Names &before) {
  Names after = before;
  size_t size = before.size();
  if (isOp(node, "SequenceInsert") && isTensor(node, 1) &&
      size < kMostElements) {
    // Before an element, or behind the last.
    std::optional<size_t> place = placeAt(node, 2, size + 1, size);
    if (!place)
      return;
    after.insert(after.begin() + ptrdiff_t(*place), node.input(1));
  } else if (isOp(node, "SequenceErase") && size > 0) {
    std::optional<size_t> place = placeAt(node, 1, size, size - 1);
    if (!place)
      return;
    after.erase(after.begin() + ptrdiff_t(*place));
  } else if (!isOp(node, "Identity")) {
    return;
  }
  sequences[node.output(0)] = std::move(after);
}

/// Whether the node, which reads a sequence, has another in its place.
bool SequenceResolver::read(const ::onnx::NodeProto &node, const Names &from) {
  if (isOp(node, "SequenceAt")) {
    std::optional<size_t> place =
        placeAt(node, 1, from.size(), /*otherwise=*/std::nullopt);
    if (place)
      writer.add("Identity", {from[*place]}, {node.output(0)});
    return place.has_value();
  }
  const ::onnx::AttributeProto *axis = findAttribute(node, "axis");
  if (!isOp(node, "ConcatFromSequence") || from.empty() || !axis)
    return false;
  Names parts = from;
  const ::onnx::AttributeProto *isNew = findAttribute(node, "new_axis");
  if (isNew && isNew->i() != 0)
    for (std::string &part : parts)
      part = writer.changeAxis("Unsqueeze", part, axis->i());
  writer.concat(parts, node.output(0), axis->i());
  return true;
}

/// Whether the elements of SequenceMap's results are named: a copy of its body
/// for each element, as of torch.hstack, which looks at each tensor's rank.
bool SequenceResolver::map(const ::onnx::NodeProto &node) {
  const Names *mapped = elements(node);
  const ::onnx::AttributeProto *attribute = findAttribute(node, "body");
  if (!mapped || !attribute || !SubgraphWriter::canStandOutside(attribute->g()))
    return false;
  const ::onnx::GraphProto &body = attribute->g();
  size_t count = mapped->size();
  if (count == 0 || body.input_size() != node.input_size() ||
      body.output_size() != node.output_size() ||
      is_contained(node.input(), "") || is_contained(node.output(), "") ||
      !writer.hasRoomFor(body, int64_t(count), 0))
    return false;
  // An input is a sequence as long as the first, or a tensor for all.
  std::vector<Names> inputs(count), results(size_t(node.output_size()));
  for (const std::string &input : node.input()) {
    auto known = sequences.find(input);
    if (known != sequences.end() && known->second.size() != count)
      return false;
    for (size_t i = 0; i < count; ++i)
      inputs[i].push_back(known == sequences.end() ? input : known->second[i]);
  }
  for (const Names &taken : inputs)
    for (auto [all, one] : zip(results, writer.copy(body, taken)))
      all.push_back(one);
  for (auto [name, all] : zip(node.output(), results)) {
    writer.add("SequenceConstruct", all, {name});
    sequences[name] = std::move(all);
  }
  return true;
}

bool SequenceResolver::resolve(const ::onnx::NodeProto &node) {
  if (isOp(node, "SequenceMap"))
    return map(node);
  if (node.output_size() != 1)
    return false;
  if (isOp(node, "Constant"))
    if (const auto *value = findAttribute(node, "value"))
      noteNumber(node.output(0), value->t());
  const Names *known = elements(node);
  if (!known)
    make(node);
  else if (read(node, *known))
    return true;
  else
    change(node, Names(*known));
  return false;
}

/// Sequences that are known and that nobody reads any longer.
void SequenceResolver::dropUnread() {
  dropUnreadNodes(graph, [&](const ::onnx::NodeProto &node) {
    return node.output_size() == 1 && sequences.contains(node.output(0));
  });
}

void resolveSequences(::onnx::GraphProto &graph, int opset) {
  bool any = any_of(graph.node(), [](const ::onnx::NodeProto &node) {
    return isOp(node, "SequenceEmpty") || isOp(node, "SequenceConstruct");
  });
  if (any)
    SequenceResolver(graph, opset).run();
}

namespace {

/// Sizes of a SplitToSequence that are constant.
struct SplitSizes {
  const ::onnx::NodeProto *node;
  std::vector<int64_t> sizes; // of each part, or one of all
  bool equal = true;

  /// From where to where the part goes.
  std::optional<std::pair<int64_t, int64_t>> part(int64_t place) const {
    constexpr int64_t kMost = int64_t(1) << 31;
    if (place < 0 || place >= kMost ||
        (!equal && place >= int64_t(sizes.size())) ||
        any_of(sizes, [](int64_t size) { return size < 0 || size >= kMost; }))
      return std::nullopt;
    if (equal)
      return std::pair(place * sizes[0], (place + 1) * sizes[0]);
    int64_t start =
        std::accumulate(sizes.begin(), sizes.begin() + place, int64_t(0));
    return std::pair(start, start + sizes[place]);
  }
};

std::optional<SplitSizes> splitSizesOf(const ::onnx::NodeProto &node,
                                       const KnownTensors &known) {
  if (node.input_size() < 2 || node.input(1).empty())
    return SplitSizes{&node, {1}};
  const std::vector<int64_t> *sizes = known.intsOf(node.input(1));
  const ::onnx::NodeProto *made = known.producerOf(node.input(1));
  const auto *value = made ? findAttribute(*made, "value") : nullptr;
  const std::vector<int64_t> *shape = known.shapeOf(node.input(1));
  if (!sizes || sizes->empty() || sizes->size() > kMostElements ||
      (made ? !value : !shape))
    return std::nullopt;
  return SplitSizes{&node, *sizes,
                    made ? value->t().dims_size() == 0 : shape->empty()};
}

} // namespace

void resolveSplits(::onnx::GraphProto &graph, int opset) {
  const ::onnx::GraphProto before = graph; // what `known` points into
  KnownTensors known(before);
  StringMap<SplitSizes> splits;
  for (const ::onnx::NodeProto &node : before.node())
    if (isOp(node, "SplitToSequence"))
      if (std::optional<SplitSizes> sizes = splitSizesOf(node, known))
        splits.try_emplace(node.output(0), *sizes);
  if (splits.empty())
    return;
  NodeWriter writer(graph, opset);
  graph.clear_node();
  for (const ::onnx::NodeProto &node : before.node()) {
    auto split =
        isOp(node, "SequenceAt") ? splits.find(node.input(0)) : splits.end();
    const std::vector<int64_t> *place =
        split == splits.end() ? nullptr : known.intsOf(node.input(1));
    auto part = place && place->size() == 1 ? split->second.part(place->front())
                                            : std::nullopt;
    if (!part) {
      *graph.add_node() = node;
      continue;
    }
    writer.standFor(node);
    const ::onnx::NodeProto &whole = *split->second.node;
    int64_t axis = intAttribute(whole, "axis", 0);
    bool drops = (whole.input_size() < 2 || whole.input(1).empty()) &&
                 !intAttribute(whole, "keepdims", 1);
    std::string name = node.output(0);
    auto ints = [&](int64_t number) {
      return writer.addConstant(asTensor({number}), name + "_part");
    };
    std::string slice = drops ? writer.names.newName(name + "_slice") : name;
    writer.add(
        "Slice",
        {whole.input(0), ints(part->first), ints(part->second), ints(axis)},
        {slice});
    if (drops)
      writer.add("Squeeze", {slice, ints(axis)}, {name});
  }
  dropUnreadNodes(graph, [&](const ::onnx::NodeProto &node) {
    return isOp(node, "SplitToSequence");
  });
}

} // namespace shardonnx
