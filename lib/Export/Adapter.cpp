// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adapters: written as PEFT's save_pretrained does
// (peft/utils/save_and_load.py, LoraConfig), or added to the weights beside
// them as its merge_and_unload.

#include "Export.h"

#include "../../runtime/checkpoint/PackedParts.h"
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
  if (param.packed)
    return rt::decodePacked(reader, place);
  rt::StateArray array =
      param.trainable ? rt::StateArray::Master : rt::StateArray::Frozen;
  std::vector<float> values(static_cast<size_t>(param.wholeElements()));
  reader.forStored(place, {0, param.wholeElements()},
                   [&](int64_t begin, int64_t at, int64_t count) {
                     reader.read(place.unit, array, begin, count,
                                 values.data() + at);
                   });
  return values;
}

// An adapter as a checkpoint has it: of experts, A [experts, rank, in] and
// B [out, rank, experts].
struct Pair {
  std::vector<float> a, b;
  size_t rank = 1, experts = 1;
  float scaling = 1;
  bool transposed = false; // does the weight lie [in, out]?
};

// Of each expert, weight[o, i] += scaling * sum over r of B[o, r] * A[r, i], or
// weight[i, o].
void addProduct(const Pair &pair, std::vector<float> &weight) {
  size_t columns = pair.rank * pair.experts;
  size_t in = pair.a.size() / columns, out = pair.b.size() / columns;
  std::vector<float> row(in);
  for (size_t e = 0; e < pair.experts; ++e) {
    const float *a = pair.a.data() + e * pair.rank * in;
    float *w = weight.data() + e * out * in;
    for (size_t o = 0; o < out; ++o) {
      std::fill(row.begin(), row.end(), 0.0f);
      for (size_t r = 0; r < pair.rank; ++r)
        for (size_t i = 0; i < in; ++i)
          row[i] += pair.b[o * columns + r * pair.experts + e] * a[r * in + i];
      for (size_t i = 0; i < in; ++i)
        w[pair.transposed ? i * out + o : o * in + i] += pair.scaling * row[i];
    }
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

// What PEFT is told of weights that are adapted as parameters.
void addParameters(const Lora &lora, nlohmann::ordered_json &json) {
  if (lora.parameters.empty())
    return;
  std::vector<std::string> targets;
  nlohmann::ordered_json ranks = nlohmann::ordered_json::object(),
                         alphas = ranks;
  for (const Lora::Parameter &own : lora.parameters) {
    targets.push_back(own.weight);
    std::string pattern; // a regular expression
    for (char c : own.weight)
      pattern += c == '.' ? std::string("\\.") : std::string(1, c);
    if (own.rank != lora.rank)
      ranks[pattern] = own.rank;
    if (own.alpha != lora.alpha)
      alphas[pattern] = own.alpha;
  }
  json["target_parameters"] = targets;
  json["rank_pattern"] = ranks;
  json["alpha_pattern"] = alphas;
}

// PEFT's names of experts' layers before transformers had them in one tensor:
// of models that had them so, it takes modules of these names for experts.
constexpr const char *kOnceExperts[] = {".gate_proj", ".up_proj", ".down_proj"};

void warnOfOnceExperts(const Lora &lora,
                       const std::vector<std::string> &targets) {
  auto stacked = [](const Lora::Parameter &own) { return own.experts > 1; };
  if (std::none_of(lora.parameters.begin(), lora.parameters.end(), stacked))
    return;
  for (const std::string &target : targets)
    for (const char *end : kOnceExperts)
      if (endsWith(target, end))
        return rt::printWarning(rt::concat(
            "beside experts in one tensor, PEFT may take '", target,
            "' and its like for experts and leave their adapters out: "
            "--merge keeps them"));
}

std::string configOf(const Lora &lora,
                     const std::vector<rt::CheckpointReader::Place> &places) {
  std::vector<std::string> targets, saved;
  for (const rt::CheckpointReader::Place &place : places) {
    const std::string &name = place.param->stateDict;
    if (!isAdapter(*place.param))
      saved.push_back(name.substr(0, name.rfind('.')));
    else if (endsWith(name, kLoraA) && !lora.isParameter(before(name, kLoraA)))
      targets.push_back(before(name, kLoraA));
  }
  saved.erase(std::unique(saved.begin(), saved.end()), saved.end());
  warnOfOnceExperts(lora, targets);
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
  addParameters(lora, json);
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

// How the weight of that name is adapted, if it is; its path is `adapter`.
static std::optional<Pair> pairOf(const Lora &lora, const std::string &name,
                                  std::string &adapter) {
  Pair pair;
  for (const Lora::Parameter &own : lora.parameters)
    if (own.weight == name) {
      adapter = own.adapter;
      pair.rank = static_cast<size_t>(own.rank);
      pair.experts = static_cast<size_t>(own.experts);
      pair.scaling = static_cast<float>(lora.scaling(own));
      pair.transposed = own.fanInFanOut;
      return pair;
    }
  if (!endsWith(name, kLoraWeight))
    return std::nullopt;
  adapter = before(name, kLoraWeight);
  pair.rank = static_cast<size_t>(lora.rank);
  pair.scaling = static_cast<float>(lora.scaling());
  pair.transposed = std::find(lora.fanInFanOut.begin(), lora.fanInFanOut.end(),
                              adapter) != lora.fanInFanOut.end();
  return pair;
}

std::vector<float> readParameter(rt::CheckpointReader &reader,
                                 const rt::CheckpointReader::Place &place) {
  std::vector<float> values = readAsItIs(reader, place);
  const std::optional<Lora> &lora = reader.index().lora;
  const std::string &name = place.param->stateDict;
  std::string adapter;
  std::optional<Pair> pair = lora ? pairOf(*lora, name, adapter) : std::nullopt;
  if (!pair)
    return values;
  rt::CheckpointReader::Place a = reader.find({adapter + kLoraA});
  rt::CheckpointReader::Place b = reader.find({adapter + kLoraB});
  if (!a.param || !b.param)
    return values;
  if (lora->dora && !reader.find({adapter + kLoraMagnitude}).param)
    rt::fail("the checkpoint has no lengths for '", name, "'");
  pair->a = readAsItIs(reader, a);
  pair->b = readAsItIs(reader, b);
  size_t columns = pair->rank * pair->experts;
  if (pair->a.size() % columns != 0 || pair->b.size() % columns != 0 ||
      pair->a.size() / columns * (pair->b.size() / columns) * pair->experts !=
          values.size())
    rt::fail("the adapter of '", name, "' in the checkpoint has another shape");
  addProduct(*pair, values);
  if (lora->dora)
    setLengths(readAsItIs(reader, reader.find({adapter + kLoraMagnitude})),
               pair->transposed, values);
  return values;
}

void writeAdapter(rt::CheckpointReader &reader, const std::string &folder) {
  rt::MadeFolders made(folder);
  if (made.error())
    rt::fail("cannot make the folder '", folder, "': ", made.error().message(),
             "; -o needs a folder that can be written");
  std::vector<rt::CheckpointReader::Place> places = trainedOf(reader);
  std::string config = configOf(*reader.index().lora, places);
  std::vector<StoredTensor> tensors;
  for (const rt::CheckpointReader::Place &place : places)
    tensors.push_back({kPrefix + place.param->stateDict,
                       place.param->wholeShape(),
                       [&reader, place] { return readAsItIs(reader, place); }});
  OutputFile weights(folder + "/adapter_model.safetensors");
  OutputFile configuration(folder + "/adapter_config.json");
  writeTensors(weights, tensors);
  configuration.write(config.data(), static_cast<int64_t>(config.size()));
  OutputFile::finishTogether(weights, configuration);
}

} // namespace shardonnx
