// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of options, as people write them: `shardonnx` and the training
// executable share what they say of one that they do not have. Each knows the
// other's, for a run is set up with both.

#ifndef SHARDONNX_RUNTIME_OPTIONNAMES_H
#define SHARDONNX_RUNTIME_OPTIONNAMES_H

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace shardonnx {

/// The options of `shardonnx compile` that the training executable has not.
inline const std::vector<std::string> &compileOptionNames() {
  static const std::vector<std::string> names = {"--output",
                                                 "--emit",
                                                 "--print-ir-after",
                                                 "--dump-dir",
                                                 "--timing",
                                                 "--print-locations",
                                                 "--target",
                                                 "--arch",
                                                 "--batch",
                                                 "--seq",
                                                 "--dim",
                                                 "--loss",
                                                 "--logits",
                                                 "--strategy",
                                                 "--unit",
                                                 "--param-dtype",
                                                 "--reduce-dtype",
                                                 "--output-dtype",
                                                 "--matmul-dtype",
                                                 "--matmul-gain",
                                                 "--gather-dtype",
                                                 "--recompute",
                                                 "--forward-prefetch",
                                                 "--backward-prefetch",
                                                 "--memory-budget",
                                                 "--mlp-chunks",
                                                 "--mesh",
                                                 "--context-attention",
                                                 "--overlap-axes",
                                                 "--axis-chunks",
                                                 "--fit",
                                                 "--optimizer",
                                                 "--optimizer-dtype",
                                                 "--master-dtype",
                                                 "--accumulate-mode",
                                                 "--freeze",
                                                 "--trainable",
                                                 "--lora",
                                                 "--lora-targets",
                                                 "--base-dtype",
                                                 "--dropout",
                                                 "--attention-mask",
                                                 "--position-ids",
                                                 "--document-separator",
                                                 "--max-documents",
                                                 "--ignore",
                                                 "--strict-numerics",
                                                 "--tensor-plan",
                                                 "--tf32",
                                                 "--world-size",
                                                 "--no-cache",
                                                 "--config"};
  return names;
}

/// The options of the training executable that `shardonnx compile` has not.
inline const std::vector<std::string> &trainOptionNames() {
  static const std::vector<std::string> names = {"--data",
                                                 "--data-dtype",
                                                 "--shift-labels",
                                                 "--no-shift-labels",
                                                 "--eval-data",
                                                 "--eval-every",
                                                 "--seed",
                                                 "--shuffle",
                                                 "--steps",
                                                 "--accumulate",
                                                 "--log",
                                                 "--tensorboard",
                                                 "--profile",
                                                 "--trace",
                                                 "--trace-steps",
                                                 "--debug-memory",
                                                 "--flight-record",
                                                 "--nproc",
                                                 "--replicas",
                                                 "--timeout",
                                                 "--lr",
                                                 "--betas",
                                                 "--eps",
                                                 "--weight-decay",
                                                 "--no-decay",
                                                 "--momentum",
                                                 "--muon-lr",
                                                 "--adjust-lr-fn",
                                                 "--clip-grad-norm",
                                                 "--clip-grad-value",
                                                 "--loss-scale",
                                                 "--on-nonfinite",
                                                 "--schedule",
                                                 "--warmup",
                                                 "--min-lr",
                                                 "--offload-dir",
                                                 "--init",
                                                 "--model",
                                                 "--adapter",
                                                 "--save",
                                                 "--save-every",
                                                 "--keep",
                                                 "--keep-best",
                                                 "--patience",
                                                 "--resume"};
  return names;
}

/// What is wrong where an option of a CLI::App has an empty value, as
/// `--save "$DIR"` has where DIR is not set; empty where none has.
template <typename App> std::string explainEmptyValue(const App &app) {
  for (const auto *option : app.get_options())
    for (const std::string &value : option->results())
      if (value.empty())
        return option->get_name() + ": its value is empty; give " +
               option->get_type_name() +
               (option->get_required() ? "" : ", or leave the option out");
  return "";
}

/// The same of `--save=`, which CLI11 would give the argument behind it.
inline std::string
explainEmptyValue(const std::vector<std::string> &arguments) {
  auto end = std::find(arguments.begin(), arguments.end(), "--");
  auto empty = std::find_if(arguments.begin(), end, [](const auto &argument) {
    return argument.rfind("--", 0) == 0 &&
           argument.find('=') == argument.size() - 1;
  });
  return empty == end ? ""
                      : empty->substr(0, empty->size() - 1) +
                            ": its value is empty; give one, or leave the "
                            "option out";
}

/// What CLI11 says, in one line; of an option that takes one value and is given
/// several, which of them would count being anyone's guess, in plain words.
inline std::string explainParseError(std::string said) {
  while (!said.empty() && said.back() == '\n')
    said.pop_back();
  for (size_t at; (at = said.find('\n')) != std::string::npos;)
    said.replace(at, 1, "; ");
  size_t times = said.find(": At Most 1 required but received ");
  if (times == std::string::npos)
    return said;
  return said.substr(0, times) + " is given more than once; give it once";
}

/// What is wrong where one of `arguments` gives a flag of a CLI::App a value
/// that is neither true nor false; empty where none does. CLI11 takes any
/// number for one, and ends with std::stoll's word for one of twenty digits.
template <typename App>
std::string explainFlagValue(const App &app,
                             const std::vector<std::string> &arguments) {
  const std::vector<std::string> values = {"true", "false", "yes", "no",
                                           "on",   "off",   "1",   "0"};
  auto end = std::find(arguments.begin(), arguments.end(), "--");
  for (auto it = arguments.begin(); it != end; ++it) {
    size_t equals = it->rfind("--", 0) == 0 ? it->find('=') : std::string::npos;
    if (equals == std::string::npos)
      continue;
    const auto *option = app.get_option_no_throw(it->substr(0, equals));
    std::string value = it->substr(equals + 1);
    if (option && option->get_expected_max() == 0 &&
        std::find(values.begin(), values.end(), value) == values.end())
      return it->substr(0, equals) + ": '" + value +
             "' is neither true nor false; give one of them, or the option "
             "without a value";
  }
  return "";
}

/// How many letters must be put in, left out or changed.
inline size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1,
                         diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

/// The name that was most likely meant: one with few other letters, or that
/// `given` goes on from (`--batch-size`) or begins. Empty where none is near.
inline std::string nearestName(std::string_view given,
                               const std::vector<std::string> &names) {
  std::string nearest;
  size_t least = std::max<size_t>(2, given.size() / 4);
  for (const std::string &name : names) {
    size_t common = std::min(name.size(), given.size());
    bool begins =
        common > 4 && given.substr(0, common) == name.substr(0, common);
    size_t distance = begins ? 1 : editDistance(given, name);
    if (distance < least || (distance == least && nearest.empty())) {
      nearest = name;
      least = distance;
    }
  }
  return nearest;
}

/// `--name` of `--name=value`; empty for what is no option.
inline std::string optionName(const std::string &argument) {
  size_t letter = argument.rfind("--", 0) == 0 ? 2 : 1;
  bool option = argument.size() > letter && argument[0] == '-' &&
                std::isalpha(static_cast<unsigned char>(argument[letter]));
  if (!option)
    return {};
  return letter == 1 ? argument.substr(0, 2)
                     : argument.substr(0, argument.find('='));
}

inline bool isAmong(const std::string &name,
                    const std::vector<std::string> &names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// PyTorch's and JSON's `--param_dtype` is `--param-dtype`.
inline std::string dashedOption(const std::string &argument,
                                const std::vector<std::string> &names) {
  std::string name = optionName(argument);
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return isAmong(dashed, names) ? dashed + argument.substr(name.size())
                                : argument;
}

/// Who else has options, and how to call it.
struct OtherOptions {
  std::string owner;
  std::vector<std::string> names;
};

inline std::string askForName(const std::string &name,
                              const std::string &owner) {
  return "did you mean '" + name + "'" + owner + "?";
}

/// What to do instead of giving an option that is not among `names`.
inline std::string suggestOption(const std::string &option,
                                 const std::vector<std::string> &names,
                                 const std::vector<OtherOptions> &others) {
  auto has = [&](const OtherOptions &other) {
    return isAmong(option, other.names);
  };
  auto owner = std::find_if(others.begin(), others.end(), has);
  if (owner != others.end())
    return "'" + option + "' is an option of " + owner->owner;
  if (std::string near = nearestName(option, names); !near.empty())
    return askForName(near, "");
  for (const OtherOptions &other : others)
    if (std::string near = nearestName(option, other.names); !near.empty())
      return askForName(near, " of " + other.owner);
  return {};
}

/// What is wrong with the first of `arguments` that is an option and not among
/// `names`; empty where there is none. What follows a bare `--` is no option.
inline std::string
explainUnknownOption(const std::vector<std::string> &arguments,
                     const std::vector<std::string> &names,
                     const std::vector<OtherOptions> &others) {
  auto end = std::find(arguments.begin(), arguments.end(), "--");
  auto unknown =
      std::find_if(arguments.begin(), end, [&](const auto &argument) {
        std::string name = optionName(argument);
        return !name.empty() && !isAmong(name, names);
      });
  if (unknown == end)
    return {};
  // The message shows all of a word that has a single dash.
  bool isShort = optionName(*unknown).size() == 2;
  std::string given = isShort ? *unknown : optionName(*unknown);
  std::string dashes = (isShort ? "-" : "") + given;
  std::replace(dashes.begin(), dashes.end(), '_', '-');
  std::string instead = suggestOption(dashes, names, others);
  return "unknown option '" + given + "'" +
         (instead.empty() ? "" : ": " + instead);
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_OPTIONNAMES_H
