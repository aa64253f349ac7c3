// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See UnsupportedOps.h.

#include "UnsupportedOps.h"

#include "Dimensions.h"
#include "NodeWriter.h"
#include "OnnxLibrary.h"
#include "Subgraphs.h"
#include "shardonnx/Support/RefusedOps.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {

namespace {

StringRef nameOf(const ::onnx::NodeProto &node) {
  if (!node.name().empty() || node.output_size() == 0)
    return node.name();
  return node.output(0);
}

std::string whyStrange(StringRef domain, StringRef op) {
  if (domain == "com.microsoft" || op == "SimplifiedLayerNormalization")
    return "of ONNX Runtime's own: give the graph as it was before it was "
           "optimized or quantized";
  return domain.empty() ? "the model's opset has no such op"
                        : "its domain is not ONNX's";
}

/// What there is of control flow in a graph.
struct Flow {
  bool bags = false, loops = false, cached = false;
};

/// Branches are of the module's own; the older exporter makes loops of a bag,
/// the newer one of torch.jit.script alone.
std::string adviseOnControlFlow(const Flow &flow) {
  if (flow.cached)
    return "a decoder that chooses by an input whether it has a cache is no "
           "module to train: give the one without (decoder_model.onnx)";
  if (flow.bags)
    return "write nn.EmbeddingBag as nn.Embedding and a sum or mean over its "
           "bags";
  std::string advice =
      "export with fixed shapes and without branches or torch.jit.script";
  if (flow.loops)
    advice += ", and nn.EmbeddingBag as nn.Embedding and a sum or mean; loops "
              "are unrolled where shapes say how often they turn, up to " +
              std::to_string(kMostNodes) + " nodes of a graph";
  return advice;
}

} // namespace

std::string describeUnsupportedOps(const ::onnx::ModelProto &model,
                                   const Metadata &metadata,
                                   function_ref<bool(StringRef)> isKnown,
                                   bool expanded) {
  RefusedOps refused, flow;
  bool strange = false, others = false;
  Flow kinds;
  kinds.cached = llvm::any_of(model.graph().input(), [](const auto &input) {
    return input.name() == kCacheSwitch;
  });
  for (const ::onnx::NodeProto &node : model.graph().node()) {
    StringRef domain = node.domain();
    onnxlib::Schema schema = onnxlib::findSchema(model, node);
    if (schema == onnxlib::Schema::HasBody && !expanded)
      continue;
    std::string why;
    if (isControlFlow(node)) {
      flow.add(domain, node.op_type(), nameOf(node));
      kinds.loops |= node.op_type() != "If";
      kinds.bags |= StringRef(metadata.infoOf(node).target)
                        .starts_with("aten.embedding_bag");
      why = "control flow";
    } else if (schema == onnxlib::Schema::None) {
      strange = true;
      why = whyStrange(domain, node.op_type());
    } else if (domain.empty() && isKnown(node.op_type())) {
      continue;
    } else {
      others = true;
    }
    refused.add(domain, node.op_type(), nameOf(node), why);
  }
  if (flow.empty() && !strange)
    return "";
  std::string advice = flow.empty() ? "" : "; " + adviseOnControlFlow(kinds);
  if (!strange && !others)
    return "control flow is not supported: " + flow.list() + advice;
  return "these ONNX ops are not supported: " + refused.list() + advice;
}

} // namespace shardonnx
