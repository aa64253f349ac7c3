// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The import from file to module, step by step.

#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/InputFile.h"

#include "ChangedBuffers.h"
#include "ConstantBranches.h"
#include "Counts.h"
#include "Dimensions.h"
#include "Emit.h"
#include "ErasedStops.h"
#include "FlowByShape.h"
#include "GivenInputs.h"
#include "Interface.h"
#include "LegacyIndices.h"
#include "LocalFunctions.h"
#include "MaskedScatter.h"
#include "Metadata.h"
#include "NarrowInputs.h"
#include "NoGrad.h"
#include "OldOpsets.h"
#include "OnnxLibrary.h"
#include "Parameters.h"
#include "SelectedRows.h"
#include "Subgraphs.h"
#include "TrainingChoice.h"
#include "UnsupportedOps.h"
#include "Untold.h"
#include "WireFormat.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "shardonnx/Dialect/ONNX/IR/ONNX.h"
#include "shardonnx/Dialect/ONNX/IR/Untrained.h"
#include "shardonnx/Support/Diagnostics.h"
#include "shardonnx/Support/OtherFile.h"
#include "llvm/Support/Format.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {
namespace {

/// Opsets that the raise reads as they are. Older graphs are converted.
constexpr int oldestOpset = 13;
constexpr int convertedOpset = 18;
/// The version of the file format since which initializers need not be inputs.
constexpr int64_t separateInputsIR = 4;

/// The opset of the default domain, or 0 when the model imports no domain. One
/// that imports others alone has no op of the default domain.
int opsetOf(const ::onnx::ModelProto &model) {
  for (const auto &import : model.opset_import())
    if (import.domain().empty())
      return static_cast<int>(import.version());
  return model.opset_import_size() == 0 ? 0 : onnxlib::newestOpset();
}

/// The default domain has two names; the library looks ops up by the empty one.
template <typename Owner, typename Nodes>
void shortenDomains(Owner &owner, Nodes &nodes) {
  for (auto &import : *owner.mutable_opset_import())
    if (import.domain() == "ai.onnx")
      import.clear_domain();
  for (auto &node : nodes)
    if (node.domain() == "ai.onnx")
      node.clear_domain();
}

/// For the raise to hand on.
void setUntrained(ModuleOp module, const std::vector<Untrained> &untrained) {
  Builder b(module.getContext());
  SmallVector<Attribute> list;
  for (const Untrained &one : untrained) {
    NamedAttrList entry;
    entry.set("name", b.getStringAttr(one.name));
    entry.set("reason", b.getStringAttr(one.reason));
    if (one.asked)
      entry.set("asked", b.getUnitAttr());
    if (one.lost)
      entry.set("lost", b.getUnitAttr());
    if (one.readBy)
      entry.set("read_by", b.getStrArrayAttr(SmallVector<StringRef>(
                               one.readBy->begin(), one.readBy->end())));
    list.push_back(entry.getDictionary(module.getContext()));
  }
  if (!list.empty())
    module->setAttr(onnx::kUntrainedAttr, b.getArrayAttr(list));
}

class Importer {
public:
  Importer(MLIRContext &context, const ImportOptions &options,
           Diagnostics &diagnostics)
      : context(context), options(options), choice(options),
        diagnostics(diagnostics) {}

  OwningOpRef<ModuleOp> run() {
    if (failed(read()))
      return {};
    // `eval` runs what the graph says, a program is trained as the module was.
    bool forTraining = !options.inputs;
    Metadata metadata = readMetadata(model);
    if (forTraining && (failed(refuseErasedDetach(metadata)) ||
                        failed(refuseAverages(metadata)) ||
                        failed(refuseMergedNorms(metadata)) ||
                        failed(refuseMergedStatistics(metadata))))
      return {};
    if (!forTraining)
      metadata.forgetDropped();
    if (options.inputs &&
        failed(bindGivenInputs(*model.mutable_graph(), options, diagnostics)))
      return {};
    if (failed(bindDimensions(*model.mutable_graph(), options, diagnostics)))
      return {};
    noteChanging(metadata, forTraining);
    resolveFlow(&stripped);
    if (forTraining)
      widenNarrowInputs(*model.mutable_graph());
    FailureOr<ModelInitializers> taken = takeInitializers(
        model, stripped, metadata, options, &context, diagnostics);
    if (failed(taken))
      return {};
    freezeStoppedWaves(model.graph(), metadata, options.model, *taken);
    if (failed(stopGradients(*model.mutable_graph(), metadata,
                             taken->initializers, options, diagnostics)) ||
        (forTraining &&
         failed(refuseErasedStops(metadata, taken->initializers))))
      return {};
    if (forTraining)
      listChanged(model.graph(), metadata, taken->initializers,
                  taken->untrained);
    if (forTraining && options.trainable.empty())
      warnOfMergedValues(model.graph(), metadata, taken->initializers,
                         options.model, diagnostics);
    if ((forTraining && failed(tellUntold(model, metadata, options,
                                          taken->initializers, diagnostics))) ||
        failed(normalize(metadata, taken->initializers)))
      return {};
    completeMetadata(metadata, model);
    OwningOpRef<ModuleOp> module =
        emitModule(model.graph(), taken->initializers, metadata, options.model,
                   opsetOf(model), context, diagnostics);
    if (module)
      setUntrained(*module, taken->untrained);
    if (module && !metadata.signature.empty() && metadata.parameters.empty())
      (*module)->setAttr(onnx::kGradientsUntoldAttr, UnitAttr::get(&context));
    if (module && forTraining)
      warnOfDropout(metadata);
    return module;
  }

private:
  LogicalResult fail(const Twine &why) {
    return diagnostics.error("'" + options.model + "': " + why);
  }

  void warnOfDropout(const Metadata &metadata);
  LogicalResult read();
  LogicalResult refuseOther(const std::string &why);
  LogicalResult refuseErasedDetach(const Metadata &metadata) {
    std::string reader = findErasedDetach(model.graph(), [&](StringRef name) {
      return metadata.holdsParameter(name);
    });
    if (reader.empty())
      return success();
    return fail("node '" + reader +
                "' read x.detach(), which the exporter has erased: gradients "
                "would flow past it; export with optimize=False");
  }
  LogicalResult refuseAverages(const Metadata &metadata) {
    for (const ::onnx::NodeProto &node : model.graph().node())
      if (metadata.infoOf(node).dropped.averages)
        return fail("node '" + node.name() +
                    "' (ScatterElements) is scatter_reduce() with 'mean', of "
                    "which the exporter keeps the last element alone: take "
                    "'sum', and divide it by how many there are");
    return success();
  }
  /// A trace of the program says it for sure.
  LogicalResult refuseErasedStops(const Metadata &metadata,
                                  ArrayRef<Initializer> initializers) {
    llvm::StringSet<> trained;
    for (const Initializer &init : initializers)
      if (choice.trains(init))
        trained.insert(init.name);
    std::string what = metadata.signature.empty()
                           ? findErasedStop(model.graph(),
                                            [&](StringRef name) {
                                              return trained.contains(name);
                                            })
                           : std::string();
    if (what.empty())
      return success();
    std::string text = "node " + what +
                       ", as a straight-through estimator does, whose "
                       "detach() the exporter has erased: gradients would be "
                       "others";
    if (options.trainable.empty())
      return fail(text + "; export with dynamo=True, or give --trainable='.*' "
                         "where nothing is detached");
    diagnostics.warning("'" + options.model + "': " + text +
                        "; --trainable has them go on");
    return success();
  }
  /// onnxscript's rules FuseBatchNormInto…: running statistics even of a norm
  /// that takes those of the batch, under the name of the product's weight.
  LogicalResult refuseMergedNorms(const Metadata &metadata) {
    static constexpr StringRef products[] = {"Conv", "ConvTranspose", "Gemm",
                                             "MatMul"};
    for (const ::onnx::NodeProto &node : model.graph().node())
      if (StringRef(metadata.infoOf(node).target).contains("batch_norm") &&
          llvm::is_contained(products, node.op_type()))
        return fail("node '" + node.name() + "' (" + node.op_type() +
                    ") is a product that the exporter has merged with a batch "
                    "norm: neither has its own weights any longer; export with "
                    "optimize=False");
    return success();
  }
  /// A fresh batch norm's statistics are its weight's ones and bias's zeros.
  LogicalResult refuseMergedStatistics(const Metadata &metadata) {
    for (const ::onnx::NodeProto &node : model.graph().node()) {
      if (!isOp(node, "BatchNormalization") || node.input_size() < 5 ||
          metadata.infoOf(node).dropped.trainsNorm ||
          intAttribute(node, "training_mode", 0) != 0)
        continue;
      for (int i : {3, 4})
        if (metadata.holdsParameter(node.input(i)) &&
            !choice.freezes(node.input(i)))
          return fail("node '" + node.name() +
                      "' (BatchNormalization) reads parameter '" +
                      node.input(i) + "' as its running " +
                      (i == 3 ? "mean" : "variance") +
                      ": exporters merge what starts equal; export with "
                      "optimize=False, which keeps them apart");
    }
    return success();
  }
  LogicalResult check() {
    return step(onnxlib::check(model), "is not a valid ONNX model");
  }
  void noteChanging(const Metadata &metadata, bool forTraining);
  /// `strippedModel`: as long as the initializers are as in the file.
  void resolveFlow(const StrippedModel *strippedModel) {
    if (options.foldNumbers)
      resolveFlowByShape(model, opsetOf(model), {strippedModel, changing},
                         options.foldNumbers);
  }
  LogicalResult refuseUnsupported(const Metadata &metadata, bool expanded);
  LogicalResult convert();
  void writeOutRows(const Metadata &metadata,
                    ArrayRef<Initializer> initializers);
  void expandFunctions();
  LogicalResult normalize(const Metadata &metadata,
                          ArrayRef<Initializer> initializers);
  /// Runs one step of the ONNX library.
  LogicalResult step(llvm::Error error, const Twine &what) {
    if (!error)
      return success();
    std::string why = llvm::toString(std::move(error));
    // PyTorch calls a parameter `t` as the result of an operator.
    const char *mend = StringRef(why).contains("single static assignment")
                           ? "; rename the parameter or buffer of the module "
                             "that is called so, and export again"
                           : "";
    return fail(what + ": " + why + mend);
  }

  MLIRContext &context;
  const ImportOptions &options;
  TrainingChoice choice;
  Diagnostics &diagnostics;
  StrippedModel stripped;
  ::onnx::ModelProto model;
  llvm::StringSet<> changing; // initializers, see KnownInitializers
};

void Importer::noteChanging(const Metadata &metadata, bool forTraining) {
  for (const auto &input : model.graph().input())
    changing.insert(input.name());
  for (const auto &tensor : model.graph().initializer())
    if (forTraining &&
        (mayBeWeight(tensor) || metadata.holdsParameter(tensor.name())))
      changing.insert(tensor.name());
}

/// An export in evaluation mode has no dropout, which its author may not know.
void Importer::warnOfDropout(const Metadata &metadata) {
  bool drops = llvm::any_of(model.graph().node(), [](const auto &node) {
    return node.op_type() == "Dropout";
  });
  if (metadata.dropout.empty() || drops)
    return;
  const auto &[module, ratio] = metadata.dropout.front();
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%g", ratio);
  diagnostics.warning(
      "'" + options.model + "': the graph drops nothing out, but the module " +
      "does in training ('" + module + "': " + text + ", " +
      Twine(metadata.dropout.size()) +
      " in all): it was exported in evaluation mode; call module.train() " +
      "before the export to train with dropout");
}

/// `why` where it does not show what the file is instead.
LogicalResult Importer::refuseOther(const std::string &why) {
  std::string other = describeOtherFile(options.model);
  return fail("cannot be imported: " + (other.empty() ? why : other));
}

LogicalResult Importer::read() {
  InputBytes buffer = readInputFile(options.model);
  if (!buffer && buffer.getError() == std::errc::is_a_directory)
    return refuseOther("it is a folder");
  if (!buffer)
    return fail("cannot be read: " + buffer.getError().message());
  llvm::Expected<StrippedModel> result = stripModel((*buffer)->getBuffer());
  if (!result)
    return refuseOther(llvm::toString(result.takeError()));
  stripped = std::move(*result);
  bool parsed = model.ParseFromString(stripped.bytes);
  stripped.bytes = std::string();
  takeConstantBranches(*model.mutable_graph());
  shortenDomains(model, *model.mutable_graph()->mutable_node());
  for (auto &function : *model.mutable_functions())
    shortenDomains(function, *function.mutable_node());
  if (parsed && opsetOf(model) == 0 && model.graph().node_size() > 0)
    return fail("cannot be imported: it names no opset; add an opset_import");
  if (!parsed || opsetOf(model) == 0)
    return refuseOther("it is not an ONNX model");
  if (opsetOf(model) > onnxlib::newestOpset())
    return fail("uses opset " + Twine(opsetOf(model)) + ", but " +
                Twine(onnxlib::newestOpset()) +
                " is the newest that is known; export with an older one");
  if (std::string list = listUnsupportedTypes(model.graph()); !list.empty())
    return fail("types that are not supported: " + list +
                "; dense tensors of f64, f32, f16, bf16, integers of 8 to 64 "
                "bits and bool are");
  if (std::string list = listShapeless(model.graph()); !list.empty())
    return fail("inputs without a shape: " + list +
                "; export with one, dimensions of which may be names");
  return success();
}

LogicalResult Importer::refuseUnsupported(const Metadata &metadata,
                                          bool expanded) {
  auto isKnown = [&](StringRef op) {
    return !options.isSupported || options.isSupported(op);
  };
  std::string wrong =
      describeUnsupportedOps(model, metadata, isKnown, expanded);
  return wrong.empty() ? success() : fail(wrong);
}

LogicalResult Importer::convert() {
  // The converter trusts what the checker has not seen.
  if (failed(check()))
    return failure();
  int opset = opsetOf(model);
  llvm::StringSet<> known;
  for (const auto &tensor : model.graph().initializer())
    known.insert(tensor.name());
  writeOutOldOps(*model.mutable_graph(), opset);
  if (failed(step(onnxlib::convertVersion(model, convertedOpset),
                  "opset " + Twine(opset) + " cannot be converted to " +
                      Twine(convertedOpset) + "; export with that opset")))
    return failure();
  completeConverted(*model.mutable_graph(), opset, known);
  return success();
}

/// A NonZero that stays is for the raise, to which a mask may be known; else it
/// says why.
void Importer::writeOutRows(const Metadata &metadata,
                            ArrayRef<Initializer> initializers) {
  if (llvm::none_of(model.graph().node(),
                    [](const auto &node) { return isOp(node, "NonZero"); }))
    return;
  writeOutMaskedScatters(model, opsetOf(model));
  auto detaches = [&](const ::onnx::NodeProto &node) {
    return metadata.infoOf(node).dropped.detaches;
  };
  ValueOrigins origins{{}, {}, {}, detaches};
  for (const Initializer &init : initializers) {
    (init.trainable ? origins.trained : origins.constants).insert(init.name);
    auto numbers = dyn_cast_if_present<DenseFPElementsAttr>(init.value);
    if (numbers && llvm::any_of(numbers, [](const llvm::APFloat &number) {
          return !number.isFinite();
        }))
      origins.infinite.insert(init.name);
  }
  std::string why = writeOutSelectedRows(model, opsetOf(model), origins);
  if (why.empty())
    return;
  for (::onnx::NodeProto &node : *model.mutable_graph()->mutable_node())
    if (isOp(node, "NonZero"))
      addAttribute(node, "refusal", StringRef(why));
}

/// The bodies of schemas, in which there may be branches and loops, in which
/// there may be ops that have such bodies.
void Importer::expandFunctions() {
  if (!options.isSupported)
    return;
  int nodes;
  do {
    onnxlib::expandSchemaFunctions(model, options.isSupported);
    nodes = model.graph().node_size();
    resolveFlow(/*strippedModel=*/nullptr);
  } while (model.graph().node_size() != nodes);
}

/// Functions inlined, opset raised where it is too old, checked, and typed.
LogicalResult Importer::normalize(const Metadata &metadata,
                                  ArrayRef<Initializer> initializers) {
  const bool mendsIndices = !options.inputs && isLegacy(model, metadata);
  const int exported = opsetOf(model);
  // Initializers have left the inputs, where older files list them, too.
  model.set_ir_version(std::max<int64_t>(model.ir_version(), separateInputsIR));
  completeFunctions(model);
  if (failed(
          step(onnxlib::inlineFunctions(model), "functions cannot be inlined")))
    return failure();
  // A function may choose by its attributes, or have a loop.
  takeConstantBranches(*model.mutable_graph(), /*byInitializers=*/false);
  resolveFlow(/*strippedModel=*/nullptr);
  if (failed(refuseUnsupported(metadata, /*expanded=*/false)))
    return failure();
  completeOutputs(model);
  if (opsetOf(model) < oldestOpset && failed(convert()))
    return failure();
  if (failed(check()))
    return failure();
  // An attribute of newer opsets than the file's may come of it: checked
  // before.
  if (mendsIndices)
    mendLegacyIndices(model, opsetOf(model), exported, [&](const Twine &what) {
      diagnostics.warning("'" + options.model + "': " + what);
    });
  if (!options.inputs)
    fixNumbersOfCounts(*model.mutable_graph(), opsetOf(model));
  writeOutRows(metadata, initializers);
  expandFunctions();
  if (failed(refuseUnsupported(metadata, /*expanded=*/true)))
    return failure();
  if (failed(step(onnxlib::inferShapes(model), "shapes cannot be inferred")))
    return failure();
  return step(onnxlib::checkOperandTypes(model), "types do not fit");
}

} // namespace

OwningOpRef<ModuleOp> importOnnx(MLIRContext &context,
                                 const ImportOptions &options,
                                 Diagnostics &diagnostics) {
  GOOGLE_PROTOBUF_VERIFY_VERSION;
  ::google::protobuf::SetLogHandler(nullptr);
  context.loadDialect<onnx::ONNXDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = Importer(context, options, diagnostics).run();
  if (module && failed(verify(*module)))
    return {};
  return module;
}

FailureOr<std::string> onnxOfText(StringRef text, Diagnostics &diagnostics) {
  ::onnx::ModelProto model;
  if (llvm::Error error = onnxlib::parseText(text, model))
    return diagnostics.internalError(llvm::toString(std::move(error)));
  return model.SerializeAsString();
}

} // namespace shardonnx
