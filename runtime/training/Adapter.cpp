// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Adapter.h.

#include "Adapter.h"
#include "../support/Error.h"
#include "../support/File.h"
#include "StateDict.h"
#include "shardonnx/runtime/EndsWith.h"
#include <cstring>
#include <nlohmann/json.hpp>
#include <regex>

namespace shardonnx::rt {
namespace {

using Json = nlohmann::json;

constexpr const char *kRemedy =
    "--adapter takes a folder that PEFT's save_pretrained wrote, with "
    "adapter_config.json and adapter_model.safetensors";
constexpr int64_t kLargestConfig = int64_t(1) << 24;

Json readConfig(const std::string &path) {
  File file(path, kRemedy);
  if (file.size() > kLargestConfig)
    fail("'", path, "' is too large for an adapter's configuration");
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(text.data(), 0, file.size());
  try {
    Json config = Json::parse(text);
    if (config.is_object())
      return config;
  } catch (const Json::exception &e) {
    fail("'", path, "' is no JSON: ", describe(e));
  }
  fail("'", path, "' is no JSON object; ", kRemedy);
}

// What the configuration says, as it stands; `missing` where it says nothing.
std::string said(const Json &config, const char *key, const Json &missing) {
  auto found = config.find(key);
  return (found == config.end() || found->is_null() ? missing : *found).dump();
}

void require(const Json &config, const std::string &path, const char *key,
             const Json &missing, const Json &wanted, const char *remedy) {
  std::string there = said(config, key, missing);
  bool same = there == wanted.dump();
  if (wanted.is_number() && config.contains(key) && config[key].is_number())
    same = config[key].get<double>() == wanted.get<double>();
  if (!same)
    fail("'", path, "' has ", key, " ", there, ", the program computes ",
         wanted.dump(), "; ", remedy);
}

// What the configuration has for a module or a parameter: the first pattern of
// PEFT's that its name ends with, or what all have.
double patternOf(const Json &config, const std::string &path, const char *key,
                 const std::string &name, double common) {
  auto patterns = config.find(key);
  if (patterns == config.end() || !patterns->is_object())
    return common;
  try {
    for (auto &[pattern, value] : patterns->items())
      if (std::regex_match(name, std::regex("(.*\\.)?(" + pattern + ")")))
        return value.get<double>();
  } catch (const std::exception &e) {
    fail("'", path, "' has a ", key, " that cannot be read: ", e.what());
  }
  return common;
}

// Every adapter of the program has the rank and alpha that are asked for there.
void checkPatterns(const Json &config, const std::string &path,
                   const Manifest &manifest) {
  const Lora &lora = *manifest.lora;
  auto same = [&](const char *key, const std::string &name, double common,
                  double computed) {
    double there = patternOf(config, path, key, name, common);
    if (there != computed)
      fail("'", path, "' has ", there, " for '", name, "' by its ", key,
           ", the program computes ", computed,
           "; take an adapter with one rank and alpha, but for experts' gate "
           "and up by all-linear");
  };
  for (const Lora::Parameter &own : lora.parameters) {
    same("rank_pattern", own.weight, double(lora.rank), double(own.rank));
    same("alpha_pattern", own.weight, lora.alpha, own.alpha);
  }
  for (const Manifest::Unit &unit : manifest.units)
    for (const Manifest::Param &param : unit.params) {
      if (!endsWith(param.name, kLoraA))
        continue;
      std::string module =
          param.name.substr(0, param.name.size() - std::strlen(kLoraA));
      if (lora.isParameter(module))
        continue;
      same("rank_pattern", module, double(lora.rank), double(lora.rank));
      same("alpha_pattern", module, lora.alpha, lora.alpha);
    }
}

// Some first values of an adapter are taken out of the base's weights.
void requireUnchangedBase(const Json &config, const std::string &path) {
  auto found = config.find("init_lora_weights");
  if (found == config.end() || !found->is_string())
    return;
  auto word = found->get<std::string>();
  for (const char *changes : {"pissa", "olora", "corda", "loftq"})
    if (word.rfind(changes, 0) == 0)
      fail("'", path, "' has init_lora_weights \"", word,
           "\", which stands beside a base of other weights than the model's; "
           "have PEFT's save_pretrained convert it "
           "(path_initial_model_for_weight_conversion)");
}

void check(const Json &config, const std::string &path, const Lora &lora) {
  const char *compile = "compile with the adapter's --lora=RANK,alpha=A";
  const char *other = "take an adapter without";
  require(config, path, "peft_type", "LORA", "LORA", other);
  require(config, path, "r", 8, lora.rank, compile);
  require(config, path, "lora_alpha", 8, lora.alpha, compile);
  require(config, path, "use_rslora", false, lora.rslora,
          "compile with or without rslora, as the adapter has it");
  require(config, path, "use_dora", false, lora.dora,
          "compile with or without dora, as the adapter has it");
  require(config, path, "bias", "none", "none", other);
  require(config, path, "layer_replication", nullptr, nullptr, other);
  requireUnchangedBase(config, path);
}

} // namespace

void loadAdapter(Engine &engine, const std::string &folder, bool warns) {
  std::string path = folder + "/adapter_config.json";
  if (warns) {
    Json config = readConfig(path);
    check(config, path, *engine.manifest.lora);
    checkPatterns(config, path, engine.manifest);
  }
  loadAdapterWeights(engine, folder + "/adapter_model.safetensors", warns);
}

} // namespace shardonnx::rt
