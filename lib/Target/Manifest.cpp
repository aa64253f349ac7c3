// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the manifest (docs/manifest.md) from the units, the plan and the
// inputs of a planned module.

#include "shardonnx/Dialect/Exec/IR/Exec.h"
#include "shardonnx/Dialect/Exec/Transforms/Describe.h"
#include "shardonnx/Dialect/Exec/Transforms/Lifetimes.h"
#include "shardonnx/Dialect/NN/IR/Adapters.h"
#include "shardonnx/Dialect/NN/IR/NNF8.h"
#include "shardonnx/Dialect/NN/IR/NNMesh.h"
#include "shardonnx/Dialect/NN/IR/PackedParameters.h"
#include "shardonnx/Dialect/NN/IR/ParameterReport.h"
#include "shardonnx/Dialect/NN/IR/RaiseReport.h"
#include "shardonnx/Dialect/NN/IR/UnitPolicy.h"
#include "shardonnx/Support/ElementType.h"
#include "shardonnx/Target/Program.h"
#include "shardonnx/runtime/InputKind.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/MeshABI.h"
#include "shardonnx/runtime/Workspace.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace shardonnx;
namespace json = llvm::json;

// JSON must be UTF-8; names come from the user's file.
static std::string text(StringRef name) {
  return json::isUTF8(name) ? name.str() : json::fixUTF8(name);
}

static StringRef dtypeName(Type type) { return spell(dtypeOf(type)); }

static json::Array shapeOf(Type type) {
  json::Array shape;
  for (int64_t size : cast<ShapedType>(type).getShape())
    shape.push_back(size);
  return shape;
}

static json::Array inputsOf(ModuleOp module) {
  json::Array inputs;
  for (auto input : module.getOps<exec::InputOp>()) {
    Type type = input.getType();
    json::Object object{
        {"name", text(input.getName())},
        {"kind", input.getKind()},
        {"dtype", dtypeName(cast<ShapedType>(type).getElementType())},
        {"shape", shapeOf(type)}};
    if (input.getLimit())
      object["limit"] = int64_t(input.getLimit());
    if (auto ignored = int64_t(input.getIgnoreIndex());
        ignored != kIgnoredLabel)
      object["ignore_index"] = ignored;
    inputs.push_back(std::move(object));
  }
  return inputs;
}

// Axis 0 of the first input, and axis 1 of the first that holds tokens.
static void addSizes(ModuleOp module, json::Object &manifest) {
  int64_t batch = 1, seq = 0;
  bool first = true;
  for (auto input : module.getOps<exec::InputOp>()) {
    auto type = cast<ShapedType>(input.getType());
    if (type.getRank() >= 1 && first)
      batch = type.getDimSize(0);
    first = false;
    if (seq == 0 && input.getKind() == spell(InputKind::Tokens) &&
        type.getRank() >= 2)
      seq = type.getDimSize(1);
  }
  manifest["batch"] = batch;
  manifest["seq"] = seq;
}

static json::Object lossOf(ModuleOp module) {
  auto kind = module->getAttrOfType<StringAttr>(nn::kLossKindAttr);
  json::Object object{
      {"kind", kind ? kind.getValue() : spell(LossKind::CausalLm)},
      {"denominator", "batches"}};
  exec::LossOp loss;
  module.walk([&](exec::LossOp op) { loss = op; });
  if (!loss)
    return object;
  object["denominator"] = loss.getDenominator();
  object["denominator_shift"] = int64_t(loss.getShift());
  object["denominator_per_microbatch"] = int64_t(loss.getCount());
  for (auto input : module.getOps<exec::InputOp>())
    if (int64_t(input.getIndex()) == int64_t(loss.getDenominatorArg()))
      object["denominator_input"] = text(input.getName());
  return object;
}

// What the raise found, and what it did not and why.
static json::Array raisedOf(ModuleOp module) {
  json::Array entries;
  auto raised = module->getAttrOfType<ArrayAttr>(nn::kRaisedAttr);
  if (!raised)
    return entries;
  for (auto entry : raised.getAsRange<DictionaryAttr>()) {
    json::Object object{{"what", text(entry.getAs<StringAttr>("what"))}};
    if (auto why = entry.getAs<StringAttr>("why"))
      object["why"] = text(why);
    json::Array nodes;
    for (auto node : entry.getAs<ArrayAttr>("nodes").getAsRange<StringAttr>())
      nodes.push_back(text(node));
    object["nodes"] = std::move(nodes);
    entries.push_back(std::move(object));
  }
  return entries;
}

// Parameters of the model that are not trained, and why. What forward writes
// and the loss does not read changes no training.
static json::Array untrainedOf(ModuleOp module) {
  json::Array entries;
  auto untrained = module->getAttrOfType<ArrayAttr>(nn::kUntrainedAttr);
  if (!untrained)
    return entries;
  for (auto entry : untrained.getAsRange<DictionaryAttr>()) {
    if (entry.contains(nn::kReadByKey) && !entry.contains("lost") &&
        !entry.contains("asked"))
      continue;
    entries.push_back(
        json::Object{{"name", text(entry.getAs<StringAttr>("name"))},
                     {"reason", text(entry.getAs<StringAttr>("reason"))}});
  }
  return entries;
}

static json::Object loraOf(DictionaryAttr lora) {
  json::Array transposed;
  for (StringRef path :
       lora.getAs<ArrayAttr>("fan_in_fan_out").getAsValueRange<StringAttr>())
    transposed.push_back(text(path));
  json::Array parameters;
  for (auto own :
       lora.getAs<ArrayAttr>("parameters").getAsRange<DictionaryAttr>())
    parameters.push_back(json::Object{
        {"weight", text(own.getAs<StringAttr>("weight").getValue())},
        {"adapter", text(own.getAs<StringAttr>("adapter").getValue())},
        {"experts", own.getAs<IntegerAttr>("experts").getInt()},
        {"rank", own.getAs<IntegerAttr>("rank").getInt()},
        {"alpha", own.getAs<FloatAttr>("alpha").getValueAsDouble()},
        {"fan_in_fan_out", own.getAs<BoolAttr>("fan_in_fan_out").getValue()}});
  return json::Object{
      {"rank", lora.getAs<IntegerAttr>("rank").getInt()},
      {"alpha", lora.getAs<FloatAttr>("alpha").getValueAsDouble()},
      {"dropout", lora.getAs<FloatAttr>("dropout").getValueAsDouble()},
      {"rslora", lora.getAs<BoolAttr>("rslora").getValue()},
      {"dora", lora.getAs<BoolAttr>("dora").getValue()},
      {"fan_in_fan_out", std::move(transposed)},
      {"parameters", std::move(parameters)}};
}

// How the weights lie in the model's file, where they may be f64.
static StringRef storedName(Type type) {
  return type.isF64() ? "f64" : dtypeName(type);
}

static json::Object sourceOf(nn::ExternalAttr source) {
  return json::Object{{"file", text(source.getFile().getValue())},
                      {"offset", source.getOffset()},
                      {"length", source.getLength()},
                      {"dtype", storedName(source.getElementType())},
                      {"transposed", source.getTransposed()}};
}

// A parameter that modules share: the state dict has it under the first name.
static void addNames(ArrayAttr names, StringRef symbol, json::Object &param) {
  json::Array tied;
  for (auto name : names.getAsValueRange<StringAttr>())
    if (name != symbol)
      tied.push_back(text(name));
  param["tied"] = std::move(tied);
  param["state_dict"] = text(cast<StringAttr>(names[0]).getValue());
}

static void addParams(const SymbolTable &symbols, ArrayAttr intervals,
                      bool trainable, json::Array &params) {
  for (auto interval : intervals.getAsRange<fsdp::IntervalAttr>()) {
    auto parameter =
        symbols.lookup<nn::ParameterOp>(interval.getParameter().getValue());
    json::Object object{{"name", text(parameter.getSymName())},
                        {"onnx", text(parameter.getOnnxName())},
                        {"offset", interval.getOffset()},
                        {"shape", shapeOf(parameter.getType())},
                        {"trainable", trainable}};
    if (nn::ExternalAttr source = parameter.getSourceAttr()) {
      json::Object where = sourceOf(source);
      if (FloatAttr addend = parameter.getAddendAttr())
        where["addend"] = addend.getValueAsDouble();
      object["source"] = std::move(where);
    }
    if (auto draw = parameter->getAttrOfType<StringAttr>(nn::kDrawAttr))
      object["draw"] = draw.getValue();
    if (std::optional<Packing> packing = nn::packingOf(parameter)) {
      object["packing"] = spell(*packing);
      object["packed_transposed"] =
          parameter->hasAttr(nn::kPackedTransposedAttr);
    }
    if (std::optional<Split> split = nn::splitOf(parameter))
      object["split"] = json::Object{
          {"dim", split->dim}, {"sections", json::Array(split->sections)}};
    if (auto steps =
            parameter->getAttrOfType<DenseI64ArrayAttr>(nn::kF8StepsAttr))
      object["f8_steps"] = json::Array(steps.asArrayRef());
    if (ArrayAttr names = parameter.getNamesAttr())
      addNames(names, parameter.getSymName(), object);
    params.push_back(std::move(object));
  }
}

static int64_t flopsOf(fsdp::UnitOp unit) {
  auto flops = unit->getAttrOfType<IntegerAttr>(fsdp::kFlopsAttr);
  return flops ? flops.getInt() : 0;
}

// Ranks of CPUs share what they have updated; each GPU has its own.
static bool gathersInPlace(fsdp::UnitOp unit) {
  return !exec::isCuda(unit->getParentOfType<ModuleOp>());
}

// What the configuration has set for the unit, for people.
static json::Object policyOf(fsdp::UnitOp unit) {
  json::Object object;
  for (StringRef key :
       {nn::kOutputDtypeKey, nn::kMatmulDtypeKey, nn::kGatherDtypeKey,
        nn::kCastInputsKey, nn::kRecomputeKey, nn::kForwardPrefetchKey,
        nn::kBackwardPrefetchKey}) {
    Attribute value = nn::unitSetting(unit, unit.getSymName(), key);
    // What is read in 8 bits is gathered so.
    if (key == nn::kGatherDtypeKey &&
        isa<Float8E4M3FNType>(unit.getParamDtype()))
      continue;
    if (auto type = dyn_cast_or_null<TypeAttr>(value))
      object[key] = dtypeName(type.getValue());
    else if (auto word = dyn_cast_or_null<StringAttr>(value))
      object[key] = word.getValue();
    else if (auto truth = dyn_cast_or_null<BoolAttr>(value))
      object[key] = truth.getValue() ? "true" : "false";
    else if (auto number = dyn_cast_or_null<IntegerAttr>(value))
      object[key] = std::to_string(number.getInt());
  }
  return object;
}

static json::Array unitsOf(ModuleOp module) {
  SymbolTable symbols(module);
  json::Array units;
  for (auto unit : module.getOps<fsdp::UnitOp>()) {
    auto offset = [&](StringRef name, int64_t absent = 0) {
      auto attr = unit->getAttrOfType<IntegerAttr>(name);
      return attr ? attr.getInt() : absent;
    };
    json::Array params;
    addParams(symbols, unit.getIntervals(), /*trainable=*/true, params);
    addParams(symbols, unit.getFrozenIntervals(), /*trainable=*/false, params);
    units.push_back(
        json::Object{{"name", text(unit.getSymName())},
                     {"layout", fsdp::stringifyLayout(unit.getLayout())},
                     {"length", int64_t(unit.getLength())},
                     {"matrix_length", int64_t(unit.getMatrixLength())},
                     {"param_offset_bytes", offset(exec::kParamOffsetAttr)},
                     {"grad_offset_bytes", offset(exec::kGradOffsetAttr)},
                     {"grad_place_bytes", offset(exec::kGradPlaceAttr, -1)},
                     {"slice_place_bytes", offset(exec::kSlicePlaceAttr, -1)},
                     {"param_dtype", dtypeName(unit.getParamDtype())},
                     {"reduce_dtype", dtypeName(unit.getReduceDtype())},
                     {"gather_in_place", gathersInPlace(unit)},
                     {"params", std::move(params)},
                     {"frozen_length", int64_t(unit.getFrozenLength())},
                     {"frozen_offset_bytes", exec::frozenOffsetBytes(unit)},
                     {"reshard_after_forward", unit.getReshardAfterForward()},
                     {"policy", policyOf(unit)},
                     {"kept", unit.getKept()},
                     {"early", unit.getEarly()},
                     {"reshard_group", int64_t(unit.getReshardGroup())},
                     {"flops", flopsOf(unit)}});
  }
  return units;
}

static int64_t scratchOf(ModuleOp module) {
  const LibraryModel &libraries =
      exec::isCuda(module) ? cudaLibraries() : cpuLibraries();
  int64_t bytes = 0;
  module.walk([&](exec::RuntimeCallOpInterface call) {
    bytes = std::max(bytes, call.getScratchBytes(libraries));
  });
  return bytes;
}

// What a GPU keeps a copy of, each piece at its own alignment.
static int64_t constantsOf(ModuleOp module) {
  int64_t bytes = 0;
  if (exec::isCuda(module))
    for (auto constant : module.getOps<exec::ConstantOp>()) {
      ElementsAttr value = constant.getValue();
      bytes = alignTo(bytes, kConstantAlignmentBytes) +
              value.getNumElements() * elementBytes(value.getElementType());
    }
  return bytes;
}

// The axes that were named, and what a rank keeps ready for the others of its
// groups: of the largest of what they give.
static void addMesh(ModuleOp module, json::Object &manifest) {
  Mesh mesh = nn::meshOf(module);
  if (!mesh.given())
    return;
  json::Object axes;
  for (MeshAxis axis : allValues<MeshAxis>())
    if (int64_t ranks = mesh.size(axis))
      axes[spell(axis)] = ranks;
  manifest["mesh"] = std::move(axes);
  int64_t largest = 0;
  auto keep = [&](auto op) {
    auto type = cast<MemRefType>(op.getOperand().getType());
    if (op.sends())
      largest = std::max(largest, type.getNumElements() *
                                      elementBytes(type.getElementType()));
  };
  module.walk([&](exec::AxisCollectiveOp op) { keep(op); });
  module.walk([&](exec::AxisStartOp op) { keep(op); });
  module.walk([&](exec::LinearCrossEntropyOp op) {
    if (op.getAxis())
      largest = std::max(largest, int64_t(op.getChunkRows()) *
                                      SHX_LOSS_SHARE_NUMBERS * 4);
  });
  if (largest > 0)
    manifest["mesh_bytes"] = meshBytes(largest);
}

static double flopsOf(ModuleOp module) {
  double flops = 0;
  for (auto unit : module.getOps<fsdp::UnitOp>())
    flops += double(flopsOf(unit));
  return flops;
}

static void addDtypes(ModuleOp module, json::Object &manifest) {
  Type param, reduce;
  for (auto unit : module.getOps<fsdp::UnitOp>()) {
    param = unit.getParamDtype();
    reduce = unit.getReduceDtype();
  }
  MLIRContext *context = module.getContext();
  param = param ? param : Float32Type::get(context);
  reduce = reduce ? reduce : Float32Type::get(context);
  manifest["param_dtype"] = dtypeName(param);
  manifest["reduce_dtype"] = dtypeName(reduce);
}

// Of all that the code is made from, so that ranks that run different programs
// notice.
static std::string hashOf(ModuleOp module, const json::Object &manifest) {
  std::string program;
  llvm::raw_string_ostream stream(program);
  module.print(stream, OpPrintingFlags().elideLargeElementsAttrs(1024));
  stream << json::Value(json::Object(manifest));
  llvm::XXH128_hash_t hash = llvm::xxh3_128bits(ArrayRef(
      reinterpret_cast<const uint8_t *>(program.data()), program.size()));
  return llvm::utohexstr(hash.high64, /*LowerCase=*/true, /*Width=*/16) +
         llvm::utohexstr(hash.low64, /*LowerCase=*/true, /*Width=*/16);
}

// Without the times at which they were written, which are no part of the
// program.
static json::Object modelOf(const ProgramOptions &options) {
  json::Object model{{"path", text(options.modelPath)},
                     {"sha256", options.modelSha256}};
  json::Array files;
  for (const ExternalFile &file : options.external.files)
    files.push_back(json::Object{{"file", text(file.name)},
                                 {"bytes", file.bytes},
                                 {"sha256", file.sha256}});
  if (!files.empty()) {
    model["external"] = std::move(files);
    model["hashed_every_bytes"] = options.external.hashedEvery;
  }
  return model;
}

static void addTimes(const ProgramOptions &options, json::Object &manifest) {
  json::Array *files = manifest.getObject("model")->getArray("external");
  for (auto [i, file] : llvm::enumerate(options.external.files))
    (*(*files)[i].getAsObject())["modified_ns"] = file.modified;
}

// Of a microbatch, for cuDNN: 0 where it does none of a GPU's attentions.
static int64_t maxDocumentsOf(ModuleOp module) {
  int64_t most = 0;
  if (exec::isCuda(module))
    module.walk([&](exec::AttentionOp op) {
      if (op.getCudaRemark().empty())
        most = std::max(most, int64_t(op.getDocuments()));
    });
  return most;
}

static json::Object describeProgram(ModuleOp module,
                                    const ProgramOptions &options) {
  exec::LaunchTable launches(module);
  json::Object manifest{
      {"abi", SHX_ABI_VERSION},
      {"version", SHARDONNX_VERSION},
      {"name", text(options.name)},
      {"model", modelOf(options)},
      {"target", spell(options.device)},
      {"arch", options.arch},
      {"inputs", inputsOf(module)},
      {"loss", lossOf(module)},
      {"strategy", spell(options.strategy)},
      {"accumulate", spell(module->hasAttr(fsdp::kUnshardedAccumulationAttr)
                               ? AccumulateMode::Unsharded
                               : AccumulateMode::Sharded)},
      {"optimizer", spell(options.optimizer)},
      {"optimizer_dtype", spell(options.types.state)},
      {"master_dtype", spell(options.types.master)},
      {"gather_dtype", spell(options.types.gather)},
      {"units", unitsOf(module)},
      {"functions", exec::functionsToJson(module, &launches)},
      {"spaces", exec::spacesToJson(module)},
      {"scratch_per_thread_bytes", scratchOf(module)},
      {"constant_bytes", constantsOf(module)},
      {"flops_per_microbatch", flopsOf(module)}};
  manifest["launches"] = launches.launches();
  if (json::Array raised = raisedOf(module); !raised.empty())
    manifest["raised"] = std::move(raised);
  if (auto lora = module->getAttrOfType<DictionaryAttr>(nn::kLoraAttr))
    manifest["lora"] = loraOf(lora);
  if (json::Array untrained = untrainedOf(module); !untrained.empty())
    manifest["untrained"] = std::move(untrained);
  addMesh(module, manifest);
  addSizes(module, manifest);
  addDtypes(module, manifest);
  if (auto separator =
          module->getAttrOfType<IntegerAttr>(nn::kDocumentSeparatorAttr))
    manifest["document_separator"] = separator.getInt();
  if (int64_t documents = maxDocumentsOf(module); documents > 0)
    manifest["max_documents"] = documents;
  return manifest;
}

static std::string textOf(json::Object manifest) {
  std::string result;
  llvm::raw_string_ostream(result) << json::Value(std::move(manifest));
  return result;
}

std::string shardonnx::buildManifest(ModuleOp module,
                                     const ProgramOptions &options) {
  json::Object manifest = describeProgram(module, options);
  manifest["hash"] = hashOf(module, manifest);
  addTimes(options, manifest);
  return textOf(std::move(manifest));
}

std::string shardonnx::buildTrialManifest(ModuleOp module,
                                          const ProgramOptions &options) {
  json::Object manifest = describeProgram(module, options);
  manifest["hash"] = "";
  return textOf(std::move(manifest));
}
