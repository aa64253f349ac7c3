// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See NoGrad.h.

#include "NoGrad.h"

#include "InitializerTable.h"
#include "KnownTables.h"
#include "Subgraphs.h"
#include "TrainingChoice.h"
#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {

static constexpr StringRef kRegion = "File \"<eval_with_key>";

/// What the first frame says.
static StringRef firstFrame(StringRef stackTrace) {
  return stackTrace.split("\n  File").first;
}

StringRef regionOf(StringRef stackTrace) {
  if (!stackTrace.consume_front(kRegion))
    return "";
  return stackTrace.take_until([](char c) { return c == '"'; });
}

bool isAutocast(StringRef stackTrace) {
  StringRef frame = firstFrame(stackTrace);
  while (true) {
    frame = frame.split("arg").second;
    if (frame.empty())
      return false;
    StringRef number =
        frame.take_while([](char c) { return llvm::isDigit(c); });
    if (!number.empty() && frame.drop_front(number.size()).starts_with("_1"))
      return true;
  }
}

namespace {

class Stopper {
public:
  Stopper(::onnx::GraphProto &graph, Metadata &metadata,
          const ImportOptions &options, Diagnostics &diagnostics)
      : graph(graph), metadata(metadata), options(options),
        diagnostics(diagnostics) {}

  LogicalResult run(ArrayRef<Initializer> initializers);

private:
  LogicalResult decideWhich();
  bool isInside(const ::onnx::NodeProto &node, const NodeInfo &info) const;
  LogicalResult leave(::onnx::NodeProto &node, const NodeInfo &info);
  LogicalResult checkMerged(const NodeInfo &reader, StringRef call);
  void addStops();

  ::onnx::GraphProto &graph;
  Metadata &metadata;
  const ImportOptions &options;
  Diagnostics &diagnostics;
  /// Values that depend on what is trained; of those that are computed without
  /// gradients, the operator; and those of them that are read outside.
  llvm::StringSet<> trained, stopped, calls;
  llvm::StringMap<std::string> inside;
  bool stops = true; // where they leave
};

/// A node that the exporter has rewritten has no trace, and is where all is
/// that it reads.
bool Stopper::isInside(const ::onnx::NodeProto &node,
                       const NodeInfo &info) const {
  if (info.underNoGrad || !info.arguments.empty() || !info.target.empty())
    return info.underNoGrad;
  bool any = false;
  for (const std::string &input : node.input()) {
    any |= inside.contains(input);
    if (metadata.nodes.contains(input) && !inside.contains(input))
      return false;
  }
  return any;
}

/// The exporter merges equal computations: one that has read the result of its
/// own has now that of the region.
LogicalResult Stopper::checkMerged(const NodeInfo &reader, StringRef call) {
  if (call.empty() || reader.reads(call))
    return success();
  for (const NodeArgument &argument : reader.arguments)
    if (operatorOf(argument.name) == operatorOf(call) &&
        !calls.contains(argument.name))
      return diagnostics.error(
          "'" + options.model + "': node '" + reader.node + "' read '" +
          argument.name + "', which the exporter has merged with '" + call +
          "' under torch.no_grad(): gradients could not flow; export with "
          "optimize=False");
  return success();
}

LogicalResult Stopper::leave(::onnx::NodeProto &node, const NodeInfo &info) {
  for (std::string &input : *node.mutable_input()) {
    auto found = inside.find(input);
    if (found == inside.end())
      continue;
    if (failed(checkMerged(info, found->second)))
      return failure();
    stopped.insert(input);
    input += "_no_grad";
  }
  return success();
}

/// Each behind the node that makes its value.
void Stopper::addStops() {
  ::google::protobuf::RepeatedPtrField<::onnx::NodeProto> nodes;
  nodes.Swap(graph.mutable_node());
  for (::onnx::NodeProto &node : nodes) {
    graph.add_node()->Swap(&node);
    const ::onnx::NodeProto made = *graph.node().rbegin();
    for (const std::string &output : made.output()) {
      if (!stopped.contains(output))
        continue;
      std::string same = output + "_no_grad";
      const ::onnx::NodeProto &stop =
          appendNode(graph, "Identity", {output}, {same}, same);
      NodeInfo info;
      info.node = stop.name();
      info.op = stop.op_type();
      info.path = metadata.infoOf(made).path;
      info.dropped.detaches = stops;
      metadata.nodes[stop.output(0)] = std::move(info);
    }
  }
}

LogicalResult Stopper::run(ArrayRef<Initializer> initializers) {
  TrainingChoice choice(options);
  for (const Initializer &init : initializers)
    if (choice.trains(init))
      trained.insert(init.name);
  for (const ::onnx::NodeProto &node : graph.node())
    calls.insert(metadata.infoOf(node).call);
  for (::onnx::NodeProto &node : *graph.mutable_node()) {
    const NodeInfo &info = metadata.infoOf(node);
    bool within = isInside(node, info);
    if (!llvm::any_of(node.input(), [&](const std::string &input) {
          return trained.contains(input);
        }))
      continue;
    if (!within && failed(leave(node, info)))
      return failure();
    if (hasNoGradient(node))
      continue;
    for (const std::string &output : node.output()) {
      // Of TopK's results the indices are integers.
      if (node.op_type() == "TopK" && &output != &node.output(0))
        continue;
      trained.insert(output);
      if (within)
        inside[output] = info.call;
    }
  }
  if (!stopped.empty() && failed(decideWhich()))
    return failure();
  addStops();
  return success();
}

/// Both leave the same trace; the module's code may have only one of them.
LogicalResult Stopper::decideWhich() {
  bool noGrad = !metadata.stopping.empty(),
       autocast = !metadata.autocasting.empty();
  if (metadata.onlyNoGrad || noGrad != autocast) {
    stops = metadata.onlyNoGrad || noGrad;
    return success();
  }
  stops = options.trainable.empty();
  std::string text =
      "'" + options.model + "': '" + stopped.begin()->first().str() +
      "' is computed under torch.no_grad() or torch.autocast(), and the file "
      "does not say under which, whether gradients end there";
  if (options.refusesGuesses && stops)
    return diagnostics.error(
        text + "; export with models/shardonnx_export.py, give --freeze=REGEX "
               "for all that is trained there, or --trainable='.*' where they "
               "go on");
  diagnostics.warning(
      text + (stops ? ": they are taken to" : ": --trainable has them go on"));
  return success();
}

} // namespace

void freezeStoppedWaves(const ::onnx::GraphProto &graph,
                        const Metadata &metadata, StringRef model,
                        ModelInitializers &taken) {
  for (Initializer &init : taken.initializers) {
    if (!init.trainable ||
        !isReadOnlyAs(graph, init.name,
                      [&](const ::onnx::NodeProto &node, int) {
                        return metadata.infoOf(node).underNoGrad;
                      }) ||
        !isWaves(init, model))
      continue;
    init.trainable = false;
    taken.untrained.push_back(
        {init.symbol, "sines of positions, under torch.no_grad()", true});
  }
}

LogicalResult stopGradients(::onnx::GraphProto &graph, Metadata &metadata,
                            ArrayRef<Initializer> initializers,
                            const ImportOptions &options,
                            Diagnostics &diagnostics) {
  if (llvm::none_of(metadata.nodes,
                    [](const auto &node) { return node.second.underNoGrad; }))
    return success();
  return Stopper(graph, metadata, options, diagnostics).run(initializers);
}

namespace {

class MergedValues {
public:
  MergedValues(const ::onnx::GraphProto &graph, const Metadata &metadata,
               ArrayRef<Initializer> initializers)
      : graph(graph), metadata(metadata) {
    for (const Initializer &init : initializers) {
      known.insert(init.name);
      if (init.trainable)
        trained.insert(init.name);
    }
    for (const SignatureInput &input : metadata.signature)
      known.insert(input.placeholder);
    for (const ::onnx::NodeProto &node : graph.node()) {
      known.insert(metadata.infoOf(node).call);
      known.insert_range(node.output());
    }
  }

  /// What is said of the first; empty where there is none.
  std::string describe();

private:
  std::string describe(const ::onnx::NodeProto &node, const NodeInfo &info,
                       StringRef lost) const;

  const ::onnx::GraphProto &graph;
  const Metadata &metadata;
  llvm::StringSet<> known, trained;
  llvm::StringMap<StringRef> calls; // of trained values
};

} // namespace

std::string MergedValues::describe(const ::onnx::NodeProto &node,
                                   const NodeInfo &info, StringRef lost) const {
  for (const std::string &input : node.input()) {
    StringRef kept = calls.lookup(input);
    if (!kept.empty() && kept != info.call && !info.reads(kept) &&
        operatorOf(kept) == operatorOf(lost))
      return ("node '" + info.node + "' read '" + lost +
              "', which the exporter has merged with '" + kept + "'")
          .str();
  }
  return "";
}

std::string MergedValues::describe() {
  for (const ::onnx::NodeProto &node : graph.node()) {
    if (hasNoGradient(node) ||
        llvm::none_of(node.input(), [&](const std::string &input) {
          return trained.contains(input);
        }))
      continue;
    const NodeInfo &info = metadata.infoOf(node);
    for (const NodeArgument &argument : info.arguments)
      if (!known.contains(argument.name))
        if (std::string text = describe(node, info, argument.name);
            !text.empty())
          return text;
    for (const std::string &output : node.output()) {
      trained.insert(output);
      calls[output] = info.call;
    }
  }
  return "";
}

void warnOfMergedValues(const ::onnx::GraphProto &graph,
                        const Metadata &metadata,
                        ArrayRef<Initializer> initializers, StringRef model,
                        Diagnostics &diagnostics) {
  std::string text = MergedValues(graph, metadata, initializers).describe();
  if (!text.empty())
    diagnostics.warning("'" + model + "': " + text +
                        ": if one of them was computed of what is detached, "
                        "gradients flow that should not; export with "
                        "optimize=False, which keeps them apart");
}

} // namespace shardonnx
