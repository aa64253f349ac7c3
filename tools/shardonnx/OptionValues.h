// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may stand behind an option: how it is read, what --help calls it, and
// the message where it is none.

#ifndef SHARDONNX_TOOLS_SHARDONNX_OPTIONVALUES_H
#define SHARDONNX_TOOLS_SHARDONNX_OPTIONVALUES_H

#include "shardonnx/Driver/Options.h"

#include <CLI/CLI.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardonnx {

constexpr int64_t kLargestSize = int64_t(1) << 40;

/// More positions of one axis than any machine holds; products of a few such
/// sizes are still counted in 64 bits.
constexpr int64_t kLargestDimension = (int64_t(1) << 31) - 1;

/// NAME=N of --dim.
void addDim(CompileOptions &options, const std::string &text);

/// A whole number within bounds: --help shows a letter, and the message says
/// what is wanted.
CLI::Option *whole(CLI::Option *option, int64_t least, int64_t most);

/// A number within bounds, which NaN is not.
CLI::Option *number(CLI::Option *option, double least, double most);

/// A size in bytes.
CLI::Option *bytes(CLI::App &app, const std::string &name,
                   std::optional<int64_t> &value, const std::string &help);

/// What is no regex is refused here, where it is known to be the command
/// line's fault.
CLI::Option *regexes(CLI::Option *option);

/// Why `text` is nothing that --unit or a configuration's `units` take for
/// modules; empty where it is.
std::string checkUnitPattern(const std::string &text);

/// One of a few words; --help lists them.
CLI::Option *oneOf(CLI::Option *option, const std::vector<std::string> &words);

/// One of the words of an enumeration, or of those of some of its values. What
/// is optional has no default.
template <typename Enum>
CLI::Option *addChoice(CLI::App &app, const std::string &name,
                       std::optional<Enum> &value, const std::string &help,
                       const std::vector<Enum> &values = allValues<Enum>()) {
  auto set = [&value](const std::string &word) {
    value = parseSpelling<Enum>(word);
  };
  return oneOf(app.add_option_function<std::string>(name, set, help),
               spellAll(values));
}

template <typename Enum>
CLI::Option *addChoice(CLI::App &app, const std::string &name, Enum &value,
                       const std::string &help,
                       const std::vector<Enum> &values = allValues<Enum>()) {
  auto set = [&value](const std::string &word) {
    value = parseSpelling<Enum>(word).value_or(value);
  };
  return oneOf(app.add_option_function<std::string>(name, set, help),
               spellAll(values))
      ->default_str(spell(value));
}

} // namespace shardonnx

#endif // SHARDONNX_TOOLS_SHARDONNX_OPTIONVALUES_H
