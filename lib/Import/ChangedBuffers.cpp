// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See ChangedBuffers.h.

#include "ChangedBuffers.h"

#include "KnownBuffers.h"
#include "Subgraphs.h"
#include "shardonnx/Dialect/ONNX/IR/Untrained.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

using llvm::StringRef;

namespace shardonnx {
namespace {

/// Whether a node normalizes by the batch: what it reads as running statistics
/// is only there to be updated.
bool trainsNorm(const ::onnx::NodeProto &node, const NodeInfo &info) {
  return info.dropped.trainsNorm || (isOp(node, "BatchNormalization") &&
                                     intAttribute(node, "training_mode", 0));
}

class Changed {
public:
  Changed(const ::onnx::GraphProto &graph, const Metadata &metadata,
          llvm::ArrayRef<Initializer> initializers)
      : graph(graph), metadata(metadata) {
    for (const std::string &name : metadata.written)
      outputs[name];
    findArrays(initializers);
    for (const ::onnx::NodeProto &node : graph.node()) {
      for (const std::string &output : node.output())
        producers[output] = &node;
      addStatistics(node);
    }
  }

  void list(std::vector<Untrained> &untrained);

private:
  void findArrays(llvm::ArrayRef<Initializer> initializers);
  void addStatistics(const ::onnx::NodeProto &node);
  llvm::StringSet<> readBy(const std::string &output) const;

  const ::onnx::GraphProto &graph;
  const Metadata &metadata;
  llvm::StringMap<const ::onnx::NodeProto *> producers;
  /// What is written, by the name of the array in the graph that is it, or was
  /// folded from it; and by the argument of operators where no array is.
  llvm::StringMap<llvm::SmallVector<StringRef>> arrays;
  llvm::StringMap<StringRef> arguments;
  /// By its name, the outputs that read it.
  llvm::MapVector<StringRef, std::vector<std::string>> outputs;
  llvm::StringMap<StringRef> symbols; // of arrays
};

void Changed::findArrays(llvm::ArrayRef<Initializer> initializers) {
  llvm::StringSet<> there;
  for (const Initializer &init : initializers) {
    symbols[init.name] = init.symbol;
    llvm::SmallVector<StringRef> sources = {init.symbol};
    auto folded = metadata.foldedFrom.find(init.name);
    if (folded != metadata.foldedFrom.end())
      llvm::append_range(sources, folded->second);
    for (StringRef source : sources)
      if (auto *found = outputs.find(source); found != outputs.end()) {
        arrays[init.name].push_back(found->first);
        there.insert(source);
      }
  }
  for (const SignatureInput &input : metadata.signature)
    if (auto *found = outputs.find(input.target);
        found != outputs.end() && !there.contains(input.target))
      arguments[input.placeholder] = found->first;
}

/// What no signature says of a batch norm.
void Changed::addStatistics(const ::onnx::NodeProto &node) {
  if (!metadata.signature.empty() || !trainsNorm(node, metadata.infoOf(node)))
    return;
  for (int i = 3; i < node.input_size(); ++i)
    if (StringRef name = symbols.lookup(node.input(i)); isStatisticName(name))
      outputs[name];
}

/// What is written, and the output depends on.
llvm::StringSet<> Changed::readBy(const std::string &output) const {
  llvm::StringSet<> read, seen;
  std::vector<std::string> open = {output};
  while (!open.empty()) {
    std::string value = std::move(open.back());
    open.pop_back();
    if (!seen.insert(value).second)
      continue;
    read.insert_range(arrays.lookup(value));
    const ::onnx::NodeProto *node = producers.lookup(value);
    if (!node)
      continue;
    const NodeInfo &info = metadata.infoOf(*node);
    if (trainsNorm(*node, info)) {
      llvm::append_range(open,
                         llvm::make_range(node->input().begin(),
                                          node->input().begin() +
                                              std::min(3, node->input_size())));
      continue;
    }
    for (const NodeArgument &argument : info.arguments)
      if (StringRef name = arguments.lookup(argument.name); !name.empty())
        read.insert(name);
    llvm::StringSet<> operands;
    addReads(*node, operands);
    for (StringRef operand : operands.keys())
      open.push_back(operand.str());
  }
  return read;
}

void Changed::list(std::vector<Untrained> &untrained) {
  if (outputs.empty())
    return;
  for (const auto &output : graph.output()) {
    llvm::StringSet<> read = readBy(output.name());
    for (auto &[name, readers] : outputs)
      if (read.contains(name))
        readers.push_back(output.name());
  }
  for (auto &[name, readers] : outputs)
    untrained.push_back(
        {.name = name.str(),
         .reason =
             (isStatisticName(name) ? onnx::kStatistic : onnx::kWritten).str(),
         .asked = false,
         .lost = !readers.empty(),
         .readBy = std::move(readers)});
}

} // namespace

void listChanged(const ::onnx::GraphProto &graph, const Metadata &metadata,
                 llvm::ArrayRef<Initializer> initializers,
                 std::vector<Untrained> &untrained) {
  Changed(graph, metadata, initializers).list(untrained);
}

} // namespace shardonnx
