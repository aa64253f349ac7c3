// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --batch binds axis 0 of every input, --seq axis 1 of token inputs, --dim any
// dimension by name; a name that is bound in one place is bound everywhere,
// also in sums of names.

#include "Dimensions.h"

#include "Subgraphs.h"
#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {
namespace {

using Dim = ::onnx::TensorShapeProto::Dimension;

/// As `past_sequence_length + sequence_length`.
bool isSum(StringRef name) { return name.contains('+'); }

/// Token ids, labels, positions and masks: integers of shape [B, S].
bool isTokenInput(const ::onnx::TypeProto::Tensor &type) {
  return type.shape().dim_size() == 2 &&
         (type.elem_type() == ::onnx::TensorProto::INT64 ||
          type.elem_type() == ::onnx::TensorProto::INT32);
}

class Binder {
public:
  Binder(::onnx::GraphProto &graph, const ImportOptions &options,
         Diagnostics &diagnostics)
      : graph(graph), options(options), diagnostics(diagnostics),
        byName(options.dims) {}

  LogicalResult run() {
    // Files of the oldest versions list the weights among the inputs.
    llvm::StringSet<> weights;
    for (const ::onnx::TensorProto &tensor : graph.initializer())
      weights.insert(tensor.name());
    for (::onnx::ValueInfoProto &input : *graph.mutable_input())
      if (!weights.contains(input.name()) && failed(bindByOption(input)))
        return failure();
    for (const auto &entry : options.dims)
      if (!namesSeen.contains(entry.first()))
        return diagnostics.usageError("--dim: '" + options.model +
                                      "' has no dynamic dimension named '" +
                                      entry.first() + "'" + listNames());
    std::string unbound;
    for (::onnx::ValueInfoProto &input : *graph.mutable_input())
      bindByName(input, unbound);
    if (options.seq && !boundSeq)
      return diagnostics.usageError(
          "--seq=" + Twine(*options.seq) + ": '" + options.model +
          "' has no token input, an integer tensor of "
          "shape [batch, tokens]; leave the option out");
    if (!unbound.empty())
      return diagnostics.usageError(
          "'" + options.model + "': dynamic dimensions without a value: " +
          unbound + "; give them with --batch=N, --seq=N or --dim NAME=N" +
          (isPast ? " (--dim NAME=0: keys and values of an empty past)" : ""));
    if (!options.inputs)
      dropEmptyInputs(weights);
    forgetShapes();
    return success();
  }

private:
  std::string listNames() {
    std::string list;
    for (const auto &entry : namesSeen)
      list += (list.empty() ? "; it has '" : ", '") + entry.first().str() + "'";
    return list;
  }

  LogicalResult bind(const std::string &input, int axis, Dim &dim,
                     int64_t value, StringRef option, bool isNamed = false) {
    if (dim.has_dim_value() && dim.dim_value() != value && isNamed)
      return diagnostics.usageError(option + "=" + Twine(value) + ": axis " +
                                    Twine(axis) + " of input '" + input +
                                    "' has a --dim of its own, which says " +
                                    Twine(dim.dim_value()) + "; leave one out");
    if (dim.has_dim_value() && dim.dim_value() != value)
      return diagnostics.usageError(
          option + "=" + Twine(value) + ": axis " + Twine(axis) +
          " of input '" + input + "' of '" + options.model + "' is fixed to " +
          Twine(dim.dim_value()) + "; leave the option out or export again");
    if (!dim.dim_param().empty()) {
      auto [known, added] = byName.try_emplace(dim.dim_param(), value);
      if (!added && known->second != value)
        return diagnostics.usageError(option + "=" + Twine(value) + ": '" +
                                      dim.dim_param() + "' of input '" + input +
                                      "' is already bound to " +
                                      Twine(known->second));
    }
    dim.set_dim_value(value);
    return success();
  }

  LogicalResult bindByOption(::onnx::ValueInfoProto &input) {
    auto &type = *input.mutable_type()->mutable_tensor_type();
    if (!input.type().has_tensor_type() || !type.has_shape())
      return diagnostics.error("'" + options.model + "': input '" +
                               input.name() + "' has no tensor shape");
    for (int axis = 0; axis < type.shape().dim_size(); ++axis) {
      Dim &dim = *type.mutable_shape()->mutable_dim(axis);
      std::string name = dim.dim_param();
      if (!name.empty())
        namesSeen.insert(name);
      auto named = options.dims.find(name);
      if (!name.empty() && named != options.dims.end() && named->second == 0 &&
          (axis == 0 || isTokenInput(type)))
        return diagnostics.usageError(
            "--dim " + name + "=0: axis " + Twine(axis) + " of input '" +
            input.name() + "' counts " + (axis == 0 ? "samples" : "tokens") +
            ", of which there must be one; 0 is for a past that is empty");
      if (!name.empty() && named != options.dims.end() &&
          failed(bind(input.name(), axis, dim, named->second, "--dim " + name)))
        return failure();
      if (axis == 0 && options.batch && input.name() != kCacheSwitch &&
          failed(bind(input.name(), axis, dim, *options.batch, "--batch",
                      !name.empty())))
        return failure();
      if (axis == 1 && options.seq && isTokenInput(type) && !isSum(name)) {
        boundSeq = true;
        if (failed(bind(input.name(), axis, dim, *options.seq, "--seq",
                        !name.empty())))
          return failure();
      }
    }
    return success();
  }

  void bindByName(::onnx::ValueInfoProto &input, std::string &unbound) {
    auto &shape = *input.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      Dim &dim = *shape.mutable_dim(axis);
      if (dim.has_dim_value())
        continue;
      std::optional<int64_t> known = valueOf(dim.dim_param());
      if (!known && axis == 1 && isSum(dim.dim_param()) &&
          isTokenInput(input.type().tensor_type())) {
        known = options.seq;
        boundSeq |= known.has_value();
      }
      if (known) {
        dim.set_dim_value(*known);
        continue;
      }
      isPast |= StringRef(dim.dim_param()).contains("past");
      unbound += unbound.empty() ? "" : ", ";
      if (!dim.dim_param().empty())
        unbound += "'" + dim.dim_param() + "' (";
      unbound +=
          "axis " + std::to_string(axis) + " of input '" + input.name() + "'";
      if (!dim.dim_param().empty())
        unbound += ")";
    }
  }

  /// The value of a name, or of a sum of names and numbers, if it is known.
  std::optional<int64_t> valueOf(StringRef name) const {
    if (auto known = byName.find(name); known != byName.end())
      return known->second;
    int64_t sum = 0;
    SmallVector<StringRef> terms;
    name.split(terms, '+');
    for (StringRef term : terms) {
      auto known = byName.find(term.trim());
      int64_t value = 0;
      if (known != byName.end())
        value = known->second;
      else if (term.trim().getAsInteger(10, value))
        return std::nullopt;
      sum += value;
    }
    return sum;
  }

  /// Keys and values of a past of no tokens, as it is in training: an input
  /// without elements is no input.
  void dropEmptyInputs(const llvm::StringSet<> &weights) {
    auto &inputs = *graph.mutable_input();
    std::vector<std::string> dropped;
    for (int i = inputs.size() - 1; i >= 0; --i) {
      const auto &type = inputs.Get(i).type().tensor_type();
      if (weights.contains(inputs.Get(i).name()) ||
          llvm::none_of(type.shape().dim(),
                        [](const Dim &dim) { return dim.dim_value() == 0; }))
        continue;
      ::onnx::NodeProto &node =
          appendNode(graph, "Constant", {}, {inputs.Get(i).name()}, "");
      ::onnx::AttributeProto &value = *node.add_attribute();
      value.set_name("value");
      value.set_type(::onnx::AttributeProto::TENSOR);
      value.mutable_t()->set_data_type(type.elem_type());
      for (const Dim &dim : type.shape().dim())
        value.mutable_t()->add_dims(dim.dim_value());
      value.mutable_t()->set_raw_data("");
      moveLastNode(graph, 0);
      dropped.push_back("'" + inputs.Get(i).name() + "'");
      inputs.DeleteSubrange(i, 1);
    }
    if (!dropped.empty())
      diagnostics.note("'" + options.model +
                       "': inputs that have no elements are none: " +
                       llvm::join(llvm::reverse(dropped), ", "));
  }

  /// Shapes that named dynamic dimensions are inferred anew. The checker wants
  /// outputs to have a rank, so their dimensions only lose their names.
  void forgetShapes() {
    graph.clear_value_info();
    for (::onnx::ValueInfoProto &output : *graph.mutable_output()) {
      if (!output.type().has_tensor_type() ||
          !output.type().tensor_type().has_shape())
        continue;
      auto &type = *output.mutable_type()->mutable_tensor_type();
      for (Dim &dim : *type.mutable_shape()->mutable_dim())
        dim.clear_dim_param();
    }
  }

  ::onnx::GraphProto &graph;
  const ImportOptions &options;
  Diagnostics &diagnostics;
  llvm::StringMap<int64_t> byName;
  llvm::StringSet<> namesSeen;
  bool boundSeq = false, isPast = false;
};

} // namespace

LogicalResult bindDimensions(::onnx::GraphProto &graph,
                             const ImportOptions &options,
                             Diagnostics &diagnostics) {
  return Binder(graph, options, diagnostics).run();
}

} // namespace shardonnx
