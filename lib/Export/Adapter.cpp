// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adapters: written as PEFT's save_pretrained does
// (peft/utils/save_and_load.py, LoraConfig), or added to the weights beside
// them as its merge_and_unload.

#include "Export.h"

#include "../../runtime/core/PackedWeight.h"
#include "../../runtime/support/Error.h"
#include "shardonnx/runtime/EndsWith.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace shardonnx {
namespace {

constexpr const char *kPrefix = "base_model.model."; // PEFT's, of every name

// `name` without its `end`.
std::string before(const std::string &name, const std::string &end) {
  return name.substr(0, name.size() - end.size());
}

std::vector<float> readAsItIs(rt::CheckpointReader &reader,
                              const rt::CheckpointReader::Place &place) {
  const Manifest::Param &param = *place.param;
  if (param.packed) {
    int64_t element = dtypeBytes(reader.index().units[place.unit].frozenType);
    std::vector<uint8_t> bytes(static_cast<size_t>(param.length() * element));
    reader.readStored(place.unit, rt::StateArray::Frozen,
                      param.offset * element, param.length() * element,
                      bytes.data());
    return rt::unpackWeight(param, bytes.data());
  }
  std::vector<float> values(static_cast<size_t>(param.elements()));
  reader.read(place.unit,
              param.trainable ? rt::StateArray::Master : rt::StateArray::Frozen,
              param.offset, param.elements(), values.data());
  return values;
}

// weight[o, i] += scaling * sum over r of B[o, r] * A[r, i], or weight[i, o].
void addProduct(const std::vector<float> &a, const std::vector<float> &b,
                size_t rank, float scaling, bool transposed,
                std::vector<float> &weight) {
  size_t in = a.size() / rank, out = b.size() / rank;
  std::vector<float> row(in);
  for (size_t o = 0; o < out; ++o) {
    std::fill(row.begin(), row.end(), 0.0f);
    for (size_t r = 0; r < rank; ++r)
      for (size_t i = 0; i < in; ++i)
        row[i] += b[o * rank + r] * a[r * in + i];
    for (size_t i = 0; i < in; ++i)
      weight[transposed ? i * out + o : o * in + i] += scaling * row[i];
  }
}

// DoRA: every row [in] of the weight gets its length.
void setLengths(const std::vector<float> &lengths, bool transposed,
                std::vector<float> &weight) {
  size_t out = lengths.size(), in = weight.size() / out;
  for (size_t o = 0; o < out; ++o) {
    auto at = [&](size_t i) { return transposed ? i * out + o : o * in + i; };
    double square = 0;
    for (size_t i = 0; i < in; ++i)
      square += static_cast<double>(weight[at(i)]) *
                static_cast<double>(weight[at(i)]);
    float factor = lengths[o] / static_cast<float>(std::sqrt(square));
    for (size_t i = 0; i < in; ++i)
      weight[at(i)] *= factor;
  }
}

// What is trained of the checkpoint: adapters, and modules beside them.
std::vector<rt::CheckpointReader::Place>
trainedOf(const rt::CheckpointReader &reader) {
  std::vector<rt::CheckpointReader::Place> places;
  for (const rt::Checkpoint::Unit &unit : reader.index().units)
    for (const Manifest::Param &param : unit.params)
      if (param.trainable)
        places.push_back(reader.find({param.name}));
  std::sort(places.begin(), places.end(), [](const auto &a, const auto &b) {
    return a.param->stateDict < b.param->stateDict;
  });
  return places;
}

std::string configOf(const Lora &lora,
                     const std::vector<rt::CheckpointReader::Place> &places) {
  std::vector<std::string> targets, saved;
  for (const rt::CheckpointReader::Place &place : places) {
    const std::string &name = place.param->stateDict;
    if (endsWith(name, kLoraA))
      targets.push_back(before(name, kLoraA));
    else if (!isAdapter(*place.param))
      saved.push_back(name.substr(0, name.rfind('.')));
  }
  saved.erase(std::unique(saved.begin(), saved.end()), saved.end());
  nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                 {"task_type", nullptr},
                                 {"base_model_name_or_path", nullptr},
                                 {"inference_mode", true},
                                 {"r", lora.rank},
                                 {"lora_alpha", lora.alpha},
                                 {"lora_dropout", lora.dropout},
                                 {"use_rslora", lora.rslora},
                                 {"use_dora", lora.dora},
                                 {"bias", "none"},
                                 {"target_modules", targets},
                                 {"modules_to_save", nullptr},
                                 {"fan_in_fan_out", !lora.fanInFanOut.empty()}};
  if (!saved.empty())
    json["modules_to_save"] = saved;
  return json.dump(2) + "\n";
}

} // namespace

bool isAdapter(const Manifest::Param &param) {
  return endsWith(param.stateDict, kLoraA) ||
         endsWith(param.stateDict, kLoraB) ||
         endsWith(param.stateDict, kLoraMagnitude);
}

std::vector<float> readParameter(rt::CheckpointReader &reader,
                                 const rt::CheckpointReader::Place &place) {
  std::vector<float> values = readAsItIs(reader, place);
  const std::optional<Lora> &lora = reader.index().lora;
  const std::string &name = place.param->stateDict;
  if (!lora || !endsWith(name, kLoraWeight))
    return values;
  std::string module = before(name, kLoraWeight);
  rt::CheckpointReader::Place a = reader.find({module + kLoraA});
  rt::CheckpointReader::Place b = reader.find({module + kLoraB});
  if (!a.param || !b.param)
    return values;
  if (lora->dora && !reader.find({module + kLoraMagnitude}).param)
    rt::fail("the checkpoint has no lengths for '", name, "'");
  auto rank = static_cast<size_t>(lora->rank);
  std::vector<float> left = readAsItIs(reader, a),
                     right = readAsItIs(reader, b);
  if (left.size() % rank != 0 || right.size() % rank != 0 ||
      left.size() / rank * (right.size() / rank) != values.size())
    rt::fail("the adapter of '", name, "' in the checkpoint has another shape");
  bool transposed =
      std::find(lora->fanInFanOut.begin(), lora->fanInFanOut.end(), module) !=
      lora->fanInFanOut.end();
  addProduct(left, right, rank, static_cast<float>(lora->scaling()), transposed,
             values);
  if (lora->dora)
    setLengths(readAsItIs(reader, reader.find({module + kLoraMagnitude})),
               transposed, values);
  return values;
}

void writeAdapter(rt::CheckpointReader &reader, const std::string &folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    rt::fail("cannot make the folder '", folder, "': ", error.message());
  std::vector<rt::CheckpointReader::Place> places = trainedOf(reader);
  std::string config = configOf(*reader.index().lora, places);
  std::vector<StoredTensor> tensors;
  for (const rt::CheckpointReader::Place &place : places)
    tensors.push_back({kPrefix + place.param->stateDict, place.param->shape,
                       [&reader, place] { return readAsItIs(reader, place); }});
  OutputFile weights(folder + "/adapter_model.safetensors");
  OutputFile configuration(folder + "/adapter_config.json");
  writeTensors(weights, tensors);
  configuration.write(config.data(), static_cast<int64_t>(config.size()));
  OutputFile::finishTogether(weights, configuration);
}

} // namespace shardonnx
