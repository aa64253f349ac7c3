// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decides what is a parameter, and recovers those that the exporter's
// optimizer renamed, transposed or merged.

#include "Parameters.h"

#include "ExternalData.h"
#include "FoldedParameters.h"
#include "InitializerTable.h"
#include "KnownBuffers.h"
#include "LegacyWeights.h"
#include "MergedCalls.h"
#include "MergedParameters.h"
#include "Subgraphs.h"
#include "Types.h"
#include "Untold.h"
#include "UntrainedParameters.h"
#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {

namespace {

class Taker {
public:
  Taker(::onnx::ModelProto &model, const StrippedModel &stripped,
        Metadata &metadata, const ImportOptions &options, MLIRContext *context,
        Diagnostics &diagnostics)
      : graph(*model.mutable_graph()), stripped(stripped), metadata(metadata),
        options(options), modelPath(options.model), context(context),
        forTraining(!options.inputs), untold(isUntold(model, metadata)),
        diagnostics(diagnostics) {}

  FailureOr<ModelInitializers> run() {
    if (graph.sparse_initializer_size() > 0)
      return fail("sparse initializers are not supported; store them dense");
    if (static_cast<size_t>(graph.initializer_size()) !=
        stripped.initializers.size())
      return fail("it is not an ONNX model: its graph is malformed");
    for (int i = 0; i < graph.initializer_size(); ++i)
      if (llvm::failed(read(graph.initializer(i), stripped.initializers[i])))
        return failure();
    if (forTraining && llvm::failed(recoverMergedAndFolded()))
      return failure();
    moveToInputs();
    recoverTransposed();
    if (forTraining)
      recoverLegacy();
    if (llvm::failed(markTrainable()))
      return failure();
    if (llvm::failed(nameTied()))
      return failure();
    listMissing(graph, metadata, modelPath, initializers, forTraining,
                untrained);
    return ModelInitializers{std::move(initializers), std::move(untrained)};
  }

private:
  LogicalResult fail(const Twine &why) {
    return diagnostics.error("'" + modelPath + "': " + why);
  }

  LogicalResult read(const ::onnx::TensorProto &tensor,
                     const InitializerBytes &bytes);
  LogicalResult locate(Initializer &init, const ::onnx::TensorProto &tensor,
                       const InitializerBytes &bytes);
  LogicalResult recoverMergedAndFolded();
  void moveToInputs();
  void recoverTransposed();
  std::string addTranspose(const std::string &target, const std::string &name,
                           int position);
  void replaceUses(const std::string &from, const std::string &to);
  bool isTransposedLinear(const Initializer &init, StringRef target) const;
  void recoverLegacy();
  bool isParameter(const Initializer &init) const;
  bool isKnownBuffer(const Initializer &init) const;
  bool guesses() const {
    return metadata.signature.empty() && metadata.parameters.empty();
  }
  LogicalResult markTrainable();
  LogicalResult nameTied();
  LogicalResult nameAsAnnotated();
  Initializer *sharedWith(StringRef target);
  Initializer *find(StringRef name) {
    auto found = byName.find(name);
    return found == byName.end() ? nullptr : &initializers[found->second];
  }
  void declareInput(const Initializer &init, int elementType);

  ::onnx::GraphProto &graph;
  const StrippedModel &stripped;
  Metadata &metadata;
  const ImportOptions &options;
  StringRef modelPath;
  MLIRContext *context;
  bool forTraining;
  bool untold;
  Diagnostics &diagnostics;
  std::vector<Initializer> initializers;
  std::vector<Untrained> untrained;
  llvm::StringMap<size_t> byName;
  llvm::StringSet<> statistics; // of norms that are written out
};

LogicalResult Taker::read(const ::onnx::TensorProto &tensor,
                          const InitializerBytes &bytes) {
  Initializer init;
  init.name = init.symbol = tensor.name();
  init.isConstant = bytes.isConstant || (untold && isLiteralName(init.name));
  init.isStripped = bytes.stripped;
  if (init.name.empty())
    return fail("an initializer has no name");
  init.type = convertTensorType(tensor, context);
  if (!init.type)
    return fail("initializer '" + init.name +
                "' has an element type or a shape that is not supported");
  if (llvm::failed(locate(init, tensor, bytes)))
    return failure();
  if (!byName.try_emplace(init.name, initializers.size()).second)
    return fail("initializer '" + init.name + "' occurs twice");
  initializers.push_back(std::move(init));
  return success();
}

LogicalResult Taker::locate(Initializer &init,
                            const ::onnx::TensorProto &tensor,
                            const InitializerBytes &bytes) {
  uint64_t size = storageBytes(init.type);
  if (tensor.data_location() == ::onnx::TensorProto::EXTERNAL) {
    llvm::Expected<ExternalRange> range =
        resolveExternalData(tensor, size, modelPath);
    if (!range)
      return fail(llvm::toString(range.takeError()));
    init.file = range->file;
    init.offset = range->offset;
    init.length = range->length;
    return success();
  }
  if (bytes.mappable) {
    if (bytes.length != size)
      return fail("initializer '" + init.name + "' has " + Twine(bytes.length) +
                  " bytes where its type needs " + Twine(size));
    init.file = llvm::sys::path::filename(modelPath).str();
    init.offset = bytes.offset;
    init.length = bytes.length;
    return success();
  }
  init.value = convertTensor(tensor, context);
  if (!init.value)
    return fail("initializer '" + init.name +
                "' has not as many elements as its shape says");
  return success();
}

void Taker::declareInput(const Initializer &init, int elementType) {
  ::onnx::ValueInfoProto *input = graph.add_input();
  input->set_name(init.name);
  auto *tensor = input->mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(elementType);
  auto *shape = tensor->mutable_shape();
  for (int64_t dim : init.type.getShape())
    shape->add_dim()->set_dim_value(dim);
}

LogicalResult Taker::recoverMergedAndFolded() {
  separateMergedCalls(graph, metadata);
  if (llvm::failed(separateMergedParameters(graph, metadata, modelPath,
                                            initializers, diagnostics)))
    return failure();
  recoverFoldedParameters(graph, metadata, modelPath, initializers);
  byName.clear();
  for (auto [i, init] : llvm::enumerate(initializers))
    byName[init.name] = i;
  return success();
}

/// The library must see every initializer once: the small ones with their
/// values, the others as typed inputs. Old files list them as inputs, too.
void Taker::moveToInputs() {
  auto *inputs = graph.mutable_input();
  for (int i = inputs->size() - 1; i >= 0; --i)
    if (byName.contains(inputs->Get(i).name()))
      inputs->DeleteSubrange(i, 1);
  auto *tensors = graph.mutable_initializer();
  for (int i = tensors->size() - 1; i >= 0; --i) {
    const ::onnx::TensorProto &tensor = tensors->Get(i);
    bool external = tensor.data_location() == ::onnx::TensorProto::EXTERNAL;
    const Initializer &init = *find(tensor.name());
    if (!external && !init.isStripped)
      continue;
    declareInput(init, tensor.data_type());
    tensors->DeleteSubrange(i, 1);
  }
}

/// True when `init` is a transpose by name, or when its every use is the matrix
/// of a linear layer of `target`, where the exporter's only constant
/// subexpression is the transpose.
bool Taker::isTransposedLinear(const Initializer &init,
                               StringRef target) const {
  const SignatureInput *parameter = metadata.findTarget(target);
  if (!parameter || parameter->kind != "PARAMETER" || init.type.getRank() != 2)
    return false;
  // `weight.T` of a module's own code.
  if (isResultOf(init.name, "permute") || isResultOf(init.name, "transpose") ||
      isResultOf(init.name, "t"))
    return true;
  bool used = false;
  for (const ::onnx::NodeProto &node : graph.node())
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i) != init.name)
        continue;
      const NodeInfo *info = metadata.findInfo(node);
      used = true;
      if (!info || i != 1)
        return false;
      // The framework's operator says so; without it, the module's own weight
      // read by a product inside the module can only be this.
      bool linear = StringRef(info->target).starts_with("aten.linear") &&
                    info->reads(parameter->placeholder);
      bool own = info->target.empty() && info->op == "MatMul" &&
                 info->path + ".weight" == target.str();
      if (!linear && !own)
        return false;
    }
  return used;
}

/// Parameters that the optimizer stored transposed under a new name.
void Taker::recoverTransposed() {
  int nextNode = 0;
  llvm::StringMap<std::string> claimed;
  for (Initializer &init : initializers) {
    auto folded = metadata.foldedFrom.find(init.name);
    if (folded == metadata.foldedFrom.end() || folded->second.size() != 1)
      continue;
    const std::string &target = folded->second.front();
    if (!isTransposedLinear(init, target))
      continue;
    auto [copy, isFirst] = claimed.try_emplace(target, init.name);
    if (find(target)) {
      // The matrix is also there as it was: tied, so it stays one parameter.
      if (isFirst)
        copy->second = addTranspose(target, init.name, nextNode++);
      replaceUses(init.name, copy->second);
    } else if (isFirst) {
      init.symbol = target;
      init.transposed = true;
    } else {
      replaceUses(init.name, copy->second);
    }
  }
}

/// Weights that the older exporter stored transposed under a number.
void Taker::recoverLegacy() {
  int nextNode = 0;
  for (const LegacyWeight &weight :
       findLegacyWeights(graph, metadata, initializers, modelPath, untold)) {
    Initializer &init = *find(weight.name);
    init.isConstant = !weight.copyOf.empty();
    if (weight.copyOf.empty()) {
      init.symbol = weight.target;
      init.transposed = weight.transposed;
    } else if (weight.copyIsTransposed) {
      Initializer &original = *find(weight.copyOf);
      if (original.names.empty() && !weight.target.empty())
        original.names.push_back(original.symbol);
      if (!weight.target.empty())
        original.names.push_back(weight.target);
      replaceUses(weight.name,
                  addTranspose(weight.copyOf, weight.name, nextNode++));
    } else {
      replaceUses(weight.name, weight.copyOf);
    }
  }
}

/// Adds a Transpose of `target` as node number `position`.
std::string Taker::addTranspose(const std::string &target,
                                const std::string &name, int position) {
  appendNode(graph, "Transpose", {target}, {name + "_of_tied"},
             name + "_transpose");
  moveLastNode(graph, position);
  return name + "_of_tied";
}

void Taker::replaceUses(const std::string &from, const std::string &to) {
  for (::onnx::NodeProto &node : *graph.mutable_node())
    for (std::string &input : *node.mutable_input())
      if (input == from)
        input = to;
}

/// What the signature calls one, without it what the module's author does: what
/// neither names was computed from buffers, or from parameters, which are then
/// listed as missing. Without both, every float tensor of more than one
/// element, or that --trainable names, that is no known buffer.
bool Taker::isParameter(const Initializer &init) const {
  const SignatureInput *input = metadata.findTarget(init.symbol);
  if (!metadata.signature.empty())
    return input && input->kind == "PARAMETER";
  if (!metadata.parameters.empty())
    return metadata.findParameter(init.symbol);
  return !init.isConstant && !isBufferName(init.symbol) &&
         (init.type.getNumElements() > 1 ||
          (untold && !isComputedName(init.symbol)) ||
          llvm::is_contained(options.trainable, init.symbol)) &&
         !init.isBuffer;
}

/// Without a signature and an author's word.
bool Taker::isKnownBuffer(const Initializer &init) const {
  if (init.isConstant || !guesses())
    return false;
  return isBufferByUse(graph, init.name) || statistics.contains(init.name) ||
         isBufferByNumbers(graph, init, modelPath, /*named=*/untold);
}

LogicalResult Taker::markTrainable() {
  if (guesses() && !untold)
    statistics = findStatistics(graph);
  for (Initializer &init : initializers) {
    if (!isa<FloatType>(init.type.getElementType()))
      continue;
    const ModuleParameter *annotated = metadata.findParameter(init.symbol);
    // One without elements has nothing to train.
    init.isBuffer = isKnownBuffer(init);
    init.isParameter = isParameter(init) && init.type.getNumElements() > 0;
    init.trainable =
        init.isParameter && (!annotated || annotated->requiresGrad);
    if (init.isParameter && !init.trainable)
      untrained.push_back({init.symbol, "requires_grad=False", true});
    if (!init.trainable || !init.value)
      continue;
    init.trainable = false;
    if (forTraining)
      return fail("parameter '" + init.symbol +
                  "' is not stored as plain bytes; save the model with raw or "
                  "external data");
  }
  return success();
}

/// The parameter that a module's own operation reads in the place of `target`,
/// which the graph does not have: it is tied.
Initializer *Taker::sharedWith(StringRef target) {
  auto [module, name] = target.rsplit('.');
  for (const ::onnx::NodeProto &node : graph.node()) {
    const NodeInfo *info = metadata.findInfo(node);
    if (!info || info->path != module)
      continue;
    for (const std::string &input : node.input()) {
      Initializer *init = find(input);
      if (init && init->trainable &&
          StringRef(init->symbol).rsplit('.').second == name)
        return init;
    }
  }
  return nullptr;
}

/// Of the names that the module's author gives a parameter, the graph has one:
/// two would be copies that train apart.
LogicalResult Taker::nameAsAnnotated() {
  llvm::DenseMap<const ModuleParameter *, const Initializer *> first;
  for (Initializer &init : initializers) {
    const ModuleParameter *known = metadata.findParameter(init.symbol);
    if (!known)
      continue;
    auto [copy, isFirst] = first.try_emplace(known, &init);
    if (!isFirst && forTraining && init.trainable)
      return fail("'" + copy->second->symbol + "' and '" + init.symbol +
                  "' are one parameter of the module, which the exporter "
                  "wrote twice; export with do_constant_folding=False, or "
                  "dynamo=True");
    init.names =
        known->names.size() > 1 ? known->names : std::vector<std::string>();
  }
  return success();
}

LogicalResult Taker::nameTied() {
  if (!metadata.parameters.empty())
    return nameAsAnnotated();

  llvm::StringSet<> symbols;
  for (const Initializer &init : initializers)
    symbols.insert(init.symbol);
  llvm::StringMap<Initializer *> tied;
  for (const SignatureInput &input : metadata.signature)
    if (input.kind == "PARAMETER" && !symbols.contains(input.target))
      if (Initializer *init = sharedWith(input.target)) {
        tied[input.target] = init;
        tied[init->symbol] = init;
      }
  for (const SignatureInput &input : metadata.signature)
    if (Initializer *init = tied.lookup(input.target))
      init->names.push_back(input.target);
  return success();
}

} // namespace

FailureOr<ModelInitializers>
takeInitializers(::onnx::ModelProto &model, const StrippedModel &stripped,
                 Metadata &metadata, const ImportOptions &options,
                 MLIRContext *context, Diagnostics &diagnostics) {
  return Taker(model, stripped, metadata, options, context, diagnostics).run();
}

} // namespace shardonnx
