// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See OptionValues.h.

#include "OptionValues.h"
#include "Config.h"
#include "shardonnx/Support/NamePattern.h"

#include <algorithm>
#include <limits>

namespace shardonnx {

void addDim(CompileOptions &options, const std::string &text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    usageError("--dim: '" + text + "' is not NAME=N");
  std::optional<int64_t> size =
      parseWhole(text.substr(equals + 1), 0, kLargestDimension);
  if (!size)
    usageError("--dim: '" + text.substr(equals + 1) + "' in '" + text +
               "' is not a whole number within 0..." +
               std::to_string(kLargestDimension));
  auto [entry, isNew] = options.dims.try_emplace(text.substr(0, equals), *size);
  if (!isNew && entry->second != *size)
    usageError("--dim: '" + entry->first + "' is given twice, as " +
               std::to_string(entry->second) + " and as " +
               std::to_string(*size) + "; leave one out");
}

CLI::Option *whole(CLI::Option *option, int64_t least, int64_t most) {
  auto read = [=](std::string &text) {
    std::optional<int64_t> value = parseWhole(text, least, most);
    if (!value)
      return "'" + text + "' is not a whole number within " +
             std::to_string(least) + "..." + std::to_string(most);
    text = std::to_string(*value); // without K or M
    return std::string();
  };
  return option->transform(CLI::Validator(read, ""))->type_name("N");
}

CLI::Option *number(CLI::Option *option, double least, double most) {
  auto read = [=](std::string &text) {
    double value = 0;
    std::ostringstream said;
    if (std::optional<int64_t> count =
            parseWhole(text, 0, std::numeric_limits<int64_t>::max()))
      text = std::to_string(*count); // without K or M
    if (CLI::detail::lexical_cast(text, value) && value >= least &&
        value <= most)
      return std::string();
    said << "'" << text << "' is not a number within " << least << "..."
         << most;
    return said.str();
  };
  return option->transform(CLI::Validator(read, ""));
}

CLI::Option *bytes(CLI::App &app, const std::string &name,
                   std::optional<int64_t> &value, const std::string &help) {
  auto set = [&value](const std::string &text) { value = parseByteSize(text); };
  return app.add_option_function<std::string>(name, set, help)
      ->check([](const std::string &text) {
        return parseByteSize(text)
                   ? std::string()
                   : "'" + text + "' is no size; write 80GB or 0.5GiB";
      })
      ->type_name("BYTES");
}

CLI::Option *regexes(CLI::Option *option) {
  return option->allow_extra_args(false)
      ->check(checkNamePattern)
      ->type_name("REGEX");
}

std::string checkUnitPattern(const std::string &text) {
  if (text.rfind("size:", 0) != 0)
    return checkNamePattern(text);
  return parseWhole(text.substr(5), 1, kLargestSize)
             ? ""
             : "'" + text + "': size: wants a positive number of elements";
}

CLI::Option *oneOf(CLI::Option *option, const std::vector<std::string> &words) {
  std::string list = listWords(words);
  return option
      ->check([words, list](const std::string &text) {
        bool known = std::find(words.begin(), words.end(), text) != words.end();
        return known ? std::string() : "'" + text + "' is not one of " + list;
      })
      ->type_name(list);
}

} // namespace shardonnx
