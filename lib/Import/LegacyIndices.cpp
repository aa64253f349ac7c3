// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See LegacyIndices.h. The exporter's sums are told from a module's own
// `x.flatten(0, 1)[i * size + j]` by what follows: it gives what it has
// gathered the shape of the sum, by a Reshape to `Concat(…, Shape(sum), …)`.

#include "LegacyIndices.h"

#include "KnownTensors.h"
#include "NodeWriter.h"
#include "OnnxLibrary.h"
#include "Subgraphs.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {
namespace {

/// Sums of more axes are nobody's, and bodies of ops may be as long.
constexpr int kMostSteps = 64;

/// The first opset whose ScatterElements has a `reduction`.
constexpr int kScatterReduces = 16;

/// A size, such as that of the rows that a mask selects.
constexpr int64_t kUnknown = -1;

StringRef inputOf(const ::onnx::NodeProto &node, int place) {
  return place < node.input_size() ? StringRef(node.input(place)) : StringRef();
}

/// `indices[0] * sizes[1] * … + … + indices.back()`, as one Gather reads it.
/// The first index stays as it is, and has no name here; nor have constants.
struct IndexSum {
  std::vector<std::string> indices, products; // one product less
  std::vector<int64_t> sizes;                 // of the axes
  bool exact = true; // as the exporter writes it, of known sizes

  auto key() const { return std::tie(indices, products, sizes); }
  bool operator<(const IndexSum &other) const { return key() < other.key(); }
};

class Finder {
public:
  /// `typed`: the graph with shapes, as far as they can be inferred.
  Finder(const ::onnx::GraphProto &graph, const ::onnx::GraphProto &typed,
         const KnownTensors &known)
      : known(known) {
    for (const auto *values :
         {&typed.value_info(), &typed.input(), &typed.output()})
      for (const ::onnx::ValueInfoProto &value : *values)
        if (value.type().tensor_type().has_shape()) {
          std::vector<int64_t> &sizes = partlyKnown[value.name()];
          for (const auto &dim : value.type().tensor_type().shape().dim())
            sizes.push_back(dim.has_dim_value() ? dim.dim_value() : kUnknown);
        }
    for (const ::onnx::NodeProto &node : graph.node())
      for (const std::string &input : node.input())
        readers[input].push_back(&node);
    for (const ::onnx::ValueInfoProto &output : graph.output())
      readers[output.name()].push_back(nullptr);
  }

  /// Of one Gather; nothing where it is another's, or has no index that may
  /// be negative.
  std::optional<IndexSum> find(const ::onnx::NodeProto &gather) const;
  /// Whether elements of what an op makes are handed on as this.
  bool comesFrom(StringRef value, ArrayRef<StringRef> ops) const;
  /// Null where there are several, or the graph returns it.
  const ::onnx::NodeProto *onlyReader(StringRef value) const {
    auto found = readers.find(value);
    return found != readers.end() && found->second.size() == 1
               ? found->second.front()
               : nullptr;
  }

private:
  /// Of the list of one number that is the size of axes; PyTorch's own sizes
  /// are scalars.
  std::optional<int64_t> sizeOf(StringRef value, int steps = 0) const;
  bool isListOfOne(StringRef value) const {
    const std::vector<int64_t> *shape = known.shapeOf(value);
    return shape && *shape == std::vector<int64_t>{1};
  }
  bool takesShapeOf(const ::onnx::NodeProto &gather, StringRef sum) const;
  bool mayBeNegative(StringRef index) const {
    return !comesFrom(index, {"NonZero", "ArgMax", "ArgMin"});
  }

  const std::vector<int64_t> *sizesOf(StringRef value) const {
    if (const std::vector<int64_t> *shape = known.shapeOf(value))
      return shape;
    auto found = partlyKnown.find(value);
    return found == partlyKnown.end() ? nullptr : &found->second;
  }

  const KnownTensors &known;
  StringMap<std::vector<int64_t>> partlyKnown;
  StringMap<SmallVector<const ::onnx::NodeProto *, 2>> readers;
};

std::optional<int64_t> Finder::sizeOf(StringRef value, int steps) const {
  if (steps > kMostSteps || !isListOfOne(value))
    return std::nullopt;
  if (const std::vector<int64_t> *ints = known.intsOf(value))
    return ints->front();
  if (const ::onnx::NodeProto *same = known.producerOf(value, "Identity"))
    return sizeOf(inputOf(*same, 0), steps + 1);
  if (const ::onnx::NodeProto *product = known.producerOf(value, "Mul")) {
    auto left = sizeOf(inputOf(*product, 0), steps + 1);
    auto right = sizeOf(inputOf(*product, 1), steps + 1);
    return left && right && isUInt<31>(*left) && isUInt<31>(*right)
               ? std::optional(*left * *right)
               : std::nullopt;
  }
  const ::onnx::NodeProto *gather = known.producerOf(value, "Gather");
  const ::onnx::NodeProto *shape =
      gather ? known.producerOf(inputOf(*gather, 0), "Shape") : nullptr;
  if (!shape || shape->attribute_size() > 0)
    return std::nullopt;
  const std::vector<int64_t> *sizes = sizesOf(inputOf(*shape, 0));
  const std::vector<int64_t> *axis = known.intsOf(inputOf(*gather, 1));
  if (!sizes || !axis || axis->size() != 1 || axis->front() < 0 ||
      axis->front() >= int64_t(sizes->size()) ||
      (*sizes)[axis->front()] == kUnknown)
    return std::nullopt;
  return (*sizes)[axis->front()];
}

bool Finder::comesFrom(StringRef value, ArrayRef<StringRef> ops) const {
  static const StringSet<> handsOn = {"Identity",  "Reshape", "Transpose",
                                      "Squeeze",   "Slice",   "Split",
                                      "Unsqueeze", "Expand",  "Gather"};
  const ::onnx::NodeProto *node = known.producerOf(value);
  for (int step = 0; node && step < kMostSteps && node->domain().empty() &&
                     handsOn.contains(node->op_type());
       ++step)
    node = known.producerOf(inputOf(*node, 0));
  return node && node->domain().empty() && is_contained(ops, node->op_type());
}

bool Finder::takesShapeOf(const ::onnx::NodeProto &gather,
                          StringRef sum) const {
  const ::onnx::NodeProto *node = onlyReader(gather.output(0));
  for (int step = 0; node && step < 3; ++step) {
    bool reshapes = isOp(*node, "Reshape");
    if ((!reshapes && !isOp(*node, "Transpose")) || node->output_size() != 1)
      return false;
    const ::onnx::NodeProto *shape =
        reshapes ? known.producerOf(inputOf(*node, 1), "Concat") : nullptr;
    if (shape && any_of(shape->input(), [&](const std::string &part) {
          const ::onnx::NodeProto *of = known.producerOf(part, "Shape");
          return of && inputOf(*of, 0) == sum;
        }))
      return true;
    node = onlyReader(node->output(0));
  }
  return false;
}

std::optional<IndexSum> Finder::find(const ::onnx::NodeProto &gather) const {
  if (!isOp(gather, "Gather") || gather.input_size() != 2 ||
      gather.output_size() != 1 || intAttribute(gather, "axis", 0) != 0)
    return std::nullopt;
  const ::onnx::NodeProto *flatten =
      known.producerOf(gather.input(0), "Flatten");
  int64_t count = flatten ? intAttribute(*flatten, "axis", 1) : 0;
  if (count < 2 || count > kMostSteps || flatten->input_size() != 1)
    return std::nullopt;
  IndexSum sum;
  const bool isExporters = takesShapeOf(gather, gather.input(1));
  sum.exact = isExporters;
  const std::vector<int64_t> *shape = sizesOf(flatten->input(0));
  if (shape && int64_t(shape->size()) >= count)
    sum.sizes.assign(shape->begin(), shape->begin() + count);
  // How long the first axis is does not matter.
  if (sum.sizes.empty() ||
      is_contained(ArrayRef(sum.sizes).drop_front(), kUnknown)) {
    sum.exact = false;
    sum.sizes.clear();
  }
  bool ownStride = false;
  StringRef value = gather.input(1);
  for (int64_t axis = 0; axis < count - 1; ++axis) {
    const ::onnx::NodeProto *add = known.producerOf(value, "Add");
    if (!add)
      return std::nullopt;
    const ::onnx::NodeProto *product =
        known.producerOf(inputOf(*add, 1), "Mul");
    std::optional<int64_t> size =
        product ? sizeOf(inputOf(*product, 1)) : std::nullopt;
    // An index that is a constant has been multiplied already.
    if (!product && !known.isConstant(inputOf(*add, 1)))
      return std::nullopt;
    if (product && !isListOfOne(inputOf(*product, 1)) &&
        (!isExporters || known.shapeOf(inputOf(*product, 1))))
      return std::nullopt;
    // The sizes of any other sum are not those of the axes.
    if (size && !sum.sizes.empty() &&
        *size != elementsOf(ArrayRef(sum.sizes).drop_front(axis + 1)))
      ownStride = true;
    sum.exact &= size || (!product && axis == 0);
    sum.products.push_back(inputOf(*add, 1).str());
    sum.indices.push_back(product && axis > 0 ? inputOf(*product, 0).str()
                                              : std::string());
    value = inputOf(*add, 0);
  }
  sum.indices.push_back(value.str());
  if (ownStride)
    return std::nullopt;
  bool any = false;
  for (std::string &index : MutableArrayRef(sum.indices).drop_front()) {
    any |= index.empty() || mayBeNegative(index);
    sum.exact &= known.typeOf(index) == ::onnx::TensorProto::INT64;
  }
  if (!any)
    return std::nullopt;
  return sum;
}

/// The sum of indices that are counted from the beginnings of their axes. The
/// old one may be another's, too.
std::string writeCounted(NodeWriter &writer, const IndexSum &sum,
                         const std::string &name) {
  auto add = [&](StringRef op, ArrayRef<std::string> inputs) {
    std::string result = writer.names.newName(name + "_counted");
    writer.add(op, inputs, {result});
    return result;
  };
  auto list = [&](int64_t number) {
    return writer.addConstant(asTensor({number}), name + "_counted");
  };
  auto counted = [&](size_t axis) {
    const std::string &index = sum.indices[axis];
    return add("Where", {add("Less", {index, list(0)}),
                         add("Add", {index, list(sum.sizes[axis])}), index});
  };
  size_t last = sum.sizes.size() - 1;
  std::string result = counted(last);
  for (size_t axis = last; axis-- > 0;) {
    std::string product = sum.products[axis];
    if (axis > 0)
      product = add(
          "Mul", {counted(axis),
                  list(elementsOf(ArrayRef(sum.sizes).drop_front(axis + 1)))});
    result = add("Add", {result, product});
  }
  return result;
}

void countFromOwnEnds(::onnx::GraphProto &graph, int opset,
                      const ::onnx::GraphProto &typed,
                      const KnownTensors &known,
                      function_ref<void(const Twine &)> warn) {
  StringMap<IndexSum> found; // by the result of the Gather
  {
    Finder finder(graph, typed, known);
    for (const ::onnx::NodeProto &node : graph.node()) {
      std::optional<IndexSum> sum = finder.find(node);
      if (!sum)
        continue;
      if (sum->exact)
        found.try_emplace(node.output(0), std::move(*sum));
      else
        warn("node '" + node.name() +
             "' (Gather) may be x[i, j] of the older exporter, or the module's "
             "own sum of places: where it is x[i, j], a negative j finds "
             "another element than in the module; export with dynamo=True, or "
             "count from the beginning");
    }
  }
  if (found.empty())
    return;
  NodeWriter writer(graph, opset);
  std::map<IndexSum, std::string> written;
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes;
  nodes.Swap(graph.mutable_node());
  for (::onnx::NodeProto &node : nodes) {
    auto sum =
        node.output_size() == 1 ? found.find(node.output(0)) : found.end();
    if (sum != found.end()) {
      writer.standFor(node);
      std::string &result = written[sum->second];
      if (result.empty())
        result = writeCounted(writer, sum->second, node.input(1));
      *node.mutable_input(1) = result;
    }
    writer.keep(node);
  }
}

/// Whether what is scattered is of the file's constants: so it is in a module's
/// own `x + zeros_like(x).scatter(1, labels, 1.0)`, in which a label that
/// stands twice says one.
bool scattersConstant(const ::onnx::NodeProto &scatter,
                      const KnownTensors &known) {
  StringRef source = inputOf(scatter, 2);
  const ::onnx::NodeProto *expand = known.producerOf(source, "Expand");
  return known.isConstant(source) ||
         (expand && known.isConstant(inputOf(*expand, 0)));
}

/// `x.index_add()` expands indices to the shape of what it adds, whose own
/// shape it expands too.
bool isIndexAdd(const ::onnx::NodeProto &scatter, const KnownTensors &known) {
  const ::onnx::NodeProto *indices =
      known.producerOf(inputOf(scatter, 1), "Expand");
  const ::onnx::NodeProto *shape =
      indices ? known.producerOf(inputOf(*indices, 1), "Shape") : nullptr;
  return known.producerOf(inputOf(scatter, 2), "Expand") && shape &&
         inputOf(*shape, 0) == inputOf(scatter, 2);
}

/// Whether zeros are of the shape of another tensor: by their size, or as the
/// graph says.
bool areLike(StringRef zeros, StringRef other, const KnownTensors &known) {
  const std::vector<int64_t> *shape = known.shapeOf(zeros);
  const std::vector<int64_t> *wanted = known.shapeOf(other);
  if (zeros == other)
    return true;
  if (shape && wanted)
    return *shape == *wanted;
  const ::onnx::NodeProto *node = known.producerOf(zeros, "ConstantOfShape");
  const ::onnx::NodeProto *size =
      node ? known.producerOf(inputOf(*node, 0), "Shape") : nullptr;
  return size && size->attribute_size() == 0 && inputOf(*size, 0) == other;
}

/// What an exporter's scatter to zeros, which `sum` adds to a tensor, means.
enum class Meaning { Adds, MayAdd, MayBeOwn, Own };

/// Files of opset 16 and later have scatter_add() by its attribute.
Meaning meaningOf(const ::onnx::NodeProto &scatter,
                  const ::onnx::NodeProto &sum, int exported,
                  const KnownTensors &known) {
  if (isOp(scatter, "ScatterND") || isIndexAdd(scatter, known))
    return Meaning::Adds;
  if (exported >= kScatterReduces)
    return Meaning::Own;
  if (known.isZero(inputOf(sum, 0)))
    return Meaning::Adds;
  return scattersConstant(scatter, known) ? Meaning::MayBeOwn : Meaning::MayAdd;
}

/// The zeros are of the shape of what the sum adds them to, and nothing else
/// reads the scatter. A mask has no place twice.
void addUp(::onnx::GraphProto &graph, const ::onnx::GraphProto &typed,
           int exported, const KnownTensors &known,
           function_ref<void(const Twine &)> warn) {
  Finder finder(graph, typed, known);
  for (::onnx::NodeProto &node : *graph.mutable_node()) {
    if ((!isOp(node, "ScatterElements") && !isOp(node, "ScatterND")) ||
        node.output_size() != 1 || findAttribute(node, "reduction") ||
        !known.isZero(inputOf(node, 0)) ||
        finder.comesFrom(inputOf(node, 1), {"NonZero"}))
      continue;
    const ::onnx::NodeProto *sum = finder.onlyReader(node.output(0));
    if (!sum || !isOp(*sum, "Add") || inputOf(*sum, 1) != node.output(0) ||
        !areLike(inputOf(node, 0), inputOf(*sum, 0), known))
      continue;
    Meaning meaning = meaningOf(node, *sum, exported, known);
    const bool adds = meaning == Meaning::Adds || meaning == Meaning::MayAdd;
    if (meaning == Meaning::MayAdd || meaning == Meaning::MayBeOwn)
      warn("node '" + node.name() +
           "' (ScatterElements) may be x.scatter_add() or x.index_add() of the "
           "older exporter, or the module's own x + zeros.scatter(): where it "
           "is " +
           (adds ? "the latter, what stands at one place twice is added up"
                 : "one of the former, what an index adds twice counts once") +
           "; export with dynamo=True, or with opset_version=16 or more");
    if (adds)
      addAttribute(node, "reduction", StringRef("add"));
  }
}

} // namespace

void mendLegacyIndices(::onnx::ModelProto &model, int opset, int exported,
                       function_ref<void(const Twine &)> warn) {
  if (none_of(model.graph().node(), [](const ::onnx::NodeProto &node) {
        return isOp(node, "Flatten") || isOp(node, "ScatterND") ||
               isOp(node, "ScatterElements");
      }))
    return;
  // What cannot be inferred is not mended.
  ::onnx::ModelProto typed = model;
  consumeError(onnxlib::inferShapes(typed));
  KnownTensors known(typed.graph());
  ::onnx::GraphProto &graph = *model.mutable_graph();
  addUp(graph, typed.graph(), exported, known, warn);
  countFromOwnEnds(graph, opset, typed.graph(), known, warn);
}

} // namespace shardonnx
