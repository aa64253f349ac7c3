// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Index.h.

#include "Index.h"
#include "../core/LoraJson.h"
#include "../core/MeshJson.h"
#include "../support/Error.h"
#include "ByteHash.h"
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

namespace shardonnx::rt {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kFormat = "shardonnx-checkpoint";
// Version 1 had no hashes of the index and of whole files; 3 has parameters
// that are split over a tensor axis.
constexpr int kWholeVersion = 2, kVersion = 3;
constexpr const char *kHashKey = "index_hash";
constexpr const char *kRemedy = "; take another checkpoint";
// Beyond any machine, yet far from overflow when added and multiplied by 8.
constexpr int64_t kLargest = int64_t(1) << 50;

// ---- Writing

Json paramJson(const Manifest::Param &param) {
  Json json = {{"name", param.name},          {"onnx", param.onnx},
               {"offset", param.offset},      {"shape", param.shape},
               {"tied", param.tied},          {"state_dict", param.stateDict},
               {"trainable", param.trainable}};
  if (param.packed)
    writePacked(*param.packed, json);
  if (param.split)
    json["split"] = toJson<Json>(*param.split);
  return json;
}

Json slicesJson(const std::vector<Checkpoint::Slice> &slices) {
  Json json = Json::array();
  for (const Checkpoint::Slice &slice : slices)
    json.push_back({{"file", slice.file},
                    {"begin", slice.interval.begin},
                    {"end", slice.interval.end}});
  return json;
}

Json unitJson(const Checkpoint::Unit &unit) {
  Json params = Json::array();
  for (const Manifest::Param &param : unit.params)
    params.push_back(paramJson(param));
  return {{"name", unit.name},
          {"length", unit.length},
          {"frozen_length", unit.frozenLength},
          {"matrix_length", unit.matrixLength},
          {"frozen_dtype", spell(unit.frozenType)},
          {"params", params},
          {"slices", slicesJson(unit.trainable)},
          {"frozen_slices", slicesJson(unit.frozen)}};
}

/// How an index ends whose text before that is `text`.
std::string sealOf(const std::string &text) {
  return concat(",\n \"", kHashKey, "\": \"", hexText(hashBytes(text)),
                "\"\n}\n");
}

// ---- Reading

bool isSealed(const std::string &text) {
  size_t n = sealOf("").size();
  return text.size() >= n && text.substr(text.size() - n) ==
                                 sealOf(text.substr(0, text.size() - n));
}

class Reader {
public:
  Reader(const std::string &path) : path(path) {}

  Checkpoint read(const Json &json) const {
    if (json.value("format", "") != kFormat)
      bad("it is not the index of a checkpoint");
    Checkpoint c;
    c.version = json.at("version").get<int>();
    if (c.version < 1 || c.version > kVersion)
      fail("the checkpoint '", path, "' is of version ", c.version,
           " of the format, this program reads up to ", kVersion,
           ": use a newer shardonnx, or compile the program with it");
    // A damaged version must not be taken for one that had no hash.
    if (json.contains(kHashKey) != (c.version > 1))
      bad("its version and its hash contradict each other");
    c.id = json.at("id").get<std::string>();
    readProgram(json.at("program"), c);
    readState(json, c);
    readMesh(json, c);
    for (const Json &file : json.at("files"))
      c.files.push_back({fileName(file.at("name").get<std::string>()),
                         size(file, "bytes"),
                         c.version > 1 ? hex(file, "hash") : 0});
    std::set<std::string> units, params;
    for (const Json &unit : json.at("units")) {
      c.units.push_back(readUnit(unit, c.files.size(), c.tensor));
      if (!units.insert(c.units.back().name).second)
        bad(concat("it has unit '", c.units.back().name, "' twice"));
      for (const Manifest::Param &param : c.units.back().params)
        if (!params.insert(param.name).second)
          bad(concat("it has parameter '", param.name, "' twice"));
    }
    checkBlocks(c);
    return c;
  }

  [[noreturn]] void bad(const std::string &why) const {
    fail("the checkpoint '", path, "' is damaged: ", why, kRemedy);
  }

private:
  int64_t size(const Json &object, const char *key) const {
    int64_t value = object.at(key).get<int64_t>();
    if (value < 0 || value > kLargest)
      bad(concat("its '", key, "' is out of range"));
    return value;
  }

  uint64_t hex(const Json &object, const char *key) const {
    std::string text = object.at(key).get<std::string>();
    if (text.size() != 16 ||
        text.find_first_not_of("0123456789abcdef") != std::string::npos)
      bad(concat("its '", key, "' is no number of 16 digits"));
    return std::stoull(text, nullptr, 16);
  }

  // A plain name: nothing outside the checkpoint's folder is ever opened.
  std::string fileName(const std::string &name) const {
    if (name.empty() || name[0] == '.' ||
        name.find_first_of(std::string("/\0", 2)) != std::string::npos)
      bad(concat("the file name '", name, "' leads out of its folder"));
    return name;
  }

  void readProgram(const Json &json, Checkpoint &c) const {
    c.program = json.at("name").get<std::string>();
    c.strategy = json.at("strategy").get<std::string>();
    std::string optimizer = json.at("optimizer").get<std::string>();
    std::optional<Optimizer> known = parseSpelling<Optimizer>(optimizer);
    if (!known)
      fail("a checkpoint names an unknown optimizer '", optimizer, "'");
    c.optimizer = *known;
    c.optimizerType = readType(json, "optimizer_dtype", optimizerTypes());
    c.masterType = readType(json, "master_dtype", masterTypes());
    c.lora = readLora(json);
    c.modelPath = json.at("model").at("path").get<std::string>();
    c.modelSha256 = json.at("model").at("sha256").get<std::string>();
  }

  // Checkpoints before there were others have f32.
  static ShxDType readType(const Json &json, const char *key,
                           const std::vector<ShxDType> &known) {
    if (!json.contains(key))
      return SHX_F32;
    std::string type = json.at(key).get<std::string>();
    std::optional<ShxDType> dtype = parseSpelling<ShxDType>(type);
    if (!dtype || std::find(known.begin(), known.end(), *dtype) == known.end())
      fail("a checkpoint has an unknown ", key, " '", type, "'");
    return *dtype;
  }

  // Blocks of state have one scale and lie in one file.
  void checkBlocks(const Checkpoint &c) const {
    for (const Checkpoint::Unit &unit : c.units)
      for (const Checkpoint::Slice &slice : unit.trainable)
        if (c.optimizerType == SHX_I8 &&
            slice.interval.begin % kStateBlock != 0)
          bad(concat("a slice of unit '", unit.name,
                     "' cuts a block of the optimizer's state"));
  }

  void readState(const Json &json, Checkpoint &c) const {
    c.worldSize = static_cast<int>(
        std::min<int64_t>(size(json, "world_size"), kMaxRanks));
    const Json &state = json.at("state");
    c.state.step = size(state, "step");
    c.state.optimizerSteps = size(state, "optimizer_steps");
    c.state.samples = size(state, "samples");
    c.state.lossScale = state.at("loss_scale").get<double>();
    c.state.cleanSteps = size(state, "clean_steps");
    if (state.contains("best_step")) { // there was an evaluation
      c.state.bestStep = size(state, "best_step");
      c.state.bestLoss = state.at("best_loss").get<double>();
      c.state.worseSince = size(state, "worse_since");
    }
    c.seed = json.at("options").at("seed").get<uint64_t>();
    c.shuffle = json.at("options").at("shuffle").get<bool>();
    if (json.contains("data")) {
      const Json &data = json.at("data");
      c.data =
          DataIdentity{size(data, "samples"), hex(data, "hash"),
                       data.contains("sequence") ? size(data, "sequence") : 0};
    }
    c.trainableHash = hex(json.at("state_hash"), "trainable");
    c.frozenHash = hex(json.at("state_hash"), "frozen");
  }

  // Units are whole in the versions before.
  void readMesh(const Json &json, Checkpoint &c) const {
    if (json.contains("mesh") != (c.version > kWholeVersion))
      bad("its version and its mesh contradict each other");
    if (c.version <= kWholeVersion)
      return;
    c.tensor = size(json.at("mesh"), "tensor");
    if (c.tensor < 2 || c.tensor > kMaxRanks)
      bad(concat("a tensor axis has no ", c.tensor, " ranks"));
  }

  Manifest::Param readParam(const Json &json, const Checkpoint::Unit &unit,
                            int64_t tensor) const {
    Manifest::Param param;
    param.name = json.at("name").get<std::string>();
    param.onnx = json.at("onnx").get<std::string>();
    param.offset = size(json, "offset");
    param.shape = json.at("shape").get<std::vector<int64_t>>();
    param.tied = json.at("tied").get<std::vector<std::string>>();
    param.stateDict = json.at("state_dict").get<std::string>();
    param.trainable = json.at("trainable").get<bool>();
    int64_t elements = 1;
    for (int64_t d : param.shape)
      if (d < 0 || __builtin_mul_overflow(elements, d, &elements) ||
          elements > kLargest)
        bad(concat("the shape of '", param.name, "' is out of range"));
    if (json.contains("packing"))
      param.packed = readPacked(json, param, dtypeBytes(unit.frozenType));
    readSplit(json, tensor, param);
    int64_t section = param.trainable ? unit.length : unit.frozenLength;
    if (param.offset + param.length() > section)
      bad(concat("'", param.name, "' lies outside its unit"));
    return param;
  }

  // Sorted by their begin, and each element of the section once.
  std::vector<Checkpoint::Slice> readSlices(const Json &json, int64_t length,
                                            const std::string &unit,
                                            size_t files) const {
    std::vector<Checkpoint::Slice> slices;
    for (const Json &slice : json) {
      int64_t file = size(slice, "file");
      Interval interval{size(slice, "begin"), size(slice, "end")};
      if (file >= static_cast<int64_t>(files) || interval.size() <= 0)
        bad(concat("a slice of unit '", unit, "' is out of range"));
      slices.push_back({static_cast<size_t>(file), interval});
    }
    std::sort(slices.begin(), slices.end(), [](const auto &a, const auto &b) {
      return a.interval.begin < b.interval.begin;
    });
    std::set<size_t> seen;
    int64_t end = 0;
    for (const Checkpoint::Slice &slice : slices) {
      if (slice.interval.begin != end || !seen.insert(slice.file).second)
        bad(concat("the slices of unit '", unit,
                   "' overlap or leave some of it out at element ", end));
      end = slice.interval.end;
    }
    if (end != length)
      bad(concat("the slices of unit '", unit, "' end at element ", end, " of ",
                 length));
    return slices;
  }

  Checkpoint::Unit readUnit(const Json &json, size_t files,
                            int64_t tensor) const {
    Checkpoint::Unit unit;
    unit.name = json.at("name").get<std::string>();
    unit.length = size(json, "length");
    unit.frozenLength = size(json, "frozen_length");
    if (json.contains("matrix_length"))
      unit.matrixLength = size(json, "matrix_length");
    if (unit.matrixLength > unit.length)
      bad(concat("the matrices of unit '", unit.name, "' lie outside it"));
    std::string type = json.at("frozen_dtype").get<std::string>();
    std::optional<ShxDType> known = parseSpelling<ShxDType>(type);
    if (!known || *safeTensorsName(*known) == 0 || *known == SHX_I8)
      bad(concat("it names an unknown dtype '", type, "'"));
    unit.frozenType = *known;
    for (const Json &param : json.at("params"))
      unit.params.push_back(readParam(param, unit, tensor));
    checkPlaces(unit);
    unit.trainable =
        readSlices(json.at("slices"), tensor * unit.length, unit.name, files);
    unit.frozen = readSlices(json.at("frozen_slices"),
                             tensor * unit.frozenLength, unit.name, files);
    return unit;
  }

  // No two parameters on the same elements.
  void checkPlaces(const Checkpoint::Unit &unit) const {
    for (bool trainable : {true, false}) {
      std::vector<std::pair<int64_t, int64_t>> places;
      for (const Manifest::Param &param : unit.params)
        if (param.trainable == trainable)
          places.emplace_back(param.offset, param.offset + param.length());
      std::sort(places.begin(), places.end());
      for (size_t i = 1; i < places.size(); ++i)
        if (places[i].first < places[i - 1].second)
          bad(concat("parameters of unit '", unit.name, "' overlap"));
    }
  }

  const std::string &path;
};

} // namespace

std::string tensorName(const std::string &unit, StateArray array,
                       Optimizer optimizer) {
  switch (array) {
  case StateArray::Master:
    return unit + "/master";
  case StateArray::Moment1:
    return unit + (optimizer == Optimizer::SGD ? "/momentum" : "/exp_avg");
  case StateArray::Moment2:
    return unit + "/exp_avg_sq";
  case StateArray::Scale1:
  case StateArray::Scale2:
    return tensorName(unit,
                      array == StateArray::Scale1 ? StateArray::Moment1
                                                  : StateArray::Moment2,
                      optimizer) +
           "_scale";
  case StateArray::Frozen:
    break;
  }
  return unit + "/frozen";
}

const char *safeTensorsName(ShxDType dtype) {
  switch (dtype) {
  case SHX_F32:
    return "F32";
  case SHX_BF16:
    return "BF16";
  case SHX_F16:
    return "F16";
  case SHX_I8:
    return "I8";
  default:
    return "";
  }
}

std::string hexText(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}

std::string writeIndex(const Checkpoint &c) {
  Json files = Json::array(), units = Json::array();
  for (const Checkpoint::File &file : c.files)
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"hash", hexText(file.hash)}});
  for (const Checkpoint::Unit &unit : c.units)
    units.push_back(unitJson(unit));
  Json json = {
      {"format", kFormat},
      {"version", c.tensor > 1 ? kVersion : kWholeVersion},
      {"id", c.id},
      {"program",
       {{"name", c.program},
        {"strategy", c.strategy},
        {"optimizer", spell(c.optimizer)},
        {"optimizer_dtype", spell(c.optimizerType)},
        {"master_dtype", spell(c.masterType)},
        {"model", {{"path", c.modelPath}, {"sha256", c.modelSha256}}}}},
      {"world_size", c.worldSize},
      {"state",
       {{"step", c.state.step},
        {"optimizer_steps", c.state.optimizerSteps},
        {"samples", c.state.samples},
        {"loss_scale", c.state.lossScale},
        {"clean_steps", c.state.cleanSteps}}},
      {"options", {{"seed", c.seed}, {"shuffle", c.shuffle}}},
      {"state_hash",
       {{"trainable", hexText(c.trainableHash)},
        {"frozen", hexText(c.frozenHash)}}},
      {"files", files},
      {"units", units}};
  if (std::isfinite(c.state.bestLoss)) {
    json["state"]["best_step"] = c.state.bestStep;
    json["state"]["best_loss"] = c.state.bestLoss;
    json["state"]["worse_since"] = c.state.worseSince;
  }
  if (c.tensor > 1)
    json["mesh"] = {{"tensor", c.tensor}};
  if (c.lora)
    json["program"]["lora"] = toJson(*c.lora);
  if (c.data)
    json["data"] = {{"samples", c.data->samples},
                    {"hash", hexText(c.data->hash)}};
  if (c.data && c.data->sequence > 0)
    json["data"]["sequence"] = c.data->sequence;
  return sealIndex(json.dump(1));
}

// The last brace gives way to the hash of all that stands before it.
std::string sealIndex(std::string json) {
  json.erase(json.rfind('}'));
  json.erase(json.find_last_not_of(" \n") + 1);
  return json + sealOf(json);
}

Checkpoint parseIndex(const std::string &text, const std::string &path) {
  Reader reader(path);
  try {
    Checkpoint checkpoint = reader.read(Json::parse(text));
    if (checkpoint.version > 1 && !isSealed(text))
      reader.bad(concat("its ", kIndexName,
                        " is not as it was saved (its hash differs)"));
    return checkpoint;
  } catch (const Json::exception &e) {
    reader.bad(concat("its ", kIndexName, ": ", describe(e)));
  }
}

} // namespace shardonnx::rt
