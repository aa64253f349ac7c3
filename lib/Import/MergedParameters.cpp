// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the signature of an exported program says about merged parameters. A
// file without one: MergedByPath.cpp.

#include "MergedParameters.h"

#include "InitializerTable.h"
#include "MergedByPath.h"
#include "shardonnx/Support/Diagnostics.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace shardonnx {
namespace {

bool isElementwise(StringRef op) {
  op.consume_front("aten.");
  return llvm::is_contained({"mul", "add", "sub", "div", "pow"},
                            op.split('.').first);
}

constexpr int unknownArgument = -1;
constexpr int noArgument = -2;

/// Which argument of the framework's operator `op` the operand of a node stands
/// for, among those that compute it.
int argumentOf(StringRef op, StringRef node, int operand) {
  op.consume_front("aten.");
  auto is = [&](std::initializer_list<StringRef> names) {
    return llvm::is_contained(names, op.split('.').first);
  };
  bool product = node == "MatMul" || node == "Gemm";
  bool last = node == "Add" || operand == 2;
  if (is({"linear"}))
    return product && operand < 2 ? 1 : last ? 2 : unknownArgument;
  if (is({"addmm", "addmv"}))
    return product && operand < 2 ? 2 : last ? 0 : unknownArgument;
  if (is({"layer_norm", "native_layer_norm", "group_norm", "rms_norm",
          "_fused_rms_norm"})) {
    if (node == "InstanceNormalization") // with numbers of its own
      return noArgument;
    bool norm = node.ends_with("Normalization");
    return node == "Add" || (norm && operand == 2)   ? 3
           : node == "Mul" || (norm && operand == 1) ? 2
                                                     : unknownArgument;
  }
  if (op.contains("batch_norm") || is({"instance_norm"}))
    return node == "BatchNormalization" ? operand : noArgument;
  if (is({"conv1d", "conv2d", "conv3d", "convolution", "embedding", "prelu"}) ||
      isElementwise(op) || is({"matmul", "mm", "bmm"}))
    return operand;
  return unknownArgument;
}

/// Results of operators that make numbers out of none: no parameter.
bool isCreated(StringRef name) {
  StringRef op = name;
  while (!op.empty() && (llvm::isDigit(op.back()) || op.back() == '_'))
    op = op.drop_back();
  return llvm::is_contained({"ones", "zeros", "full", "ones_like", "zeros_like",
                             "full_like", "new_ones", "new_zeros", "new_full",
                             "scalar_tensor", "eye", "arange",
                             "lift_fresh_copy", "clone_lift"},
                            op);
}

std::string join(StringRef module, StringRef name) {
  return module.empty() ? name.str() : (module + "." + name).str();
}

/// `name` seen from `module`, or nothing when it is elsewhere.
std::optional<StringRef> seenFrom(StringRef module, StringRef name) {
  if (module.empty())
    return name;
  if (name.consume_front(module) && name.consume_front("."))
    return name;
  return std::nullopt;
}

/// Gives each use of an initializer the parameter that the framework's operator
/// reads there.
class BySignature {
public:
  BySignature(::onnx::GraphProto &graph, Metadata &metadata,
              StringRef modelPath, InitializerTable &table,
              Diagnostics &diagnostics)
      : graph(graph), metadata(metadata), modelPath(modelPath), table(table),
        diagnostics(diagnostics) {}

  LogicalResult run();

private:
  using Nodes = SmallVector<::onnx::NodeProto *>;
  using Arguments = SmallVector<const NodeArgument *>;

  void index();
  void settle(ArrayRef<::onnx::NodeProto *> nodes);
  void findArguments(InitializerUse use, Arguments &missing, Arguments &lost);
  const NodeArgument *argumentFor(InitializerUse use,
                                  ArrayRef<const NodeArgument *> missing);
  const NodeArgument *argumentForLost(InitializerUse use,
                                      const Arguments &lost);
  void assign(InitializerUse use);
  void assignLost(InitializerUse use, StringRef lost);
  std::string targetOfLost(InitializerUse use, StringRef lost);
  StringRef pathOfOwn(size_t init);
  bool isOwnFree(size_t init, StringRef lost) const;
  LogicalResult settleUnknown(InitializerUse use);
  std::string nameLike(StringRef name) const;
  void give(InitializerUse use, const std::string &target, StringRef lost);
  void makeConstant(InitializerUse use);
  void restoreBias(ArrayRef<::onnx::NodeProto *> nodes);
  /// A parameter that no initializer is and no operator names.
  bool isFree(const SignatureInput &input) const {
    return input.kind == "PARAMETER" && !held.contains(input.target) &&
           !mentioned.contains(input.placeholder);
  }
  const SignatureInput *ownerOf(size_t init) const {
    return init < owners.size() ? owners[init] : nullptr;
  }

  ::onnx::GraphProto &graph;
  Metadata &metadata;
  StringRef modelPath;
  InitializerTable &table;
  Diagnostics &diagnostics;
  /// The nodes that compute one operator of the framework.
  llvm::MapVector<StringRef, Nodes> calls;
  llvm::StringMap<const SignatureInput *> placeholders, targets;
  /// Of each initializer: the entry of the signature that it is, or that alone
  /// it was folded from.
  std::vector<const SignatureInput *> owners;
  /// Those that some initializer is, and those that some operator names.
  llvm::StringSet<> held, mentioned;
  /// Biases that were put back.
  llvm::StringSet<> restored;
  /// Initializers that a node reads as what they are.
  llvm::DenseSet<size_t> settled;
  std::vector<InitializerUse> open, unknown;
  /// The target of a result that the exporter has folded, by its name.
  llvm::StringMap<std::string> lostTargets;
  /// The initializer that stands for a target in the place of another.
  std::map<std::pair<size_t, std::string>, size_t> copies;
};

void BySignature::index() {
  for (const SignatureInput &input : metadata.signature) {
    placeholders[input.placeholder] = &input;
    if (!input.target.empty())
      targets[input.target] = &input;
  }
  for (size_t i = 0; i < table.size(); ++i) {
    const SignatureInput *owner = targets.lookup(table[i].name);
    auto folded = metadata.foldedFrom.find(table[i].name);
    if (!owner && folded != metadata.foldedFrom.end())
      for (const std::string &source : folded->second)
        if (const SignatureInput *input = targets.lookup(source)) {
          bool second =
              owner && owner->kind == "PARAMETER" && input->kind == "PARAMETER";
          owner = second ? nullptr : input;
          if (second)
            break;
        }
    owners.push_back(owner);
    if (owner)
      held.insert(owner->target);
  }
  for (::onnx::NodeProto &node : *graph.mutable_node()) {
    if (node.output_size() == 0)
      continue;
    const NodeInfo &info = metadata.infoOf(node);
    calls[info.call.empty() ? StringRef(node.output(0)) : StringRef(info.call)]
        .push_back(&node);
    for (const NodeArgument &argument : info.arguments)
      mentioned.insert(argument.name);
  }
}

/// Notes which nodes of a call read an initializer as what it is.
void BySignature::settle(ArrayRef<::onnx::NodeProto *> nodes) {
  for (::onnx::NodeProto *node : nodes)
    for (InitializerUse use : table.uses(*node)) {
      const NodeInfo &info = metadata.infoOf(*node);
      const SignatureInput *owner = ownerOf(use.init);
      if (!table.isFloat(use.init))
        continue;
      if ((owner && info.reads(owner->placeholder)) ||
          info.reads(table[use.init].name)) {
        settled.insert(use.init);
        if (owner)
          lostTargets[table[use.init].name] = owner->target;
      } else {
        open.push_back(use);
      }
    }
}

/// The argument behind a use: by its place, else in their order where another
/// operator reads the initializer as what it is. A single number may be one of
/// the operator's own.
const NodeArgument *
BySignature::argumentFor(InitializerUse use,
                         ArrayRef<const NodeArgument *> missing) {
  StringRef op = metadata.infoOf(*use.node).target;
  int position = argumentOf(op, use.node->op_type(), use.operand);
  if (position == noArgument ||
      (!ownerOf(use.init) && table[use.init].type.getNumElements() == 1 &&
       !isElementwise(op)))
    return nullptr;
  for (const NodeArgument *argument : missing)
    if (position >= 0 && argument->position == position)
      return argument;
  if (!ownerOf(use.init) || !settled.contains(use.init))
    return nullptr;
  if (missing.size() == 1 && (position < 0 || isElementwise(op)))
    return missing.front();
  // How many uses of the node itself came before this one.
  size_t nth = 0;
  for (const InitializerUse &other : open)
    nth += other.node == use.node && other.operand < use.operand;
  return position < 0 && nth < missing.size() ? missing[nth] : nullptr;
}

/// What the program read in this place, and no initializer is under its own
/// name: parameters, and results that were folded.
void BySignature::findArguments(InitializerUse use, Arguments &missing,
                                Arguments &lost) {
  for (const NodeArgument &argument : metadata.infoOf(*use.node).arguments) {
    const SignatureInput *input = placeholders.lookup(argument.name);
    bool given = input && copies.count({use.init, input->target});
    if (given ||
        (input && !input->target.empty() && !held.contains(input->target)))
      missing.push_back(&argument);
    else if (!input && !table.isValue(argument.name) &&
             !isCreated(argument.name))
      lost.push_back(&argument);
  }
}

void BySignature::assign(InitializerUse use) {
  Arguments missing, lost;
  findArguments(use, missing, lost);
  if (const NodeArgument *argument = argumentFor(use, missing))
    return give(use, placeholders[argument->name]->target, "");
  const SignatureInput *owner = ownerOf(use.init);
  if (!owner || owner->kind != "PARAMETER")
    return; // a constant
  if (!table.isUniform(use.init)) {
    // Tied, unless what was computed here has lost its name: such a matrix may
    // have started equal, too.
    if (argumentForLost(use, lost))
      unknown.push_back(use);
    return;
  }
  if (metadata.infoOf(*use.node).arguments.empty())
    return assignLost(use, "");
  if (const NodeArgument *argument = argumentForLost(use, lost))
    return assignLost(use, argument->name);
  if (settled.contains(use.init))
    makeConstant(use);
}

/// As argumentFor, of a result that was folded.
const NodeArgument *BySignature::argumentForLost(InitializerUse use,
                                                 const Arguments &lost) {
  int position = argumentOf(metadata.infoOf(*use.node).target,
                            use.node->op_type(), use.operand);
  for (const NodeArgument *argument : lost)
    if (position < 0 || argument->position == position)
      return argument;
  return nullptr;
}

/// The module that computes with the initializer under its own name: the
/// longest one that the name is inside of.
StringRef BySignature::pathOfOwn(size_t init) {
  StringRef longest;
  for (const InitializerUse &use : open)
    if (StringRef path = metadata.infoOf(*use.node).path;
        use.init == init && path.size() >= longest.size() &&
        seenFrom(path, ownerOf(init)->target))
      longest = path;
  for (::onnx::NodeProto &node : *graph.mutable_node())
    for (const std::string &input : node.input())
      if (StringRef path = metadata.infoOf(node).path;
          input == table[init].name && path.size() >= longest.size() &&
          seenFrom(path, ownerOf(init)->target))
        longest = path;
  return longest;
}

/// Whether no other folded result is what the initializer is by its own name.
bool BySignature::isOwnFree(size_t init, StringRef lost) const {
  return !settled.contains(init) &&
         (lost.empty() || llvm::none_of(lostTargets, [&](const auto &other) {
            return other.second == ownerOf(init)->target &&
                   other.first() != lost;
          }));
}

/// The parameter behind a result that was folded, and merged with another:
/// the one at the same place of its module, or the only one that the module
/// has and the graph lacks.
std::string BySignature::targetOfLost(InitializerUse use, StringRef lost) {
  StringRef path = metadata.infoOf(*use.node).path,
            own = ownerOf(use.init)->target;
  if (auto rest = seenFrom(pathOfOwn(use.init), own)) {
    std::string name = join(path, *rest);
    if (const SignatureInput *input = targets.lookup(name))
      if (isFree(*input) || (name == own && isOwnFree(use.init, lost)))
        return name;
  }
  SmallVector<const SignatureInput *> inModule, below;
  for (const SignatureInput &input : metadata.signature)
    if (isFree(input) && modulePath(input.target) == path)
      inModule.push_back(&input);
    else if (isFree(input) && seenFrom(path, input.target))
      below.push_back(&input);
  if (inModule.size() == 1)
    return inModule.front()->target;
  if (inModule.empty() && below.size() == 1 && !lost.empty())
    return below.front()->target;
  return "";
}

void BySignature::assignLost(InitializerUse use, StringRef lost) {
  auto known = lostTargets.find(lost);
  std::string target = !lost.empty() && known != lostTargets.end()
                           ? known->second
                           : targetOfLost(use, lost);
  if (target.empty()) {
    unknown.push_back(use);
    return;
  }
  if (!lost.empty())
    lostTargets[lost] = target;
  if (target != ownerOf(use.init)->target)
    give(use, target, lost);
}

/// What reads the initializer elsewhere than where it is at home, and under no
/// name: one of those that the graph still lacks may be behind it; else it is a
/// number of the operator, such as the scale of a norm without weights.
LogicalResult BySignature::settleUnknown(InitializerUse use) {
  const SignatureInput *owner = ownerOf(use.init);
  const NodeInfo &info = metadata.infoOf(*use.node);
  StringRef home = pathOfOwn(use.init);
  if (seenFrom(info.path, home) || seenFrom(home, info.path))
    return success();
  StringRef leaf = StringRef(owner->target).rsplit('.').second;
  const ModuleParameter *tied = metadata.findParameter(owner->target);
  for (const SignatureInput &input : metadata.signature)
    if (isFree(input) && StringRef(input.target).rsplit('.').second == leaf &&
        (!tied || tied != metadata.findParameter(input.target)))
      return diagnostics.error(
          "'" + modelPath + "': node '" + info.node + "' reads parameter '" +
          owner->target + "', or '" + input.target +
          "' that started equal and was merged with it, and nothing says "
          "which; export with optimize=False, which keeps parameters apart");
  if (info.arguments.empty())
    makeConstant(use);
  return success();
}

/// A name that the exporter could have made of the same operator: "permute_7"
/// beside "permute_1".
std::string BySignature::nameLike(StringRef name) const {
  auto [op, number] = name.rsplit('_');
  if (!number.empty() && llvm::all_of(number, llvm::isDigit))
    name = op;
  for (unsigned i = 1;; ++i) {
    std::string other = (name + "_" + Twine(i)).str();
    if (!table.isValue(other))
      return other;
  }
}

/// What the use reads is `target` from now on.
void BySignature::give(InitializerUse use, const std::string &target,
                       StringRef lost) {
  auto [copy, isNew] = copies.try_emplace({use.init, target}, 0);
  if (isNew) {
    const SignatureInput *owner = ownerOf(use.init);
    // What was folded has been transposed, or more; undone where that is for
    // the initializer that it was merged with.
    bool folded = owner && owner->target != table[use.init].name;
    if (!owner)
      folded = use.node->op_type() == "MatMul" && use.operand == 1 &&
               StringRef(metadata.infoOf(*use.node).target)
                   .starts_with("aten.linear");
    std::string name = folded && !lost.empty() ? lost.str()
                       : folded                ? nameLike(table[use.init].name)
                                               : target;
    copy->second = table.addCopy(use.init, name);
    if (folded)
      metadata.foldedFrom[name] = {target};
    held.insert(target);
  }
  use.node->set_input(use.operand, table[copy->second].name);
}

/// An operator that reads no parameter here, such as a norm without weights,
/// has its constant for itself.
void BySignature::makeConstant(InitializerUse use) {
  auto [copy, isNew] = copies.try_emplace({use.init, ""}, 0);
  if (isNew)
    copy->second = table.addCopy(use.init, table[use.init].name + ".constant");
  use.node->set_input(use.operand, table[copy->second].name);
}

/// The exporter's optimizer drops a bias of zeros from Gemm and Conv.
void BySignature::restoreBias(ArrayRef<::onnx::NodeProto *> nodes) {
  for (::onnx::NodeProto *node : nodes) {
    bool gemm = node->op_type() == "Gemm";
    if ((!gemm && node->op_type() != "Conv") || node->input_size() < 2 ||
        (node->input_size() > 2 && !node->input(2).empty()))
      continue;
    const NodeInfo &info = metadata.infoOf(*node);
    std::optional<size_t> weight = table.find(node->input(1));
    int place = argumentOf(info.target, node->op_type(), 2);
    for (const NodeArgument &argument : info.arguments) {
      const SignatureInput *input = placeholders.lookup(argument.name);
      if (argument.position != place || !input || input->kind != "PARAMETER" ||
          !weight || table[*weight].type.getRank() < 2)
        continue;
      bool isRead = llvm::any_of(nodes, [&](const ::onnx::NodeProto *other) {
        return llvm::is_contained(other->input(), input->target);
      });
      if (isRead ||
          (held.contains(input->target) && !restored.contains(input->target)))
        continue;
      bool transposed = !gemm;
      for (const ::onnx::AttributeProto &attribute : node->attribute())
        transposed |= attribute.name() == "transB" && attribute.i() != 0;
      int64_t size = table[*weight].type.getDimSize(transposed ? 0 : 1);
      if (restored.insert(input->target).second) {
        table.addZeros(input->target, size, *weight);
        held.insert(input->target);
      }
      while (node->input_size() < 3)
        node->add_input();
      node->set_input(2, input->target);
    }
  }
}

LogicalResult BySignature::run() {
  index();
  for (auto &[name, nodes] : calls)
    settle(nodes);
  for (const InitializerUse &use : open)
    assign(use);
  for (const InitializerUse &use : unknown)
    if (failed(settleUnknown(use)))
      return failure();
  for (auto &[name, nodes] : calls)
    restoreBias(nodes);
  return success();
}

} // namespace

LogicalResult separateMergedParameters(::onnx::GraphProto &graph,
                                       Metadata &metadata, StringRef modelPath,
                                       std::vector<Initializer> &initializers,
                                       Diagnostics &diagnostics) {
  InitializerTable table(graph, modelPath, initializers);
  if (metadata.signature.empty())
    return separateByPath(graph, metadata, modelPath, table, diagnostics);
  return BySignature(graph, metadata, modelPath, table, diagnostics).run();
}

} // namespace shardonnx
