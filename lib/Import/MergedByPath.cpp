// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See MergedByPath.h.

#include "MergedByPath.h"

#include "KnownBuffers.h"

#include "shardonnx/Support/Diagnostics.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace shardonnx {

/// Adds `path` and the modules around it.
static void addModules(StringRef path, llvm::StringSet<> &modules) {
  while (!path.empty() && modules.insert(path).second)
    path = modulePath(path);
}

ModulePaths::ModulePaths(const ::onnx::GraphProto &graph,
                         const Metadata &metadata,
                         ArrayRef<Initializer> initializers)
    : metadata(metadata) {
  for (const auto &node : metadata.nodes)
    addModules(node.second.path, called);
  for (const Initializer &init : initializers)
    if (StringRef(init.name).contains('.'))
      addModules(StringRef(init.name).rsplit('.').first, owning);
  for (const ::onnx::NodeProto &node : graph.node())
    if (node.op_type() == "Identity" && node.output_size() == 1 &&
        StringRef(node.output(0)).contains('.'))
      addModules(StringRef(node.output(0)).rsplit('.').first, owning);
}

std::string ModulePaths::of(const ::onnx::NodeProto &node) const {
  auto info = node.output_size() == 0 ? metadata.nodes.end()
                                      : metadata.nodes.find(node.output(0));
  if (info == metadata.nodes.end())
    return "";
  std::string path;
  SmallVector<StringRef> parts;
  StringRef(info->second.path).split(parts, '.', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    std::string before = path.empty() ? "" : path + ".";
    auto [first, number] = part.rsplit('_');
    bool again = !number.empty() && llvm::all_of(number, llvm::isDigit) &&
                 !owning.contains(before + part.str()) &&
                 called.contains(before + first.str());
    path = before + (again ? first : part).str();
  }
  return path;
}

namespace {

class ByPath {
public:
  ByPath(::onnx::GraphProto &graph, const Metadata &metadata,
         StringRef modelPath, InitializerTable &table, Diagnostics &diagnostics)
      : graph(graph), modelPath(modelPath), table(table),
        diagnostics(diagnostics), paths(graph, metadata, table.all()) {}

  LogicalResult run();

private:
  bool dropIdentities();
  LogicalResult separate(size_t init, ArrayRef<InitializerUse> uses);
  LogicalResult refuse(size_t init, ArrayRef<InitializerUse> uses);

  ::onnx::GraphProto &graph;
  StringRef modelPath;
  InitializerTable &table;
  Diagnostics &diagnostics;
  ModulePaths paths;
};

/// The older exporter leaves an Identity for each name that it merged into
/// another.
bool ByPath::dropIdentities() {
  llvm::StringSet<> outputs;
  for (const ::onnx::ValueInfoProto &output : graph.output())
    outputs.insert(output.name());
  auto *nodes = graph.mutable_node();
  int kept = 0;
  for (int i = 0; i < nodes->size(); ++i) {
    const ::onnx::NodeProto &node = nodes->Get(i);
    StringRef number = node.name();
    std::optional<size_t> init =
        node.input_size() == 1 ? table.find(node.input(0)) : std::nullopt;
    bool merged = node.op_type() == "Identity" && node.output_size() == 1 &&
                  number.consume_front("Identity_") && !number.empty() &&
                  llvm::all_of(number, llvm::isDigit) && init &&
                  table.isFloat(*init) && !outputs.contains(node.output(0));
    if (merged)
      table.addCopy(*init, node.output(0));
    else if (i == kept++)
      continue;
    else
      nodes->SwapElements(i, kept - 1);
  }
  bool found = kept < nodes->size();
  nodes->DeleteSubrange(kept, nodes->size() - kept);
  return found;
}

LogicalResult ByPath::refuse(size_t init, ArrayRef<InitializerUse> uses) {
  return diagnostics.error(
      "'" + modelPath + "': nodes '" + uses.front().node->name() + "' and '" +
      uses.back().node->name() + "' read parameter '" + table[init].name +
      "', whose elements are all equal: exporters merge parameters that start "
      "equal, and nothing in the file says whether it was one; export with "
      "torch.onnx.export(..., dynamo=True, optimize=False), which keeps them "
      "apart");
}

LogicalResult ByPath::separate(size_t init, ArrayRef<InitializerUse> uses) {
  std::string name = table[init].name;
  auto [home, leaf] = StringRef(name).rsplit('.');
  llvm::MapVector<StringRef, SmallVector<InitializerUse>> byModule;
  std::vector<std::string> modules;
  for (const InitializerUse &use : uses)
    modules.push_back(paths.of(*use.node));
  for (auto [use, module] : llvm::zip(uses, modules))
    byModule[module].push_back(use);
  if (byModule.size() == 1 && !modules.front().empty())
    return success(); // a module that runs several times
  if (leaf.empty() || !byModule.contains(home))
    return refuse(init, uses);
  for (auto &[module, own] : byModule) {
    if (module == home)
      continue;
    std::string other = (module + "." + leaf).str();
    if (module.empty() || table.isValue(other))
      return refuse(init, uses);
    table.addCopy(init, other);
    for (const InitializerUse &use : own)
      use.node->set_input(use.operand, other);
  }
  return success();
}

LogicalResult ByPath::run() {
  if (dropIdentities())
    return success(); // what is read several times after that was one
  std::vector<SmallVector<InitializerUse>> uses(table.size());
  for (::onnx::NodeProto &node : *graph.mutable_node())
    for (const InitializerUse &use : table.uses(node))
      if (uses[use.init].empty() || uses[use.init].back().node != use.node)
        uses[use.init].push_back(use);
  for (size_t i = 0; i < uses.size(); ++i)
    if (uses[i].size() > 1 && table.isFloat(i) && !table[i].isConstant &&
        table[i].type.getNumElements() > 1 && !isBufferName(table[i].name) &&
        table.isUniform(i) && failed(separate(i, uses[i])))
      return failure();
  return success();
}

} // namespace

LogicalResult separateByPath(::onnx::GraphProto &graph,
                             const Metadata &metadata, StringRef modelPath,
                             InitializerTable &table,
                             Diagnostics &diagnostics) {
  return ByPath(graph, metadata, modelPath, table, diagnostics).run();
}

} // namespace shardonnx
