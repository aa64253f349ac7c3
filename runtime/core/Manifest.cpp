// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reading the manifest. The executable may have been damaged or built by
// another version, so every size is checked before memory is planned from it.

#include "shardonnx/runtime/Manifest.h"
#include "../support/Error.h"
#include "LoraJson.h"
#include "MeshJson.h"
#include "shardonnx/runtime/GatherCodes.h"
#include "shardonnx/runtime/Layout.h"
#include <algorithm>
#include <nlohmann/json.hpp>

namespace shardonnx {
namespace {

using Json = nlohmann::json;
using rt::fail;

// Beyond any machine, yet far from overflow when added and multiplied by 8.
constexpr int64_t kLargest = int64_t(1) << 50;
constexpr int64_t kMostF8Steps = int64_t(1) << 20;

int64_t product(const std::vector<int64_t> &shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (__builtin_mul_overflow(n, d, &n) || n < 0 || n > kLargest)
      fail("the manifest has a shape that is too large");
  return n;
}

int64_t size(const Json &object, const char *key) {
  int64_t value = object.at(key).get<int64_t>();
  if (value < 0 || value > kLargest)
    fail("the manifest's '", key, "' is out of range");
  return value;
}

int64_t optionalSize(const Json &object, const char *key) {
  return object.contains(key) ? size(object, key) : 0;
}

// The value that the manifest names by one of its enumeration's words.
template <typename Enum> Enum named(const Json &object, const char *key) {
  std::string text = object.at(key).get<std::string>();
  if (std::optional<Enum> value = parseSpelling<Enum>(text))
    return *value;
  fail("the manifest's '", key, "' is '", text,
       "': ", describeWords(spellAll<Enum>()));
}

template <typename Enum>
Enum namedOr(const Json &object, const char *key, Enum otherwise) {
  return object.contains(key) ? named<Enum>(object, key) : otherwise;
}

Manifest::Input readInput(const Json &json) {
  Manifest::Input input;
  input.name = json.at("name").get<std::string>();
  input.kind = named<Manifest::InputKind>(json, "kind");
  input.dtype = named<ShxDType>(json, "dtype");
  input.shape = json.at("shape").get<std::vector<int64_t>>();
  input.limit = optionalSize(json, "limit");
  input.ignoredLabel = json.value("ignore_index", kIgnoredLabel);
  product(input.shape);
  return input;
}

Manifest::Loss readLoss(const Json &json) {
  Manifest::Loss loss;
  loss.kind = named<LossKind>(json, "kind");
  loss.denominator = named<Manifest::Denominator>(json, "denominator");
  loss.input = json.value("denominator_input", "");
  loss.shift = optionalSize(json, "denominator_shift");
  loss.perMicrobatch = optionalSize(json, "denominator_per_microbatch");
  return loss;
}

// The axes that the manifest names; the others are left to the start or 1.
Mesh readMesh(const Json &json) {
  Mesh mesh;
  auto given = json.find("mesh");
  if (given == json.end())
    return mesh;
  for (const Spelling<MeshAxis> &axis : Spellings<MeshAxis>::table) {
    if (!given->contains(axis.text))
      continue;
    int64_t ranks = size(*given, axis.text);
    if (ranks < 1 || ranks > kMaxRanks)
      fail("the manifest's mesh has ", ranks, " ranks on axis '", axis.text,
           "'");
    mesh.set(axis.value, ranks);
  }
  return mesh;
}

Manifest::Param readParam(const Json &json, const Manifest::Unit &unit,
                          const Mesh &mesh) {
  Manifest::Param param;
  param.name = json.at("name").get<std::string>();
  param.onnx = json.value("onnx", param.name);
  param.offset = size(json, "offset");
  param.shape = json.at("shape").get<std::vector<int64_t>>();
  param.trainable = json.at("trainable").get<bool>();
  param.tied = json.value("tied", std::vector<std::string>());
  param.stateDict = json.value("state_dict", param.name);
  if (json.contains("draw"))
    param.draw = named<DrawKind>(json, "draw");
  auto source = json.find("source");
  if (source != json.end() && !source->is_null())
    param.source = Manifest::Source{source->at("file").get<std::string>(),
                                    source->at("dtype").get<std::string>(),
                                    size(*source, "offset"),
                                    size(*source, "length"),
                                    source->value("transposed", false),
                                    source->value("addend", 0.0f)};
  if (param.source && param.source->transposed && param.shape.size() != 2)
    fail("the manifest marks '", param.name,
         "' as transposed, but it is not two-dimensional");
  product(param.shape);
  rt::readSplit(json, mesh.tensor(), param);
  param.f8Steps = json.value("f8_steps", std::vector<int64_t>());
  for (int64_t step : param.f8Steps)
    if (step < 0 || step >= kMostF8Steps)
      fail("the manifest scales '", param.name, "' by step ", step);
  if (json.contains("packing"))
    param.packed = rt::readPacked(json, param, dtypeBytes(unit.paramType));
  return param;
}

// Where a unit does not say it, it has what the program has.
void readUnitTypes(const Json &json, const Json &program,
                   Manifest::Unit &unit) {
  auto own = [&](const char *key) {
    return named<ShxDType>(json.contains(key) ? json : program, key);
  };
  unit.paramType = own("param_dtype");
  unit.reduceType = own("reduce_dtype");
  unit.gatherInPlace = json.value("gather_in_place", false);
  const Json &policy = json.value("policy", Json::object());
  unit.gatherType = namedOr(policy.contains("gather_dtype") ? policy : program,
                            "gather_dtype", GatherDtype::Param);
}

Manifest::Unit readUnit(const Json &json, const Json &program,
                        const Mesh &mesh) {
  Manifest::Unit unit;
  unit.name = json.at("name").get<std::string>();
  std::string layout = json.at("layout").get<std::string>();
  if (layout != "sharded" && layout != "replicated")
    fail("the manifest names an unknown layout '", layout, "'");
  unit.sharded = layout == "sharded";
  readUnitTypes(json, program, unit);
  unit.length = size(json, "length");
  unit.paramOffsetBytes = size(json, "param_offset_bytes");
  unit.gradOffsetBytes = size(json, "grad_offset_bytes");
  if (json.value("grad_place_bytes", int64_t(-1)) >= 0)
    unit.gradPlaceBytes = size(json, "grad_place_bytes");
  if (json.value("slice_place_bytes", int64_t(-1)) >= 0)
    unit.slicePlaceBytes = size(json, "slice_place_bytes");
  unit.frozenLength = optionalSize(json, "frozen_length");
  unit.matrixLength = optionalSize(json, "matrix_length");
  unit.frozenOffsetBytes = optionalSize(json, "frozen_offset_bytes");
  unit.flops = json.value("flops", 0.0);
  unit.reshards = json.value("reshard_after_forward", false);
  if (auto policy = json.find("policy"); policy != json.end())
    for (const auto &[key, value] : policy->items())
      unit.policy.emplace_back(key, value.get<std::string>());
  unit.kept = json.value("kept", false);
  unit.early = json.value("early", false);
  unit.reshardGroup = optionalSize(json, "reshard_group");
  if (unit.kept && (!unit.sharded || unit.reshardGroup > 0))
    fail("the manifest keeps unit '", unit.name,
         "', which is not sharded or reshards");
  for (const Json &param : json.at("params"))
    unit.params.push_back(readParam(param, unit, mesh));
  for (const Manifest::Param &param : unit.params) {
    int64_t section = param.trainable ? unit.length : unit.frozenLength;
    if (param.offset + param.length() > section)
      fail("the manifest places '", param.name, "' outside its unit");
    if (unit.isMatrix(param) && param.shape.size() != 2)
      fail("the manifest has '", param.name,
           "' among the matrices, but it is not two-dimensional");
    if (unit.isMatrix(param) && param.split &&
        param.split->size() % mesh.tensor() != 0)
      fail("the manifest has '", param.name,
           "' among the matrices, but its parts are uneven");
  }
  for (const Manifest::Param &param : unit.params)
    if (unit.inCodes() && (!param.trainable || param.f8Steps.size() != 1))
      fail("the manifest gathers '", param.name,
           "' in 8 bits, but not with one step that the update takes");
  if (unit.matrixLength > unit.length)
    fail("the manifest has matrices outside of unit '", unit.name, "'");
  return unit;
}

Manifest::Space readSpace(const Json &spaces, const char *name) {
  const Json &json = spaces.at(name);
  Manifest::Space space;
  space.bytes = size(json, "bytes");
  space.lowerBoundBytes = size(json, "lower_bound_bytes");
  space.peakAt = json.value("peak_at", "");
  for (const Json &live : json.value("live", Json::array()))
    space.live.push_back(
        {live.at("name").get<std::string>(), size(live, "bytes")});
  return space;
}

// What runs in a function, and what lives meanwhile.
void readTimeline(const Json &json, Manifest::Function &function) {
  size_t calls = 0;
  for (const Json &op : json.value("ops", Json::array())) {
    function.ops.push_back(op.get<int64_t>());
    int64_t run = function.ops.back();
    calls += run < 0 ? 1 : 0;
    if (run < -1 || run >= int64_t(function.launches.size()) ||
        calls > function.collectives.size())
      fail("the manifest's '", function.name, "' runs an op that is not there");
  }
  for (const Json &buffer : json.value("buffers", Json::array())) {
    auto [kind, bytes, begin, end, name] =
        buffer
            .get<std::tuple<int64_t, int64_t, int64_t, int64_t, std::string>>();
    if (kind < 0 || kind > int64_t(Manifest::BufferKind::Smaller) ||
        bytes < 0 || begin < 0 || end < begin ||
        end > int64_t(function.ops.size()))
      fail("the manifest's '", function.name,
           "' has a buffer that does not live in it");
    function.buffers.push_back({static_cast<Manifest::BufferKind>(kind), bytes,
                                static_cast<size_t>(begin),
                                static_cast<size_t>(end), std::move(name)});
  }
}

Manifest::Function readFunction(const Json &json, size_t units,
                                size_t launches) {
  Manifest::Function function;
  function.name = json.at("name").get<std::string>();
  for (const Json &call : json.at("collectives")) {
    Manifest::Collective collective;
    collective.op = call.at("op").get<std::string>();
    collective.unit = call.value("unit", int64_t(-1));
    collective.flops = call.value("flops", 0.0);
    collective.bytes = call.value("bytes", 0.0);
    collective.copy = call.value("copy", int64_t(-1));
    collective.copiedBytes = optionalSize(call, "copied_bytes");
    if (collective.unit < -1 || collective.unit >= int64_t(units))
      fail("the manifest's '", function.name, "' names a unit that is not");
    function.collectives.push_back(std::move(collective));
  }
  function.flops = json.value("flops", 0.0);
  function.bytes = json.value("bytes", 0.0);
  for (const Json &run : json.value("launches", Json::array())) {
    auto [launch, unit, phase, count, behind] =
        run.get<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>>();
    if (launch < 0 || launch >= int64_t(launches) || unit < -1 ||
        unit >= int64_t(units) || phase < 0 ||
        phase > int64_t(Manifest::Phase::Backward) || count < 0 || behind < 0 ||
        behind > int64_t(function.collectives.size()))
      fail("the manifest's '", function.name,
           "' has a launch that is not there");
    function.launches.push_back({static_cast<size_t>(launch), unit,
                                 static_cast<Manifest::Phase>(phase), count,
                                 static_cast<size_t>(behind)});
  }
  readTimeline(json, function);
  return function;
}

Manifest::Launch readLaunch(const Json &json) {
  Manifest::Launch launch;
  launch.kind = json.at("kind").get<std::string>();
  launch.name = json.at("name").get<std::string>();
  launch.flops = json.value("flops", 0.0);
  launch.readBytes = json.value("read_bytes", 0.0);
  launch.writtenBytes = json.value("written_bytes", 0.0);
  launch.leastBytes = json.value("least_bytes", 0.0);
  launch.elements = json.value("elements", 0.0);
  launch.kernels = json.value("kernels", int64_t(0));
  launch.calls = json.value("calls", int64_t(0));
  return launch;
}

void checkPlacement(const Manifest &m) {
  for (const Manifest::Unit &unit : m.units) {
    bool fits =
        unit.gradOffsetBytes + unit.gradientBytes() <= m.gradientSpace.bytes;
    if (unit.frozenLength > 0)
      fits &=
          unit.frozenOffsetBytes >= unit.length * dtypeBytes(unit.paramType);
    // In place, the gather space is planned but need not be there.
    if (!unit.gatherInPlace || m.gatherSpace.bytes > 0)
      fits &=
          unit.paramOffsetBytes + unit.gatheredBytes() <= m.gatherSpace.bytes;
    if (!fits)
      fail("the manifest places unit '", unit.name, "' outside its space");
  }
}

ExternalFiles readExternal(const Json &model) {
  ExternalFiles external;
  external.hashedEvery = optionalSize(model, "hashed_every_bytes");
  for (const Json &file : model.value("external", Json::array()))
    external.files.push_back({file.at("file").get<std::string>(),
                              size(file, "bytes"),
                              file.value("modified_ns", int64_t(0)),
                              file.at("sha256").get<std::string>()});
  return external;
}

Manifest read(const Json &json) {
  Manifest m;
  m.abi = json.at("abi").get<int>();
  if (m.abi != SHX_ABI_VERSION)
    fail("the program was compiled for runtime ABI ", m.abi, ", this is ",
         SHX_ABI_VERSION, ": compile it again");
  m.version = json.value("version", "");
  m.name = json.value("name", "");
  m.hash = json.at("hash").get<std::string>();
  m.modelPath = json.at("model").at("path").get<std::string>();
  m.modelSha256 = json.at("model").value("sha256", "");
  m.external = readExternal(json.at("model"));
  m.target = namedOr(json, "target", TargetKind::CPU);
  m.arch = json.value("arch", "");
  m.batch = size(json, "batch");
  m.seq = optionalSize(json, "seq");
  m.mesh = readMesh(json);
  m.meshBytes = optionalSize(json, "mesh_bytes");
  for (const Json &input : json.at("inputs"))
    m.inputs.push_back(readInput(input));
  m.loss = readLoss(json.at("loss"));
  m.strategy = namedOr(json, "strategy", Strategy::FullShard);
  m.unshardedAccumulation =
      namedOr(json, "accumulate", AccumulateMode::Sharded) ==
      AccumulateMode::Unsharded;
  m.optimizer = namedOr(json, "optimizer", Optimizer::AdamW);
  m.optimizerType = namedOr(json, "optimizer_dtype", SHX_F32);
  m.masterType = namedOr(json, "master_dtype", SHX_F32);
  m.gatherType = namedOr(json, "gather_dtype", GatherDtype::Param);
  m.paramType = named<ShxDType>(json, "param_dtype");
  m.reduceType = named<ShxDType>(json, "reduce_dtype");
  for (const Json &unit : json.at("units"))
    m.units.push_back(readUnit(unit, json, m.mesh));
  for (Manifest::Unit &unit : m.units) {
    unit.masterType = masterTypeOf(m.masterType, unit.paramType);
    unit.gatherType = gatherTypeOf(unit.gatherType, unit.paramType);
    // All slices are cut where the blocks of one are.
    if (m.gatherType == GatherDtype::Param)
      m.gatherType = unit.gatherType;
  }
  for (const Json &launch : json.value("launches", Json::array()))
    m.launches.push_back(readLaunch(launch));
  for (const Json &function : json.value("functions", Json::array()))
    m.functions.push_back(
        readFunction(function, m.units.size(), m.launches.size()));
  const Json &spaces = json.at("spaces");
  m.privateSpace = readSpace(spaces, "private");
  m.gatherSpace = readSpace(spaces, "gather");
  m.gradientSpace = readSpace(spaces, "gradients");
  if (spaces.contains("host"))
    m.hostSpace = readSpace(spaces, "host");
  m.scratchPerThreadBytes = optionalSize(json, "scratch_per_thread_bytes");
  m.constantBytes = optionalSize(json, "constant_bytes");
  m.documentSeparator = json.value("document_separator", int64_t(-1));
  m.maxDocuments = optionalSize(json, "max_documents");
  m.flopsPerMicrobatch = json.value("flops_per_microbatch", 0.0);
  m.lora = rt::readLora(json);
  for (const Json &entry : json.value("untrained", Json::array()))
    m.untrained.push_back({entry.at("name").get<std::string>(),
                           entry.at("reason").get<std::string>()});
  for (const Json &entry : json.value("raised", Json::array()))
    m.raised.push_back({entry.at("what").get<std::string>(),
                        entry.value("why", ""),
                        entry.at("nodes").get<std::vector<std::string>>()});
  if (m.batch < 1)
    fail("the manifest's 'batch' is out of range");
  checkPlacement(m);
  return m;
}

} // namespace

int64_t Manifest::Input::elements() const { return product(shape); }
int64_t Manifest::Input::bytes() const {
  return elements() * dtypeBytes(dtype);
}
int64_t Manifest::Param::elements() const { return product(shape); }
std::vector<int64_t> Manifest::Param::wholeShape() const {
  std::vector<int64_t> whole = shape;
  if (split)
    whole[static_cast<size_t>(split->dim)] = split->size();
  return whole;
}
int64_t Manifest::Param::wholeElements() const { return product(wholeShape()); }

std::vector<std::string> Manifest::Param::names() const {
  std::vector<std::string> all = {name};
  all.insert(all.end(), tied.begin(), tied.end());
  return all;
}
int64_t Manifest::Unit::gatheredBytes() const {
  int64_t element = dtypeBytes(paramType);
  return frozenLength > 0 ? frozenOffsetBytes + frozenLength * element
                          : length * element;
}
int64_t Manifest::Unit::sentBytes() const {
  if (!sendsImages())
    return gatheredBytes();
  return gatherImageBytes(gatherType, length) +
         frozenLength * dtypeBytes(paramType);
}
int64_t Manifest::Unit::gradientBytes() const {
  return length * dtypeBytes(reduceType);
}
bool Manifest::usesF16() const {
  return std::any_of(units.begin(), units.end(), [](const Unit &unit) {
    return unit.paramType == SHX_F16 || unit.reduceType == SHX_F16;
  });
}
bool Manifest::gathersInPlace() const {
  return std::all_of(units.begin(), units.end(),
                     [](const Unit &unit) { return unit.gatherInPlace; });
}
bool Manifest::gathersMasters() const {
  return std::all_of(units.begin(), units.end(), [](const Unit &unit) {
    return unit.gatherInPlace && unit.sendsMasters();
  });
}
int64_t Manifest::stateBytes(int64_t elements) const {
  int64_t scales = blockwiseState() ? stateBlocks(elements) : 0;
  return elements * dtypeBytes(optimizerType) + scales * int64_t(sizeof(float));
}
int64_t Manifest::momentBytes(const Unit &unit,
                              const Interval &elements) const {
  int64_t bytes = stateBytes(elements.size());
  if (optimizerStates() == 2)
    bytes += stateBytes(behind(unit.matrixLength, elements).size());
  return bytes;
}
bool Manifest::hasMatrices() const {
  return std::any_of(units.begin(), units.end(),
                     [](const Unit &unit) { return unit.matrixLength > 0; });
}
int64_t Manifest::f8Steps() const {
  int64_t count = 0;
  for (const Unit &unit : units)
    for (const Param &param : unit.params)
      for (int64_t step : param.f8Steps)
        count = std::max(count, step + 1);
  return count;
}
int64_t Manifest::tokensPerMicrobatch() const {
  return batch * (seq > 0 ? seq : 1);
}

int64_t dtypeBytes(ShxDType dtype) {
  switch (dtype) {
  case SHX_F32:
  case SHX_I32:
    return 4;
  case SHX_BF16:
  case SHX_F16:
    return 2;
  case SHX_I64:
    return 8;
  case SHX_I1:
  case SHX_I8:
  case SHX_F8E4M3:
  case SHX_F8E5M2:
    return 1;
  }
  return 0;
}

std::optional<Manifest> parseManifest(std::string_view json,
                                      std::string &error) {
  try {
    return read(Json::parse(json.begin(), json.end()));
  } catch (const rt::Error &e) {
    error = e.what();
  } catch (const Json::exception &e) {
    error = rt::concat("the manifest cannot be read (", rt::describe(e), ")");
  }
  return std::nullopt;
}

} // namespace shardonnx
