// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// JSON configurations: keys are options, `units` is a list of policies.

#include "Config.h"
#include "OptionValues.h"
#include "shardonnx/Driver/ForeignConfig.h"
#include "shardonnx/Support/InputCheck.h"
#include "shardonnx/runtime/EndsWith.h"
#include "shardonnx/runtime/Printable.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

namespace shardonnx {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string &message, int code) {
  std::fprintf(stderr, "shardonnx: error: %s\n", printable(message).c_str());
  std::exit(code);
}

std::string plainText(const Json &value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// "batch": 4 is --batch=4, a list repeats its option, an object gives
// NAME=VALUE pairs.
void appendJson(std::vector<std::string> &args, const std::string &key,
                const Json &value) {
  std::string option = "--" + key;
  if (!value.is_structured()) {
    args.push_back(option + "=" + plainText(value));
    return;
  }
  if (value.empty())
    usageError("--config: the value of '" + key +
               "' is empty; leave the key out");
  for (const auto &[name, item] : value.items()) {
    if (item.is_structured())
      usageError("--config: the value of '" + key +
                 "' is nested; an option takes a value, a list of values or "
                 "an object of NAME: VALUE");
    args.push_back(option + "=" + (value.is_object() ? name + "=" : "") +
                   plainText(item));
  }
}

// One object of `units`; `where` names it in messages.
class UnitReader {
public:
  UnitReader(const Json &json, std::string where)
      : json(json), where(std::move(where)) {}

  UnitPolicy read() {
    if (!json.is_object())
      wrong("is not an object; it is {\"modules\": REGEX, ...}");
    for (const auto &[name, value] : json.items()) {
      key = name;
      std::replace(key.begin(), key.end(), '-', '_');
      readKey(value);
    }
    if (policy.modules.empty())
      wrong("has no 'modules': a regular expression over whole module paths, "
            "block, size:N or root");
    policy.together = each ? !*each : policy.modules.size() > 1;
    return policy;
  }

private:
  [[noreturn]] void wrong(const std::string &what) const {
    usageError("--config: " + where + " " + what);
  }
  [[noreturn]] void wants(const Json &value, const std::string &what) const {
    wrong("'" + key + "': " + value.dump() + " is not " + what);
  }

  void readKey(const Json &value) {
    if (key == "modules")
      policy.modules = names(value);
    else if (key == "each")
      each = truth(value);
    else if (key == "param_dtype")
      policy.paramDtype = oneOf(value, floatTypes());
    else if (key == "reduce_dtype")
      policy.reduceDtype = oneOf(value, floatTypes());
    else if (key == "output_dtype")
      policy.outputDtype = oneOf(value, floatTypes());
    else if (key == "matmul_dtype")
      policy.matmulDtype = oneOf(value, allValues<MatmulDtype>());
    else if (key == "gather_dtype")
      policy.gatherDtype = oneOf(value, allValues<GatherDtype>());
    else if (key == "cast_forward_inputs")
      policy.castForwardInputs = truth(value);
    else if (key == "reshard_after_forward")
      policy.reshard = value.is_boolean() ? int64_t(value.get<bool>())
                                          : number(value, 2, 1 << 20);
    else if (key == "recompute")
      policy.recompute = oneOf(value, unitRecomputeKinds());
    else if (key == "forward_prefetch")
      policy.forwardPrefetch = number(value, 0, 1024);
    else if (key == "backward_prefetch")
      policy.backwardPrefetch = number(value, 0, 1024);
    else if (key == "kept")
      policy.kept = truth(value);
    else
      wrong("has the key '" + key +
            "'; it may have modules, each, param_dtype, reduce_dtype, "
            "output_dtype, matmul_dtype, gather_dtype, cast_forward_inputs, "
            "reshard_after_forward, recompute, forward_prefetch, "
            "backward_prefetch and kept");
  }

  std::vector<std::string> names(const Json &value) const {
    std::vector<std::string> result;
    for (const Json &item : value.is_array() ? value : Json::array({value})) {
      if (!item.is_string())
        wants(item, "a regular expression in quotes");
      if (std::string why = checkUnitPattern(item.get<std::string>());
          !why.empty())
        wrong("'" + key + "': " + why);
      result.push_back(item.get<std::string>());
    }
    return result;
  }
  bool truth(const Json &value) const {
    if (!value.is_boolean())
      wants(value, "true or false");
    return value.get<bool>();
  }
  int64_t number(const Json &value, int64_t least, int64_t most) const {
    bool fits = value.is_number_unsigned() &&
                value.get<uint64_t>() <= uint64_t(most) &&
                value.get<int64_t>() >= least;
    if (!fits)
      wants(value, (key == "reshard_after_forward" ? "true, false or " : "") +
                       std::string("a whole number within ") +
                       std::to_string(least) + "..." + std::to_string(most));
    return value.get<int64_t>();
  }
  template <typename Enum>
  Enum oneOf(const Json &value, const std::vector<Enum> &choices) const {
    for (Enum choice : choices)
      if (value == spell(choice))
        return choice;
    wants(value, "one of " + listWords(spellAll(choices)));
  }

  const Json &json;
  std::string where, key;
  UnitPolicy policy;
  std::optional<bool> each;
};

std::vector<UnitPolicy> readUnits(const Json &json) {
  if (!json.is_array())
    usageError("--config: 'units' is not a list; it is [{\"modules\": REGEX, "
               "\"param_dtype\": \"bf16\"}, ...]");
  std::vector<UnitPolicy> units;
  for (const Json &entry : json)
    units.push_back(
        UnitReader(entry, "units[" + std::to_string(units.size()) + "]")
            .read());
  return units;
}

// The value of --config among the arguments, if any.
std::string findConfig(const std::vector<std::string> &args) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].rfind("--config=", 0) == 0)
      return args[i].substr(9);
    if (args[i] == "--config" && i + 1 < args.size())
      return args[i + 1];
  }
  return "";
}

bool isGiven(const std::vector<std::string> &args, const std::string &option) {
  return std::any_of(args.begin(), args.end(), [&](const std::string &arg) {
    return arg == option || arg.rfind(option + "=", 0) == 0;
  });
}

Config readJson(const Json &json, const std::vector<std::string> &commandLine) {
  Config config;
  for (const auto &[key, value] : json.items()) {
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', '-');
    if (name.empty() || name[0] == '-')
      usageError("--config: '" + key +
                 "' is no option's name, which a key is without its dashes");
    if (name == "config")
      usageError("--config: a file of options has no '" + key +
                 "' of its own; write that file's options into this one");
    if (key == "units")
      config.units = readUnits(value);
    else if (!isGiven(commandLine, "--" + name))
      appendJson(config.arguments, name, value);
  }
  return config;
}

std::string joined(const std::vector<std::string> &items) {
  std::string text;
  for (const std::string &item : items)
    text += (text.empty() ? "" : ", ") + item;
  return text;
}

// Says what became of keys that are no options.
void printNotes(const ForeignConfig &config) {
  if (!config.runtime.empty())
    std::fprintf(stderr, "shardonnx: note: --config: tell the executable: %s\n",
                 joined(config.runtime).c_str());
  for (const std::string &note : config.notes)
    std::fprintf(stderr, "shardonnx: note: --config: %s\n", note.c_str());
  if (!config.unused.empty())
    std::fprintf(stderr,
                 "shardonnx: note: --config: these keys mean nothing here: "
                 "%s\n",
                 joined(config.unused).c_str());
}

Config take(const ForeignConfig &foreign, const std::string &path,
            const std::vector<std::string> &commandLine) {
  if (!foreign.unreadable.empty())
    fileError("--config: '" + path + "' " + foreign.unreadable);
  if (!foreign.error.empty())
    usageError("--config: '" + path + "' " + foreign.error);
  printNotes(foreign);
  Config config;
  for (const auto &[name, value] : foreign.options)
    if (!isGiven(commandLine, "--" + name))
      config.arguments.push_back(
          std::string("--").append(name).append("=").append(value));
  return config;
}

// By keys that only DeepSpeed has; those of a small file are few.
bool isDeepSpeed(const Json &json) {
  auto has = [&](const char *key) { return json.contains(key); };
  auto isObject = [&](const char *key) {
    return has(key) && json.at(key).is_object();
  };
  return has("zero_optimization") || has("train_batch_size") ||
         has("train_micro_batch_size_per_gpu") ||
         has("gradient_accumulation_steps") || isObject("bf16") ||
         isObject("fp16");
}

// Of keys that an object has twice, the parser would keep the last. '-' and '_'
// are the same in them.
class KeysOnce {
public:
  explicit KeysOnce(const std::string &path) : path(path) {}

  bool operator()(int, Json::parse_event_t event, const Json &parsed) {
    if (event == Json::parse_event_t::object_start)
      objects.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      objects.pop_back();
    else if (event == Json::parse_event_t::key &&
             !objects.back().insert(spelling(parsed)).second)
      fileError("--config: '" + path + "' has the key " + parsed.dump() +
                " twice in one object; leave one of them out");
    return true;
  }

private:
  static std::string spelling(const Json &key) {
    std::string text = key.get<std::string>();
    std::replace(text.begin(), text.end(), '_', '-');
    return text;
  }

  const std::string &path;
  std::vector<std::set<std::string>> objects; // that are open
};

// The parser's message names line and column behind a word of its own.
Json parseJson(const std::string &path, std::istream &file) {
  try {
    return Json::parse(file, KeysOnce(path), /*allow_exceptions=*/true,
                       /*ignore_comments=*/true);
  } catch (const Json::parse_error &error) {
    std::string what = error.what();
    size_t line = what.find("line ");
    fileError("--config: '" + path + "' is not JSON: " +
              (line == std::string::npos ? what : what.substr(line)));
  }
}

} // namespace

void usageError(const std::string &message) { fail(message, kExitUsage); }
void fileError(const std::string &message) { fail(message, kExitInput); }

static Config readFrom(const std::string &path,
                       const std::vector<std::string> &commandLine) {
  if (std::error_code error = checkInputFile(path))
    fileError("--config: cannot read '" + path + "': " + error.message());
  std::ifstream file(path);
  if (!file)
    fileError("--config: cannot read '" + path + "': may it be read?");
  if (endsWith(path, ".yaml") || endsWith(path, ".yml"))
    return take(readAccelerateConfig(path), path, commandLine);
  Json json = parseJson(path, file);
  if (!json.is_object())
    fileError("--config: '" + path + "' is not a JSON object");
  if (json.contains("fsdp_config") || json.contains("distributed_type"))
    return take(readAccelerateConfig(path), path, commandLine);
  if (isDeepSpeed(json))
    return take(readDeepSpeedConfig(path), path, commandLine);
  return readJson(json, commandLine);
}

Config readConfig(const std::vector<std::string> &commandLine) {
  std::string path = findConfig(commandLine);
  if (path.empty())
    return {};
  Config config = readFrom(path, commandLine);
  config.path = path;
  return config;
}

} // namespace shardonnx
