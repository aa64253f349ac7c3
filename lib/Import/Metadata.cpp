// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the metadata_props that PyTorch's exporter and onnxscript write, and
// falls back to the node names of the older exporter.

#include "Metadata.h"
#include "NoGrad.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

#include <onnx/onnx_pb.h>

namespace json = llvm::json;
using llvm::SmallVector;
using llvm::StringRef;

namespace shardonnx {
namespace {

template <typename Props>
StringRef findProp(const Props &props, StringRef key) {
  for (const auto &prop : props)
    if (prop.key() == key)
      return prop.value();
  return "";
}

/// The strings of a Python list of strings, `['', 'transformer', "it's"]`.
std::vector<std::string> parsePythonList(StringRef text) {
  std::vector<std::string> items;
  while (true) {
    size_t open = text.find_first_of("'\"");
    if (open == StringRef::npos)
      return items;
    char quote = text[open];
    size_t close = text.find(quote, open + 1);
    if (close == StringRef::npos)
      return items;
    items.push_back(text.slice(open + 1, close).str());
    text = text.drop_front(close + 1);
  }
}

/// The deepest module of `['', 'transformer', 'transformer.h.0', 'add_4']`,
/// whose last item is the node itself.
std::string pathFromScopes(StringRef scopes) {
  std::vector<std::string> items = parsePythonList(scopes);
  if (!items.empty())
    items.pop_back();
  for (const std::string &item : llvm::reverse(items))
    if (!item.empty() && item.front() != '_')
      return item;
  return "";
}

/// "/transformer/h.0/attn/c_attn/Gemm" -> "transformer.h.0.attn.c_attn". A
/// module that a container calls has the container's name as well:
/// "/net/net.2/Gemm" -> "net.2".
std::string pathFromName(StringRef name) {
  name = name.ltrim('/');
  if (!name.contains('/'))
    return name.contains('.') ? name.rsplit('.').first.str() : "";
  SmallVector<StringRef> parts;
  name.rsplit('/').first.split(parts, '/');
  std::string path;
  for (auto [i, part] : llvm::enumerate(parts)) {
    if (i + 1 < parts.size() && parts[i + 1].starts_with((part + ".").str()))
      continue;
    path += (path.empty() ? "" : ".") + part.str();
  }
  return path;
}

/// Reads `%linear : [num_users=1] = call_function[target=torch.ops.aten.linear
/// .default](args = (%mul_4, %p_weight), kwargs = {})`.
void readFxNode(StringRef text, NodeInfo &info) {
  auto isName = [](char c) { return !StringRef(" ,:()[]{}").contains(c); };
  auto [head, tail] = text.split("target=");
  auto [target, arguments] = tail.split(']');
  if (head.consume_front("%"))
    info.call = head.take_while(isName).str();
  target.consume_front("torch.ops.");
  info.target = target.str();
  arguments.consume_front("(args = (");
  int depth = 0, position = 0;
  while (!arguments.empty()) {
    char c = arguments.front();
    arguments = arguments.drop_front();
    depth += c == '(' || c == '[' || c == '{';
    depth -= c == ')' || c == ']' || c == '}';
    if (depth < 0) // what follows was given by name
      position = -1;
    else if (c == ',' && depth == 0 && position >= 0)
      ++position;
    if (c != '%')
      continue;
    StringRef name = arguments.take_while(isName);
    info.arguments.push_back({name.str(), position});
    arguments = arguments.drop_front(name.size());
  }
}

NodeInfo readNode(const ::onnx::NodeProto &node) {
  NodeInfo info;
  info.node = node.name();
  if (info.node.empty() && node.output_size() > 0)
    info.node = node.output(0);
  info.op = node.op_type();
  StringRef scopes =
      findProp(node.metadata_props(), "pkg.torch.onnx.name_scopes");
  info.path =
      scopes.empty() ? pathFromName(node.name()) : pathFromScopes(scopes);
  StringRef fxNode = findProp(node.metadata_props(), "pkg.torch.onnx.fx_node");
  readFxNode(fxNode, info);
  info.dropped = readDroppedArguments(info.op, fxNode);
  return info;
}

/// Reads lines such as `p_x: PARAMETER target='x'` and `ids: USER_INPUT`.
std::vector<SignatureInput> readSignature(StringRef text) {
  std::vector<SignatureInput> inputs;
  SmallVector<StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    if (line.starts_with("# outputs"))
      break;
    auto [placeholder, rest] = line.split(": ");
    if (line.starts_with("#") || rest.empty())
      continue;
    SignatureInput input;
    input.placeholder = placeholder.str();
    input.kind = rest.take_until([](char c) { return c == ' '; }).str();
    std::vector<std::string> quoted = parsePythonList(rest);
    if (!quoted.empty())
      input.target = quoted.front();
    inputs.push_back(std::move(input));
  }
  return inputs;
}

/// Reads lines such as `add: BUFFER_MUTATION target='queue'`.
std::vector<std::string> readWritten(StringRef text) {
  std::vector<std::string> names;
  SmallVector<StringRef> lines;
  text.split("# outputs").second.split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    StringRef rest = line.split(": ").second;
    if (rest.starts_with("BUFFER_MUTATION") ||
        rest.starts_with("PARAMETER_MUTATION"))
      llvm::append_range(names, parsePythonList(rest));
  }
  return names;
}

/// Reads what models/shardonnx_export.py writes, which its docstring describes.
/// What is not as it says is left out.
void readAnnotation(StringRef text, Metadata &metadata) {
  llvm::Expected<json::Value> parsed = json::parse(text);
  if (!parsed)
    return llvm::consumeError(parsed.takeError());
  const json::Object *root = parsed->getAsObject();
  const json::Array *parameters = root ? root->getArray("parameters") : nullptr;
  if (!parameters)
    return;
  for (const json::Value &value : *parameters) {
    const json::Object *object = value.getAsObject();
    const json::Array *names = object ? object->getArray("names") : nullptr;
    ModuleParameter parameter;
    if (names)
      for (const json::Value &name : *names)
        if (auto string = name.getAsString())
          parameter.names.push_back(string->str());
    if (parameter.names.empty())
      continue;
    parameter.requiresGrad = object->getBoolean("requires_grad").value_or(true);
    parameter.paddingIndex = object->getInteger("padding_idx");
    metadata.parameters.push_back(std::move(parameter));
  }
  if (const json::Array *buffers = root->getArray("buffers"))
    for (const json::Value &name : *buffers)
      if (auto string = name.getAsString())
        metadata.buffers.insert(*string);
  for (auto [key, list] : {std::pair("stops_gradients", &metadata.stopping),
                           std::pair("autocast", &metadata.autocasting)})
    if (const json::Array *classes = root->getArray(key))
      for (const json::Value &name : *classes)
        if (auto string = name.getAsString())
          list->push_back(string->str());
  metadata.onlyNoGrad = root->getString("regions") == StringRef("no_grad");
  if (const json::Object *dropout = root->getObject("dropout"))
    for (const auto &[module, ratio] : *dropout)
      if (auto number = ratio.getAsNumber())
        metadata.dropout.emplace_back(StringRef(module).str(), *number);
  llvm::sort(metadata.dropout);
}

} // namespace

bool NodeInfo::reads(StringRef name) const {
  return llvm::any_of(arguments, [&](const NodeArgument &argument) {
    return argument.name == name;
  });
}

const NodeInfo *Metadata::findInfo(const ::onnx::NodeProto &node) const {
  auto found =
      node.output_size() == 0 ? nodes.end() : nodes.find(node.output(0));
  return found == nodes.end() ? nullptr : &found->second;
}

const NodeInfo &Metadata::infoOf(const ::onnx::NodeProto &node) const {
  static const NodeInfo none;
  const NodeInfo *info = findInfo(node);
  return info ? *info : none;
}

const SignatureInput *Metadata::findTarget(StringRef target) const {
  for (const SignatureInput &input : signature)
    if (input.target == target)
      return &input;
  return nullptr;
}

const ModuleParameter *Metadata::findParameter(StringRef name) const {
  for (const ModuleParameter &parameter : parameters)
    if (llvm::is_contained(parameter.names, name))
      return &parameter;
  return nullptr;
}

StringRef operatorOf(StringRef call) {
  auto [op, number] = call.rsplit('_');
  return !number.empty() && llvm::all_of(number, llvm::isDigit) ? op : call;
}

bool Metadata::holdsParameter(StringRef initializer) const {
  auto isParameter = [&](StringRef name) {
    const SignatureInput *input = findTarget(name);
    return input && input->kind == "PARAMETER";
  };
  auto folded = foldedFrom.find(initializer);
  return isParameter(initializer) ||
         (folded != foldedFrom.end() &&
          llvm::any_of(folded->second, isParameter));
}

void Metadata::forgetDropped() {
  for (auto &node : nodes) {
    node.second.dropped = DroppedArguments();
    node.second.underNoGrad = false;
  }
  for (ModuleParameter &parameter : parameters)
    parameter.paddingIndex.reset();
}

/// Marks what was traced in regions of torch.no_grad().
static void readRegions(const ::onnx::GraphProto &graph, Metadata &metadata) {
  auto traceOf = [](const ::onnx::NodeProto &node) {
    return findProp(node.metadata_props(), "pkg.torch.onnx.stack_trace");
  };
  llvm::StringSet<> autocast;
  for (const ::onnx::NodeProto &node : graph.node())
    if (isAutocast(traceOf(node)))
      autocast.insert(regionOf(traceOf(node)));
  for (const ::onnx::NodeProto &node : graph.node()) {
    StringRef region = regionOf(traceOf(node));
    if (!region.empty() && !autocast.contains(region))
      for (const std::string &output : node.output())
        metadata.nodes[output].underNoGrad = true;
  }
}

Metadata readMetadata(const ::onnx::ModelProto &model) {
  const ::onnx::GraphProto &graph = model.graph();
  Metadata metadata;
  readAnnotation(findProp(model.metadata_props(), "shardonnx.module"),
                 metadata);
  StringRef signature =
      findProp(graph.metadata_props(),
               "pkg.torch.export.ExportedProgram.graph_signature");
  metadata.signature = readSignature(signature);
  metadata.written = readWritten(signature);
  for (const ::onnx::ValueInfoProto &value : graph.value_info()) {
    StringRef folded = findProp(value.metadata_props(),
                                "pkg.onnxscript.optimizer.folded_from");
    if (!folded.empty())
      metadata.foldedFrom[value.name()] = parsePythonList(folded);
  }
  for (const ::onnx::NodeProto &node : graph.node()) {
    NodeInfo info = readNode(node);
    for (const std::string &output : node.output())
      if (!output.empty())
        metadata.nodes[output] = info;
  }
  readRegions(graph, metadata);
  return metadata;
}

void completeMetadata(Metadata &metadata, const ::onnx::ModelProto &model) {
  const auto &nodes = model.graph().node();
  llvm::StringMap<std::string> consumerPath;
  for (int i = nodes.size() - 1; i >= 0; --i) {
    const ::onnx::NodeProto &node = nodes.Get(i);
    std::string path;
    for (const std::string &output : node.output()) {
      auto known = metadata.nodes.find(output);
      if (known != metadata.nodes.end()) {
        path = known->second.path;
        continue;
      }
      NodeInfo info = readNode(node);
      auto consumer = consumerPath.find(output);
      if (info.path.empty() && consumer != consumerPath.end())
        info.path = consumer->second;
      path = info.path;
      metadata.nodes[output] = std::move(info);
    }
    for (const std::string &input : node.input())
      consumerPath[input] = path;
  }
  for (const ::onnx::NodeProto &node : nodes)
    for (const std::string &output : node.output()) {
      NodeInfo &info = metadata.nodes[output];
      for (const std::string &input : node.input()) {
        auto producer = metadata.nodes.find(input);
        if (info.path.empty() && producer != metadata.nodes.end())
          info.path = producer->second.path;
      }
    }
}

} // namespace shardonnx
