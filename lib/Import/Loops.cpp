// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Loops.h. What a Scan takes apart goes by one Split, whose gradient is one
// Concat.

#include "Loops.h"

#include "ConstantBranches.h"
#include "NodeWriter.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace shardonnx {
namespace {

/// Since which Scan has no batch of its own.
constexpr int kPlainScanOpset = 9;

const ::onnx::GraphProto *bodyOf(const ::onnx::NodeProto &node) {
  const ::onnx::AttributeProto *body = findAttribute(node, "body");
  return body && body->has_g() ? &body->g() : nullptr;
}

const ::onnx::NodeProto *producerIn(const ::onnx::GraphProto &body,
                                    StringRef name) {
  auto found = find_if(body.node(), [&](const auto &node) {
    return is_contained(node.output(), name);
  });
  return found == body.node().end() ? nullptr : &*found;
}

/// Whether `name`, a value of the body, is true in each turn if it was before.
/// A value from around the loop is for others to judge: it is `outside`.
bool staysTrue(const ::onnx::GraphProto &body, std::string name,
               std::optional<std::string> &outside) {
  auto isNamed = [&](const auto &value) { return value.name() == name; };
  const ::onnx::NodeProto *node = producerIn(body, name);
  // A file may have a circle.
  for (int i = 0; node && i < body.node_size(); ++i) {
    if (isOp(*node, "Constant"))
      return truthOfConstant(*node).value_or(false);
    bool same = isOp(*node, "Identity") || isOp(*node, "Cast");
    if (!same || node->input_size() != 1)
      return false;
    name = node->input(0);
    node = producerIn(body, name);
  }
  if (node)
    return false;
  auto tensor = find_if(body.initializer(), isNamed);
  if (tensor != body.initializer().end())
    return truthOf(*tensor).value_or(false);
  if (any_of(body.input(), isNamed))
    return name == body.input(1).name();
  outside = name;
  return true;
}

std::optional<LoopTurns> turnsOfLoop(const ::onnx::NodeProto &node,
                                     const ::onnx::GraphProto &body) {
  if (node.input_size() < 2 || node.input(0).empty() ||
      body.input_size() != node.input_size() ||
      body.output_size() != node.output_size() + 1 ||
      node.output_size() < node.input_size() - 2)
    return std::nullopt;
  LoopTurns turns{node.input(0), std::nullopt, {}};
  if (!node.input(1).empty())
    turns.conditions.push_back(node.input(1));
  std::optional<std::string> outside;
  if (!staysTrue(body, body.output(0).name(), outside))
    return std::nullopt;
  if (outside)
    turns.conditions.push_back(*outside);
  return turns;
}

/// The i-th of a list that may be left out, for zeros.
int64_t numberAt(const ::onnx::NodeProto &node, StringRef list, int i) {
  const ::onnx::AttributeProto *numbers = findAttribute(node, list);
  return numbers && i < numbers->ints_size() ? numbers->ints(i) : 0;
}

int scannedInputs(const ::onnx::NodeProto &node) {
  const ::onnx::AttributeProto *number = findAttribute(node, "num_scan_inputs");
  return number && number->i() > 0 && number->i() <= node.input_size()
             ? int(number->i())
             : 0;
}

std::optional<LoopTurns> turnsOfScan(const ::onnx::NodeProto &node,
                                     const ::onnx::GraphProto &body,
                                     int opset) {
  int scanned = scannedInputs(node), carried = node.input_size() - scanned;
  if (opset < kPlainScanOpset || scanned == 0 ||
      body.input_size() != node.input_size() ||
      body.output_size() != node.output_size() ||
      node.output_size() < carried || is_contained(node.input(), ""))
    return std::nullopt;
  return LoopTurns{
      node.input(carried), numberAt(node, "scan_input_axes", 0), {}};
}

using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
using Names = std::vector<std::string>;

class Unroller {
public:
  Unroller(::onnx::GraphProto &graph, int opset) : writer(graph, opset) {}

  void run(const StringMap<int64_t> &turns) {
    Nodes nodes;
    nodes.Swap(writer.graph.mutable_node());
    for (::onnx::NodeProto &node : nodes) {
      auto known = turns.find(loopName(node));
      // A file may have two nodes of one name.
      if (known == turns.end() || !turnsOf(node, writer.opset) ||
          !isSmall(node, known->second)) {
        writer.keep(node);
        continue;
      }
      loop = &node;
      writer.standFor(node);
      if (isOp(node, "Scan"))
        unrollScan(known->second);
      else
        unrollLoop(known->second);
    }
  }

private:
  bool isSmall(const ::onnx::NodeProto &node, int64_t turns) const {
    return turns > 0 &&
           writer.hasRoomFor(*bodyOf(node), turns,
                             node.input_size() + node.output_size());
  }

  /// What each turn takes of an input of a Scan.
  Names takeApart(const std::string &whole, int64_t axis, int64_t turns) {
    Names parts;
    for (int64_t i = 0; i < turns; ++i)
      parts.push_back(writer.names.newName(whole + "_part"));
    writer.split(whole, parts, axis);
    for (std::string &part : parts)
      part = writer.changeAxis("Squeeze", part, axis);
    return parts;
  }

  void putTogether(Names parts, int64_t axis, const std::string &whole) {
    if (whole.empty())
      return;
    for (std::string &part : parts)
      part = writer.changeAxis("Unsqueeze", part, axis);
    writer.concat(parts, whole, axis);
  }

  /// A turn of the body; its results.
  Names turn(ArrayRef<std::string> inputs) {
    return writer.copy(*bodyOf(*loop), inputs);
  }

  void nameResults(const Names &carried) {
    for (auto [i, value] : enumerate(carried))
      if (!loop->output(int(i)).empty())
        writer.add("Identity", {value}, {loop->output(int(i))});
  }

  void unrollLoop(int64_t turns);
  void unrollScan(int64_t turns);

  NodeWriter writer;
  const ::onnx::NodeProto *loop = nullptr; // the one at hand
};

} // namespace

void Unroller::unrollLoop(int64_t turns) {
  ::onnx::TensorProto goesOn, number;
  goesOn.set_data_type(::onnx::TensorProto::BOOL);
  goesOn.add_int32_data(1);
  std::string condition =
      writer.addConstant(goesOn, loopName(*loop) + "_goes_on");
  number.set_data_type(::onnx::TensorProto::INT64);
  Names carried(loop->input().begin() + 2, loop->input().end());
  std::vector<Names> stacked(size_t(loop->output_size()) - carried.size());
  for (int64_t i = 0; i < turns; ++i) {
    number.clear_int64_data();
    number.add_int64_data(i);
    Names inputs = {writer.addConstant(number, loopName(*loop) + "_turn"),
                    condition};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Names results = turn(inputs);
    auto behind = results.begin() + 1 + ptrdiff_t(carried.size());
    carried.assign(results.begin() + 1, behind);
    for (Names &stack : stacked)
      stack.push_back(*behind++);
  }
  nameResults(carried);
  for (auto [i, stack] : enumerate(stacked))
    putTogether(stack, 0, loop->output(int(carried.size() + i)));
}

void Unroller::unrollScan(int64_t turns) {
  int scanned = scannedInputs(*loop);
  auto first = loop->input().end() - scanned;
  Names carried(loop->input().begin(), first);
  std::vector<Names> parts,
      stacked(size_t(loop->output_size()) - carried.size());
  for (int i = 0; i < scanned; ++i) {
    Names &taken = parts.emplace_back(
        takeApart(first[i], numberAt(*loop, "scan_input_axes", i), turns));
    if (numberAt(*loop, "scan_input_directions", i) != 0)
      std::reverse(taken.begin(), taken.end());
  }
  for (size_t t = 0; t < size_t(turns); ++t) {
    Names inputs = carried;
    for (const Names &taken : parts)
      inputs.push_back(taken[t]);
    Names results = turn(inputs);
    auto behind = results.begin() + ptrdiff_t(carried.size());
    carried.assign(results.begin(), behind);
    for (Names &stack : stacked)
      stack.push_back(*behind++);
  }
  nameResults(carried);
  for (auto [i, stack] : enumerate(stacked)) {
    if (numberAt(*loop, "scan_output_directions", int(i)) != 0)
      std::reverse(stack.begin(), stack.end());
    putTogether(stack, numberAt(*loop, "scan_output_axes", int(i)),
                loop->output(int(carried.size() + i)));
  }
}

std::string loopName(const ::onnx::NodeProto &node) {
  auto named =
      find_if(node.output(), [](StringRef name) { return !name.empty(); });
  return named == node.output().end() ? "" : *named;
}

std::optional<LoopTurns> turnsOf(const ::onnx::NodeProto &node, int opset) {
  const ::onnx::GraphProto *body = bodyOf(node);
  if (!body || loopName(node).empty() ||
      !SubgraphWriter::canStandOutside(*body))
    return std::nullopt;
  if (isOp(node, "Loop"))
    return turnsOfLoop(node, *body);
  if (isOp(node, "Scan"))
    return turnsOfScan(node, *body, opset);
  return std::nullopt;
}

void unrollLoops(::onnx::GraphProto &graph, const StringMap<int64_t> &turns,
                 int opset) {
  if (!turns.empty())
    Unroller(graph, opset).run(turns);
}

} // namespace shardonnx
