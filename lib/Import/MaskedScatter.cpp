// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See MaskedScatter.h.

#include "MaskedScatter.h"

#include "KnownTensors.h"
#include "NodeWriter.h"
#include "OnnxLibrary.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Error.h"

#include <limits>
#include <optional>

using namespace llvm;

namespace shardonnx {
namespace {

using Shape = std::vector<int64_t>;

struct MaskedScatter {
  std::string data, mask, source;
  /// Of the mask, which may be of fewer axes than the data has.
  Shape places;
  int64_t rows = 0, width = 0; // of the source
  /// Whether there must be as many places as rows, not as many or fewer.
  bool exact = false;
};

/// More than anybody has.
constexpr int64_t kMostElements = int64_t(1) << 40;

/// Finds them in a graph whose shapes are inferred.
class Finder {
public:
  explicit Finder(const KnownTensors &known) : known(known) {}

  std::optional<MaskedScatter> find(const ::onnx::NodeProto &node) const;

private:
  bool findMask(StringRef indices, MaskedScatter &found) const;
  bool findSource(StringRef updates, MaskedScatter &found) const;

  const KnownTensors &known;
};

} // namespace

/// What NonZero reads, without the trailing axes that it repeats.
bool Finder::findMask(StringRef indices, MaskedScatter &found) const {
  const ::onnx::NodeProto *turned = known.producerOf(indices, "Transpose");
  const ::onnx::NodeProto *nonzero =
      turned ? known.producerOf(turned->input(0), "NonZero") : nullptr;
  const Shape *data = known.shapeOf(found.data);
  if (!nonzero || !data)
    return false;
  std::string mask = nonzero->input(0);
  const Shape *shape = known.shapeOf(mask);
  if (!shape || shape->empty() || shape->size() > data->size() ||
      !std::equal(shape->begin(), shape->end(), data->begin()))
    return false;
  size_t whole = shape->size();
  while (const ::onnx::NodeProto *repeated = known.producerOf(mask, "Expand")) {
    const Shape *once = known.shapeOf(repeated->input(0));
    if (!once || once->size() != shape->size())
      break;
    size_t axes = 0;
    while (axes < whole && (*once)[axes] == (*shape)[axes])
      ++axes;
    if (any_of(ArrayRef(*once).slice(axes, whole - axes),
               [](int64_t size) { return size != 1; }))
      break;
    mask = repeated->input(0);
    whole = axes;
  }
  if (whole == 0)
    return false;
  found.mask = mask;
  found.places.assign(data->begin(), data->begin() + ptrdiff_t(whole));
  if (!elementsUpTo(*data, kMostElements))
    return false;
  found.width = elementsOf(ArrayRef(*data).drop_front(whole));
  return true;
}

/// What updates are the first rows of, or all rows.
bool Finder::findSource(StringRef updates, MaskedScatter &found) const {
  if (const auto *flat = known.producerOf(updates, "Reshape"))
    if (known.producerOf(flat->input(0), "Expand"))
      updates = flat->input(0);
  found.exact = true;
  if (const auto *first = known.producerOf(updates, "Slice");
      first && !known.shapeOf(updates)) {
    const Shape *starts = known.intsOf(first->input(1)),
                *axes = first->input_size() > 3 ? known.intsOf(first->input(3))
                                                : nullptr;
    if (first->input_size() > 4 || !starts || *starts != Shape{0} || !axes ||
        *axes != Shape{0})
      return false;
    found.source = first->input(0);
    found.exact = false;
  } else if (const auto *all = known.producerOf(updates, "Expand")) {
    // To as many rows as there are places: one row would go to all of them.
    const Shape *rows = known.shapeOf(all->input(0));
    if (!rows || rows->size() < 2 || rows->front() == 1 ||
        elementsUpTo(ArrayRef(*rows).drop_front(), kMostElements) !=
            found.width)
      return false;
    found.source = all->input(0);
  } else {
    found.source = updates.str();
  }
  const Shape *source = known.shapeOf(found.source);
  std::optional<int64_t> elements =
      source ? elementsUpTo(*source, kMostElements) : std::nullopt;
  if (!elements || *elements % found.width != 0)
    return false;
  found.rows = *elements / found.width;
  return true;
}

std::optional<MaskedScatter> Finder::find(const ::onnx::NodeProto &node) const {
  const ::onnx::AttributeProto *reduction = findAttribute(node, "reduction");
  if (!isOp(node, "ScatterND") || node.input_size() != 3 ||
      (reduction && reduction->s() != "none"))
    return std::nullopt;
  MaskedScatter found;
  found.data = node.input(0);
  if (!findMask(node.input(1), found) || !findSource(node.input(2), found))
    return std::nullopt;
  return found;
}

namespace {

class ScatterWriter {
public:
  ScatterWriter(::onnx::GraphProto &graph, int opset, const KnownTensors &known)
      : writer(graph, opset), known(known) {}

  void write(const ::onnx::NodeProto &node, const MaskedScatter &scatter);
  void keep(::onnx::NodeProto &node) { writer.keep(node); }

private:
  std::string add(StringRef op, ArrayRef<std::string> inputs) {
    std::string result = writer.names.newName(base);
    writer.add(op, inputs, {result});
    return result;
  }
  std::string cast(const std::string &value, int type) {
    std::string result = add("Cast", {value});
    addAttribute(*writer.graph.mutable_node()->rbegin(), "to", int64_t(type));
    return result;
  }
  std::string ints(ArrayRef<int64_t> numbers) {
    return writer.addConstant(asTensor(numbers), base);
  }
  std::string reshape(const std::string &value, ArrayRef<int64_t> shape) {
    return add("Reshape", {value, ints(shape)});
  }
  std::string checked(const std::string &rows, const std::string &before,
                      const MaskedScatter &scatter);

  NodeWriter writer;
  const KnownTensors &known;
  std::string base; // of names
};

/// Not a number where there are too few rows, or others than places.
std::string ScatterWriter::checked(const std::string &rows,
                                   const std::string &before,
                                   const MaskedScatter &scatter) {
  int type = known.typeOf(scatter.data);
  // PyTorch's older exporter writes `x[mask] = row`, which goes to all places,
  // as it writes masked_scatter() of one row.
  if (!isFloat(type) || (scatter.rows == 1 && !scatter.exact))
    return rows;
  int64_t last = elementsOf(scatter.places) - 1;
  std::string fits = scatter.exact
                         ? add("Equal", {add("Gather", {before, ints({last})}),
                                         ints({scatter.rows - 1})})
                         : add("Less", {before, ints({scatter.rows})});
  ::onnx::TensorProto nan;
  nan.set_data_type(::onnx::TensorProto::FLOAT);
  nan.add_float_data(std::numeric_limits<float>::quiet_NaN());
  return add("Where", {reshape(fits, {-1, 1}), rows,
                       cast(writer.addConstant(nan, base), type)});
}

void ScatterWriter::write(const ::onnx::NodeProto &node,
                          const MaskedScatter &scatter) {
  writer.standFor(node);
  base = node.output(0) + "_in_order";
  std::string mask = scatter.mask;
  if (known.typeOf(mask) != ::onnx::TensorProto::BOOL)
    mask = cast(mask, ::onnx::TensorProto::BOOL);
  // Each place's row: of the first selected one number 0.
  std::string counted =
      add("CumSum", {cast(reshape(mask, {-1}), ::onnx::TensorProto::INT64),
                     reshape(ints({0}), {})});
  std::string row = add("Sub", {counted, ints({1})});
  std::string within =
      add("Min", {add("Max", {row, ints({0})}), ints({scatter.rows - 1})});
  std::string source = reshape(scatter.source, {scatter.rows, scatter.width});
  std::string rows = checked(add("Gather", {source, within}), row, scatter);
  const Shape &data = *known.shapeOf(scatter.data);
  Shape chosen = scatter.places;
  chosen.resize(data.size(), 1);
  writer.add("Where",
             {reshape(mask, chosen), reshape(rows, data), scatter.data},
             {node.output(0)});
}

/// What is made for a scatter alone.
bool isOfScatter(const ::onnx::NodeProto &node) {
  static const StringSet<> ops = {"NonZero", "Transpose", "Shape",   "Gather",
                                  "Slice",   "Unsqueeze", "Squeeze", "Reshape",
                                  "Expand",  "ReduceSum", "Cast",    "Concat"};
  return node.domain().empty() && ops.contains(node.op_type());
}

/// Whether a ScatterND reads the places of a mask as they are, before any shape
/// is inferred.
bool scattersToMask(const ::onnx::GraphProto &graph) {
  StringSet<> places, indices;
  for (const ::onnx::NodeProto &node : graph.node()) {
    if (isOp(node, "NonZero"))
      places.insert(node.output(0));
    else if (isOp(node, "Transpose") && places.contains(node.input(0)))
      indices.insert(node.output(0));
    else if (isOp(node, "ScatterND") && indices.contains(node.input(1)))
      return true;
  }
  return false;
}

} // namespace

void writeOutMaskedScatters(::onnx::ModelProto &model, int opset) {
  if (!scattersToMask(model.graph()))
    return;
  ::onnx::ModelProto typed = model;
  foldAxes(*typed.mutable_graph());
  if (Error error = onnxlib::inferShapes(typed))
    return consumeError(std::move(error)); // others will say it
  KnownTensors known(typed.graph());
  Finder finder(known);
  std::vector<std::optional<MaskedScatter>> found;
  for (const ::onnx::NodeProto &node : model.graph().node())
    found.push_back(finder.find(node));
  if (none_of(found, [](const auto &one) { return one.has_value(); }))
    return;
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes;
  nodes.Swap(model.mutable_graph()->mutable_node());
  ScatterWriter writer(*model.mutable_graph(), opset, known);
  for (auto [node, scatter] : zip_equal(nodes, found))
    if (scatter)
      writer.write(node, *scatter);
    else
      writer.keep(node);
  dropUnreadNodes(*model.mutable_graph(), isOfScatter);
}

} // namespace shardonnx
