// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See KnownBuffers.h.

#include "KnownBuffers.h"

#include "InitializerTable.h"
#include "KnownTables.h"
#include "Subgraphs.h"
#include "Untold.h"
#include "llvm/ADT/StringMap.h"

#include <onnx/onnx_pb.h>

using llvm::StringRef;

namespace shardonnx {

/// "weight" of "h.0.fc.weight".
static StringRef lastPart(StringRef name) {
  StringRef last = name.rsplit('.').second;
  return last.empty() ? name : last;
}

bool isStatisticName(StringRef name) {
  return llvm::is_contained(
      {"running_mean", "running_var", "num_batches_tracked"}, lastPart(name));
}

bool isBufferName(StringRef name) {
  static constexpr StringRef names[] = {
      "inv_freq",    "original_inv_freq", "mask",          "attn_mask",
      "causal_mask", "attention_mask",    "masked_bias",   "cos",
      "sin",         "cos_cached",        "sin_cached",    "cos_cache",
      "sin_cache",   "position_ids",      "token_type_ids"};
  return isStatisticName(name) || llvm::is_contained(names, lastPart(name));
}

bool isBufferByUse(const ::onnx::GraphProto &graph, StringRef name) {
  return isReadOnlyAs(graph, name, [](const ::onnx::NodeProto &node, int i) {
    bool norm = node.op_type() == "BatchNormalization";
    bool scaled = node.op_type() == "Resize" || node.op_type() == "Upsample" ||
                  node.op_type() == "DequantizeLinear";
    // Weights of classes, and what OneHot writes.
    bool weighs = node.op_type() == "SoftmaxCrossEntropyLoss" ||
                  node.op_type() == "NegativeLogLikelihoodLoss" ||
                  node.op_type() == "OneHot";
    return (norm && i >= 3) || (scaled && i >= 1) || (weighs && i == 2);
  });
}

/// Whether ones and zeros are what a layer starts with.
static bool mayStartAsMask(const ::onnx::GraphProto &graph,
                           const Initializer &init, bool named) {
  auto isReadBy = [&](std::initializer_list<StringRef> ops) {
    return isReadOnlyAs(
        graph, init.name, [&](const ::onnx::NodeProto &node, int) {
          return llvm::any_of(ops,
                              [&](StringRef op) { return isOp(node, op); });
        });
  };
  return isReadBy({"LSTM", "GRU", "RNN"}) ||
         (named && StringRef(init.symbol).ends_with("weight")) ||
         (named && isComputedName(init.symbol) && isReadBy({"MatMul", "Gemm"}));
}

bool isBufferByNumbers(const ::onnx::GraphProto &graph, const Initializer &init,
                       StringRef modelPath, bool named) {
  return (isMask(init, modelPath) && !mayStartAsMask(graph, init, named)) ||
         isWaves(init, modelPath) || isPositions(init, modelPath);
}

namespace {

/// What is made of arrays alone, and of which.
class Statistics {
public:
  explicit Statistics(const ::onnx::GraphProto &graph) : graph(graph) {
    for (const auto &input : graph.input())
      arrays.insert(input.name());
    for (const auto &tensor : graph.initializer())
      arrays.insert(tensor.name());
    for (const ::onnx::NodeProto &node : graph.node())
      for (const std::string &output : node.output())
        producers[output] = &node;
  }

  llvm::StringSet<> find();

private:
  /// Empty where the node has not so many: no checker has seen the graph yet.
  static StringRef inputOf(const ::onnx::NodeProto &node, int i) {
    return i < node.input_size() ? StringRef(node.input(i)) : StringRef();
  }
  /// The array that a value is, through changes of its shape; empty if it is
  /// computed otherwise.
  StringRef arrayOf(StringRef name) {
    // Each name once: chains are long. A file may have a circle.
    std::vector<StringRef *> passed;
    StringRef array = "";
    while (true) {
      auto [known, isNew] = arrayOfName.try_emplace(name);
      if (!isNew) {
        array = known->second;
        break;
      }
      passed.push_back(&known->second);
      const ::onnx::NodeProto *node = producers.lookup(name);
      if (!node) {
        array = arrays.contains(name) ? name : "";
        break;
      }
      if (!isOp(*node, "Reshape") && !isOp(*node, "Unsqueeze") &&
          !isOp(*node, "Squeeze") && !isOp(*node, "Expand") &&
          !isOp(*node, "Identity"))
        break;
      name = inputOf(*node, 0);
    }
    for (StringRef *result : passed)
      *result = array;
    return array;
  }

  /// The mean in an offset that is made of arrays alone: -mean·scale, or
  /// beta - mean·scale; empty if there is none.
  StringRef meanIn(const ::onnx::NodeProto &node);

  const ::onnx::GraphProto &graph;
  llvm::StringSet<> arrays;
  llvm::StringMap<const ::onnx::NodeProto *> producers;
  llvm::StringMap<StringRef> arrayOfName;
};

} // namespace

StringRef Statistics::meanIn(const ::onnx::NodeProto &node) {
  if (isOp(node, "Mul")) {
    for (const std::string &input : node.input())
      if (const ::onnx::NodeProto *minus = producers.lookup(input);
          minus && isOp(*minus, "Neg"))
        return arrayOf(inputOf(*minus, 0));
    return "";
  }
  const ::onnx::NodeProto *product =
      isOp(node, "Sub") ? producers.lookup(inputOf(node, 1)) : nullptr;
  if (product && isOp(*product, "Mul"))
    for (const std::string &input : product->input())
      if (StringRef array = arrayOf(input); !array.empty())
        return array;
  return "";
}

llvm::StringSet<> Statistics::find() {
  llvm::StringSet<> found, scales;
  for (const ::onnx::NodeProto &node : graph.node()) {
    if (node.output_size() == 0)
      continue;
    bool scaled = llvm::any_of(node.input(), [&](const std::string &input) {
      return scales.contains(input);
    });
    bool others = llvm::all_of(node.input(), [&](const std::string &input) {
      const ::onnx::NodeProto *minus = producers.lookup(input);
      bool negated = minus && isOp(*minus, "Neg");
      return scales.contains(input) ||
             !arrayOf(negated ? inputOf(*minus, 0) : StringRef(input)).empty();
    });
    const ::onnx::NodeProto *sum =
        isOp(node, "Sqrt") ? producers.lookup(inputOf(node, 0)) : nullptr;
    if (sum && isOp(*sum, "Add") && !arrayOf(inputOf(*sum, 0)).empty() &&
        !arrayOf(inputOf(*sum, 1)).empty()) {
      // One of the two is epsilon, of one element.
      found.insert(arrayOf(inputOf(*sum, 0)));
      found.insert(arrayOf(inputOf(*sum, 1)));
      scales.insert(node.output(0));
    } else if (scaled && others) {
      scales.insert(node.output(0));
      if (StringRef mean = meanIn(node); !mean.empty())
        found.insert(mean);
    } else if (scaled && (isOp(node, "Div") || isOp(node, "Mul"))) {
      // The mean is taken from what is scaled.
      for (const std::string &input : node.input())
        if (const ::onnx::NodeProto *difference = producers.lookup(input);
            difference && isOp(*difference, "Sub") &&
            !arrayOf(inputOf(*difference, 1)).empty())
          found.insert(arrayOf(inputOf(*difference, 1)));
    }
  }
  return found;
}

llvm::StringSet<> findStatistics(const ::onnx::GraphProto &graph) {
  return Statistics(graph).find();
}

} // namespace shardonnx
