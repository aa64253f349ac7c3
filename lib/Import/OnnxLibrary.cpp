// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The only file that calls the ONNX library, and so the only one that is built
// with exceptions: every call becomes an llvm::Error.

#include "OnnxLibrary.h"

#include "SchemaRegistry.h"
#include "llvm/ADT/STLExtras.h"

#include <onnx/checker.h>
#include <onnx/defs/parser.h>
#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>
#include <onnx/shape_inference/implementation.h>
#include <onnx/version_converter/convert.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace shardonnx::onnxlib {
namespace {

/// The library lists what follows from an error, too: the first one is enough.
std::string firstError(std::string message) {
  size_t first = message.find("(op_type:");
  size_t second =
      first == std::string::npos ? first : message.find("(op_type:", first + 1);
  if (second != std::string::npos)
    message.resize(second);
  return message;
}

/// An assertion of the library's says where it stands in a source file.
std::string withoutSource(llvm::StringRef message) {
  auto [place, assertion] = message.split(": Assertion `");
  auto [condition, said] = assertion.split("` failed");
  if (said.consume_front(": "))
    return said.str();
  return assertion.empty() ? message.str() : "it expects " + condition.str();
}

template <typename Call> llvm::Error guarded(Call call) {
  try {
    call();
    return llvm::Error::success();
  } catch (const std::exception &exception) {
    return llvm::createStringError(firstError(withoutSource(exception.what())));
  }
}

using ::onnx::inliner::FunctionId;

/// The library binds a body's attributes to those that its node states, so the
/// node must state the schema's defaults.
void stateDefaults(::onnx::NodeProto &node, const ::onnx::OpSchema &schema) {
  std::set<std::string> stated;
  for (const ::onnx::AttributeProto &attribute : node.attribute())
    stated.insert(attribute.name());
  for (const auto &[name, attribute] : schema.attributes())
    if (attribute.default_value.has_name() && !stated.count(name))
      *node.add_attribute() = attribute.default_value;
}

/// What the library looks up beside the types that a graph states: those of
/// initializers, and, when a body is of an older opset, of inputs that a node
/// leaves out, for which any type does. The names that now have one.
std::set<std::string> stateTypes(::onnx::GraphProto &graph) {
  std::set<std::string> known, stated;
  for (const auto *infos : {&graph.input(), &graph.value_info()})
    for (const ::onnx::ValueInfoProto &info : *infos)
      known.insert(info.name());
  auto state = [&](const std::string &name, int type) {
    ::onnx::ValueInfoProto &info = *graph.add_value_info();
    info.set_name(name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    stated.insert(name);
    return info.mutable_type()->mutable_tensor_type()->mutable_shape();
  };
  for (const ::onnx::TensorProto &tensor : graph.initializer())
    if (!known.count(tensor.name())) {
      auto *shape = state(tensor.name(), tensor.data_type());
      for (int64_t size : tensor.dims())
        shape->add_dim()->set_dim_value(size);
    }
  state("", ::onnx::TensorProto::FLOAT);
  return stated;
}

void forgetTypes(::onnx::GraphProto &graph,
                 const std::set<std::string> &stated) {
  auto &infos = *graph.mutable_value_info();
  infos.erase(std::remove_if(
                  infos.begin(), infos.end(),
                  [&](const auto &info) { return stated.count(info.name()); }),
              infos.end());
}

/// The types that a body may depend on, as far as they are known: the library
/// infers them itself, but not through ops of which it lacks the inference.
void inferTypes(::onnx::ModelProto &model) {
  llvm::consumeError(guarded([&] {
    SchemaRegistry schemas;
    ::onnx::shape_inference::InferShapes(model, &schemas);
  }));
}

const ::onnx::OpSchema *schemaOf(const ::onnx::ModelProto &model,
                                 const FunctionId &id) {
  int version = 0;
  for (const auto &import : model.opset_import())
    if (import.domain() == id.first)
      version = static_cast<int>(import.version());
  return ::onnx::OpSchemaRegistry::Schema(id.second, version, id.first);
}

bool hasBody(const ::onnx::OpSchema &schema) {
  return schema.HasFunction() || schema.HasContextDependentFunction();
}

/// Replaces the nodes of one op by the body of its schema, if it has one.
void expand(::onnx::ModelProto &model, const FunctionId &id) {
  const ::onnx::OpSchema *schema = schemaOf(model, id);
  if (!schema || !hasBody(*schema))
    return;
  ::onnx::ModelProto expanded = model;
  for (::onnx::NodeProto &node : *expanded.mutable_graph()->mutable_node())
    if (node.op_type() == id.second && node.domain() == id.first)
      stateDefaults(node, *schema);
  if (schema->HasContextDependentFunction())
    inferTypes(expanded);
  std::set<std::string> stated = stateTypes(*expanded.mutable_graph());
  llvm::Error error = guarded([&] {
    auto ids = ::onnx::inliner::FunctionIdSet::Create({id});
    ::onnx::inliner::InlineSelectedFunctions(expanded, *ids, nullptr);
  });
  forgetTypes(*expanded.mutable_graph(), stated);
  if (!error)
    model = std::move(expanded);
  llvm::consumeError(std::move(error));
}

/// How many nodes a graph has when its calls of functions are replaced by their
/// bodies. Forty functions that each call the one before twice make 2^40.
class ExpandedSize {
public:
  explicit ExpandedSize(const ::onnx::ModelProto &model) {
    for (const ::onnx::FunctionProto &function : model.functions())
      functions[{function.domain(), function.name()}] = &function;
  }

  /// Saturates at `most` + 1, also for calls that nest too deep.
  template <typename Nodes> int64_t of(const Nodes &nodes, int depth = 0) {
    int64_t sum = 0;
    for (const ::onnx::NodeProto &node : nodes) {
      sum += 1 + ofCall({node.domain(), node.op_type()}, depth);
      for (const ::onnx::AttributeProto &attribute : node.attribute()) {
        if (attribute.has_g())
          sum += of(attribute.g().node(), depth);
        for (const ::onnx::GraphProto &graph : attribute.graphs())
          sum += of(graph.node(), depth);
      }
      sum = std::min(sum, most + 1);
    }
    return sum;
  }

  static constexpr int64_t most = 4'000'000;

private:
  static constexpr int deepest = 100;

  int64_t ofCall(const FunctionId &id, int depth) {
    auto function = functions.find(id);
    if (function == functions.end())
      return 0;
    auto known = sizes.find(id);
    if (known != sizes.end())
      return known->second; // 0 within itself: the library refuses circles
    if (depth == deepest)
      return most + 1;
    sizes[id] = 0;
    return sizes[id] = of(function->second->node(), depth + 1);
  }

  std::map<FunctionId, const ::onnx::FunctionProto *> functions;
  std::map<FunctionId, int64_t> sizes;
};

} // namespace

llvm::Error parseText(llvm::StringRef text, ::onnx::ModelProto &model) {
  std::string message;
  if (llvm::Error error = guarded([&] {
        ::onnx::Common::Status status =
            ::onnx::OnnxParser::Parse(model, std::string_view(text));
        if (!status.IsOK())
          message = status.ErrorMessage();
      }))
    return error;
  return message.empty() ? llvm::Error::success()
                         : llvm::createStringError(firstError(message));
}

Schema findSchema(const ::onnx::ModelProto &model,
                  const ::onnx::NodeProto &node) {
  const ::onnx::OpSchema *schema =
      schemaOf(model, {node.domain(), node.op_type()});
  if (!schema)
    return Schema::None;
  return hasBody(*schema) ? Schema::HasBody : Schema::Primitive;
}

llvm::Error inlineFunctions(::onnx::ModelProto &model) {
  if (model.functions_size() == 0)
    return llvm::Error::success();
  if (ExpandedSize(model).of(model.graph().node()) > ExpandedSize::most)
    return llvm::createStringError(
        "they nest more than a hundred deep or come to more than " +
        std::to_string(ExpandedSize::most) + " nodes");
  return guarded([&] { ::onnx::inliner::InlineLocalFunctions(model, true); });
}

void expandSchemaFunctions(::onnx::ModelProto &model,
                           llvm::function_ref<bool(llvm::StringRef)> isKnown) {
  std::set<FunctionId> tried;
  while (true) {
    std::set<FunctionId> unknown;
    for (const ::onnx::NodeProto &node : model.graph().node())
      if (FunctionId id(node.domain(), node.op_type());
          !isKnown(node.op_type()) && !tried.count(id))
        unknown.insert(id);
    if (unknown.empty())
      return;
    for (const FunctionId &id : unknown)
      expand(model, id);
    tried.insert(unknown.begin(), unknown.end());
  }
}

llvm::Error convertVersion(::onnx::ModelProto &model, int version) {
  return guarded([&] {
    model = ::onnx::version_conversion::ConvertVersion(model, version);
  });
}

llvm::Error check(const ::onnx::ModelProto &model) {
  // An output may leave its shape to inference; the checker wants one, any one.
  auto lacksShape = [](const ::onnx::ValueInfoProto &output) {
    return output.type().has_tensor_type() &&
           !output.type().tensor_type().has_shape();
  };
  if (!llvm::any_of(model.graph().output(), lacksShape))
    return guarded([&] { ::onnx::checker::check_model(model); });
  ::onnx::ModelProto shaped = model;
  for (::onnx::ValueInfoProto &output :
       *shaped.mutable_graph()->mutable_output())
    if (lacksShape(output))
      output.mutable_type()->mutable_tensor_type()->mutable_shape();
  return guarded([&] { ::onnx::checker::check_model(shaped); });
}

llvm::Error inferShapes(::onnx::ModelProto &model) {
  // Types are not compared with the schemas: PyTorch exports bf16 where they do
  // not list it, and the verifiers of the `nn` dialect are strict enough.
  return guarded([&] {
    ::onnx::ShapeInferenceOptions options(/*check_type_val=*/false,
                                          /*strict_mode_val=*/1,
                                          /*data_prop_val=*/true);
    SchemaRegistry schemas;
    ::onnx::shape_inference::InferShapes(model, &schemas, options);
  });
}

int newestOpset() {
  return ::onnx::OpSchemaRegistry::DomainToVersionRange::Instance()
      .Map()
      .at(::onnx::ONNX_DOMAIN)
      .second;
}

} // namespace shardonnx::onnxlib
