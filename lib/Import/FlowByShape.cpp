// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See FlowByShape.h. What a condition, or a number of turns, is made of is cut
// out as a model of its own, which the raise folds as it folds all that follows
// from shapes.

#include "FlowByShape.h"

#include "ConstantBranches.h"
#include "Loops.h"
#include "Sequences.h"
#include "Subgraphs.h"
#include "WireFormat.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <onnx/onnx_pb.h>

using namespace llvm;

namespace shardonnx {
namespace {

/// What conditions and numbers of turns of a model are made of.
class Slice {
public:
  Slice(const ::onnx::ModelProto &model, const KnownInitializers &known)
      : model(model), known(known) {
    for (int i = 0; i < model.graph().node_size(); ++i)
      for (const std::string &name : model.graph().node(i).output())
        producers[name] = i;
  }

  /// Asks for a scalar, or for a tensor's size along an axis: the place of the
  /// answer among the model's outputs, or nothing where what `value` is made of
  /// has control flow of its own.
  std::optional<size_t> ask(StringRef value,
                            std::optional<int64_t> axis = std::nullopt);
  ::onnx::ModelProto build() const;

private:
  struct Answer {
    std::string value;
    std::optional<int64_t> axis;
  };

  bool reach(StringRef value);
  void addInputs(::onnx::GraphProto &graph) const;
  static void addAnswer(::onnx::GraphProto &graph, const Answer &answer,
                        const std::string &name);
  bool isAtHand(int initializer) const;

  const ::onnx::ModelProto &model;
  const KnownInitializers &known;
  StringMap<int> producers; // nodes, by what they give
  StringSet<> names;        // of all values that are needed
  std::set<int> nodes;
  std::vector<Answer> answers;
};

} // namespace

bool Slice::reach(StringRef value) {
  std::set<int> found;
  std::vector<std::string> waiting = {value.str()}, seen;
  while (!waiting.empty()) {
    std::string name = std::move(waiting.back());
    waiting.pop_back();
    seen.push_back(name);
    auto producer = producers.find(name);
    if (producer == producers.end() || nodes.count(producer->second) ||
        !found.insert(producer->second).second)
      continue;
    const ::onnx::NodeProto &node = model.graph().node(producer->second);
    if (isControlFlow(node))
      return false;
    waiting.insert(waiting.end(), node.input().begin(), node.input().end());
  }
  nodes.insert(found.begin(), found.end());
  for (const std::string &name : seen)
    names.insert(name);
  return true;
}

std::optional<size_t> Slice::ask(StringRef value, std::optional<int64_t> axis) {
  if (!reach(value))
    return std::nullopt;
  answers.push_back({value.str(), axis});
  return answers.size() - 1;
}

bool Slice::isAtHand(int initializer) const {
  const ::onnx::TensorProto &tensor = model.graph().initializer(initializer);
  const StrippedModel *stripped = known.stripped;
  bool left = stripped && size_t(initializer) < stripped->initializers.size() &&
              stripped->initializers[initializer].stripped;
  return !left && tensor.data_location() != ::onnx::TensorProto::EXTERNAL &&
         !known.changing.contains(tensor.name());
}

/// Of a weight that has no bytes here, or whose value changes, its shape is all
/// that may count.
void Slice::addInputs(::onnx::GraphProto &graph) const {
  StringSet<> given;
  for (int i = 0; i < model.graph().initializer_size(); ++i) {
    const ::onnx::TensorProto &tensor = model.graph().initializer(i);
    if (!names.contains(tensor.name()))
      continue;
    given.insert(tensor.name());
    if (isAtHand(i)) {
      *graph.add_initializer() = tensor;
      continue;
    }
    ::onnx::ValueInfoProto *input = graph.add_input();
    input->set_name(tensor.name());
    auto *type = input->mutable_type()->mutable_tensor_type();
    type->set_elem_type(tensor.data_type());
    type->mutable_shape();
    for (int64_t size : tensor.dims())
      type->mutable_shape()->add_dim()->set_dim_value(size);
  }
  for (const ::onnx::ValueInfoProto &input : model.graph().input())
    if (names.contains(input.name()) && !given.contains(input.name()))
      *graph.add_input() = input;
}

void Slice::addAnswer(::onnx::GraphProto &graph, const Answer &answer,
                      const std::string &name) {
  graph.add_output()->set_name(name);
  if (!answer.axis) {
    appendNode(graph, "Identity", {answer.value}, {name});
    return;
  }
  ::onnx::TensorProto &axis = *graph.add_initializer();
  axis.set_name(name + "_axis");
  axis.set_data_type(::onnx::TensorProto::INT64);
  axis.add_int64_data(*answer.axis);
  appendNode(graph, "Shape", {answer.value}, {name + "_shape"});
  appendNode(graph, "Gather", {name + "_shape", axis.name()}, {name});
}

::onnx::ModelProto Slice::build() const {
  ::onnx::ModelProto part;
  part.set_ir_version(model.ir_version());
  *part.mutable_opset_import() = model.opset_import();
  *part.mutable_functions() = model.functions();
  ::onnx::GraphProto &graph = *part.mutable_graph();
  graph.set_name(model.graph().name());
  addInputs(graph);
  for (int node : nodes)
    *graph.add_node() = model.graph().node(node);
  for (auto [i, answer] : llvm::enumerate(answers))
    addAnswer(graph, answer, "shardonnx.answer." + std::to_string(i));
  return part;
}

/// The shapes of the inputs of a slice.
static StringMap<GivenInput> shapesOf(const ::onnx::GraphProto &graph) {
  StringMap<GivenInput> shapes;
  for (const ::onnx::ValueInfoProto &input : graph.input()) {
    GivenInput &given = shapes[input.name()];
    for (const auto &dim : input.type().tensor_type().shape().dim())
      given.shape.push_back(dim.dim_value());
  }
  return shapes;
}

namespace {

bool isBranch(const ::onnx::NodeProto &node) {
  return isOp(node, "If") && node.input_size() == 1;
}

/// What takeKnownBranches and unrollLoops know it by: a branch's condition, a
/// loop's name.
std::string keyOf(const ::onnx::NodeProto &node) {
  return isBranch(node) ? node.input(0) : loopName(node);
}

/// The answers that a node of control flow waits for.
struct Question {
  std::string key;
  std::vector<size_t> conditions;
  std::optional<size_t> turns; // of a loop
};

/// Nothing for a node that shapes alone do not decide.
std::optional<Question> questionOf(const ::onnx::NodeProto &node, int opset,
                                   Slice &slice) {
  Question question{keyOf(node), {}, std::nullopt};
  std::vector<std::string> conditions;
  if (isBranch(node)) {
    conditions.push_back(node.input(0));
  } else if (std::optional<LoopTurns> turns = turnsOf(node, opset)) {
    question.turns = slice.ask(turns->value, turns->axis);
    if (!question.turns)
      return std::nullopt;
    conditions = turns->conditions;
  } else {
    return std::nullopt;
  }
  for (const std::string &condition : conditions) {
    std::optional<size_t> answer = slice.ask(condition);
    if (!answer)
      return std::nullopt;
    question.conditions.push_back(*answer);
  }
  return question;
}

using Numbers = std::vector<std::optional<int64_t>>;

/// Resolves what the answers decide.
void resolve(::onnx::GraphProto &graph, ArrayRef<Question> questions,
             const Numbers &answers, int opset) {
  StringMap<bool> truths;
  StringMap<int64_t> turns;
  for (const Question &question : questions) {
    auto holds = [&](size_t condition) { return answers[condition] == 1; };
    if (question.turns) {
      if (answers[*question.turns] && all_of(question.conditions, holds))
        turns[question.key] = *answers[*question.turns];
    } else if (answers[question.conditions.front()]) {
      truths[question.key] = holds(question.conditions.front());
    }
  }
  takeKnownBranches(graph, truths);
  unrollLoops(graph, turns, opset);
}

} // namespace

void resolveFlowByShape(::onnx::ModelProto &model, int opset,
                        const KnownInitializers &known,
                        const ImportOptions::FoldNumbers &foldNumbers) {
  StringSet<> tried; // by their keys
  resolveSequences(*model.mutable_graph(), opset);
  while (any_of(model.graph().node(), isControlFlow)) {
    Slice slice(model, known);
    std::vector<Question> questions;
    for (const ::onnx::NodeProto &node : model.graph().node()) {
      if (!isControlFlow(node) || tried.contains(keyOf(node)))
        continue;
      if (std::optional<Question> question = questionOf(node, opset, slice)) {
        tried.insert(question->key);
        questions.push_back(std::move(*question));
      }
    }
    if (questions.empty())
      return;
    ::onnx::ModelProto part = slice.build();
    Numbers answers =
        foldNumbers(part.SerializeAsString(), shapesOf(part.graph()));
    answers.resize(size_t(part.graph().output_size()));
    resolve(*model.mutable_graph(), questions, answers, opset);
    resolveSequences(*model.mutable_graph(), opset);
  }
}

} // namespace shardonnx
