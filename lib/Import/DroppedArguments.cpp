// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads arguments out of the text of a traced call.

#include "DroppedArguments.h"

#include "Subgraphs.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

using llvm::StringRef;

namespace shardonnx {
namespace {

StringRef fxNodeOf(const ::onnx::NodeProto &node) {
  for (const auto &prop : node.metadata_props())
    if (prop.key() == "pkg.torch.onnx.fx_node")
      return prop.value();
  return "";
}

/// The text up to the comma or bracket that ends it.
StringRef takeArgument(StringRef text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += StringRef("([{").contains(text[i]);
    bool closes = StringRef(")]}").contains(text[i]);
    if (depth == 0 && (closes || text[i] == ','))
      return text.take_front(i);
    depth -= closes;
  }
  return text;
}

/// An argument by its place or, where it was given so, by its name.
StringRef findArgument(StringRef fxNode, unsigned place, StringRef name) {
  StringRef list = fxNode.split("(args = (").second;
  for (unsigned i = 0; !list.empty(); ++i) {
    StringRef argument = takeArgument(list);
    if (i == place && !argument.trim().empty())
      return argument.trim();
    list = list.drop_front(argument.size());
    if (!list.consume_front(","))
      break;
  }
  StringRef named = fxNode.split("kwargs = {").second;
  size_t at = named.find((name + ": ").str());
  return at == StringRef::npos
             ? ""
             : takeArgument(named.drop_front(at + name.size() + 2)).trim();
}

bool calls(StringRef fxNode, StringRef operation) {
  return fxNode.contains(("target=torch.ops.aten." + operation + ".").str());
}

/// Of operations, each with its overload.
bool callsAny(StringRef fxNode, std::initializer_list<StringRef> operations) {
  return llvm::any_of(operations, [&](StringRef one) {
    return fxNode.contains(("target=torch.ops.aten." + one + "](").str());
  });
}

/// Whether a clamp's bounds are tensors: the exporter makes some numbers such,
/// by scalar_tensor.
bool clampsByTensors(StringRef fxNode) {
  if (!callsAny(fxNode,
                {"clamp.Tensor", "clamp_min.Tensor", "clamp_max.Tensor"}))
    return false;
  StringRef bounds[] = {findArgument(fxNode, 1, "min"),
                        findArgument(fxNode, 2, "max")};
  return llvm::any_of(bounds, [](StringRef bound) {
    return bound.starts_with("%") && !bound.starts_with("%scalar_tensor");
  });
}

/// The tracer calls results `detach`, `detach_1`, … (`detach_`, which works in
/// place, is of constants.)
bool isDetachName(StringRef name) {
  if (!name.consume_front("detach"))
    return false;
  return name.empty() ||
         (name.consume_front("_") && !name.empty() &&
          llvm::all_of(name, [](char c) { return llvm::isDigit(c); }));
}

} // namespace

void DroppedArguments::addTo(mlir::NamedAttrList &attributes,
                             mlir::Builder &builder) const {
  if (paddingIndex)
    attributes.append("padding_idx", builder.getI64IntegerAttr(*paddingIndex));
  if (labelSmoothing != 0)
    attributes.append("label_smoothing",
                      builder.getF64FloatAttr(labelSmoothing));
  if (detaches)
    attributes.append("detach", builder.getUnitAttr());
  if (ties)
    attributes.append("ties", builder.getUnitAttr());
  if (keepsLonger)
    attributes.append("keeps_longer", builder.getUnitAttr());
  if (divisor != 0)
    attributes.append("divisor_override", builder.getI64IntegerAttr(divisor));
  if (cuts)
    attributes.append("cuts", builder.getUnitAttr());
  if (first)
    attributes.append("first", builder.getUnitAttr());
  if (trainsNorm)
    attributes.set("training_mode", builder.getI64IntegerAttr(1));
}

DroppedArguments readDroppedArguments(StringRef op, StringRef fxNode) {
  DroppedArguments dropped;
  int64_t row = -1;
  if (op == "Gather" && calls(fxNode, "embedding") &&
      !findArgument(fxNode, 2, "padding_idx").getAsInteger(10, row) && row >= 0)
    dropped.paddingIndex = row;
  double smoothing = 0;
  if (op == "SoftmaxCrossEntropyLoss" && calls(fxNode, "cross_entropy_loss") &&
      !findArgument(fxNode, 5, "label_smoothing").getAsDouble(smoothing) &&
      smoothing > 0 && smoothing <= 1)
    dropped.labelSmoothing = smoothing;
  dropped.trainsNorm = op == "BatchNormalization" &&
                       (calls(fxNode, "_native_batch_norm_legit_functional") ||
                        calls(fxNode, "_native_batch_norm_legit") ||
                        calls(fxNode, "batch_norm")) &&
                       findArgument(fxNode, 5, "training") == "True";
  dropped.averages = op == "ScatterElements" &&
                     calls(fxNode, "scatter_reduce") &&
                     findArgument(fxNode, 4, "reduce") == "mean";
  dropped.detaches = op == "Identity" && calls(fxNode, "detach");
  int64_t divisor = 0;
  if (op == "AveragePool" &&
      (calls(fxNode, "avg_pool2d") || calls(fxNode, "avg_pool3d")) &&
      !findArgument(fxNode, 6, "divisor_override").getAsInteger(10, divisor))
    dropped.divisor = divisor;
  bool byTensors = clampsByTensors(fxNode);
  dropped.ties =
      op == "Clip" &&
      (byTensors || callsAny(fxNode, {"minimum.default", "maximum.default",
                                      "min.other", "max.other"}));
  dropped.cuts = (op == "Max" || op == "Min") && !byTensors &&
                 (calls(fxNode, "clamp") || calls(fxNode, "clamp_min") ||
                  calls(fxNode, "clamp_max"));
  dropped.first = (op == "ReduceMax" || op == "ReduceMin") &&
                  callsAny(fxNode, {"max.dim", "min.dim"});
  dropped.keepsLonger = op == "Squeeze" && calls(fxNode, "squeeze");
  return dropped;
}

namespace {

/// What a traced operator reads.
llvm::SmallVector<StringRef> readsOf(StringRef fxNode) {
  llvm::SmallVector<StringRef> names;
  StringRef arguments = fxNode.split("(args = (").second.split('%').second;
  for (; !arguments.empty(); arguments = arguments.split('%').second)
    names.push_back(arguments.take_while(
        [](char c) { return llvm::isAlnum(c) || c == '_'; }));
  return names;
}

/// Which values of a graph are computed from what trains.
class TrainedValues {
public:
  TrainedValues(const ::onnx::GraphProto &graph,
                llvm::function_ref<bool(StringRef)> isTrained) {
    for (const auto &constant : graph.initializer())
      if (isTrained(constant.name()))
        trained.insert(constant.name());
    // Nodes come behind what they read. One with a body may read anything.
    for (const ::onnx::NodeProto &node : graph.node()) {
      if (hasNoGradient(node))
        continue;
      if (isControlFlow(node) ||
          llvm::any_of(node.input(), [&](const std::string &name) {
            return trained.contains(name);
          }))
        trained.insert_range(node.output());
    }
  }

  /// Whether what `node` reads beside the values named `others` may be. One
  /// that it reads more often than these say, or nothing else, may be that.
  bool mayBeReadBy(const ::onnx::NodeProto &node,
                   llvm::ArrayRef<StringRef> others) const {
    bool some = false;
    for (const std::string &name : node.input()) {
      if (auto known = llvm::count(others, name)) {
        if (llvm::count(node.input(), name) > known)
          return true;
        continue;
      }
      if (trained.contains(name))
        return true;
      some = true;
    }
    return !some;
  }

private:
  llvm::StringSet<> trained;
};

} // namespace

std::string findErasedDetach(const ::onnx::GraphProto &graph,
                             llvm::function_ref<bool(StringRef)> isTrained) {
  llvm::StringSet<> known;
  for (const auto &input : graph.input())
    known.insert(input.name());
  for (const auto &constant : graph.initializer())
    if (!isTrained(constant.name()))
      known.insert(constant.name());
  for (const ::onnx::NodeProto &node : graph.node())
    if (calls(fxNodeOf(node), "detach"))
      known.insert(fxNodeOf(node).drop_front().take_until(
          [](char c) { return c == ' '; }));
  std::optional<TrainedValues> trained;
  for (const ::onnx::NodeProto &node : graph.node()) {
    if (hasNoGradient(node))
      continue;
    llvm::SmallVector<StringRef> names = readsOf(fxNodeOf(node));
    if (llvm::none_of(names, [&](StringRef name) {
          return isDetachName(name) && !known.contains(name);
        }))
      continue;
    if (!trained)
      trained.emplace(graph, isTrained);
    if (trained->mayBeReadBy(node, names))
      return node.name();
  }
  return "";
}

} // namespace shardonnx
