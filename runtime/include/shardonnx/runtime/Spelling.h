// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How the values of an enumeration are written. Each enumeration has one table,
// from which the command line, configurations, attributes, the manifest and
// messages take their words.

#ifndef SHARDONNX_RUNTIME_SPELLING_H
#define SHARDONNX_RUNTIME_SPELLING_H

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardonnx {

/// `help` says what the value means, where the word does not.
template <typename Enum> struct Spelling {
  Enum value;
  const char *text;
  const char *help = "";
};

/// A specialisation has `static constexpr Spelling<Enum> table[]`, in the order
/// in which help and messages list the words.
template <typename Enum> struct Spellings;

/// The word of a value; empty for one that has none.
template <typename Enum> constexpr const char *spell(Enum value) {
  for (const Spelling<Enum> &entry : Spellings<Enum>::table)
    if (entry.value == value)
      return entry.text;
  return "";
}

template <typename Enum>
std::optional<Enum> parseSpelling(std::string_view text) {
  for (const Spelling<Enum> &entry : Spellings<Enum>::table)
    if (text == entry.text)
      return entry.value;
  return std::nullopt;
}

template <typename Enum> std::vector<Enum> allValues() {
  std::vector<Enum> values;
  for (const Spelling<Enum> &entry : Spellings<Enum>::table)
    values.push_back(entry.value);
  return values;
}

template <typename Enum>
std::vector<std::string>
spellAll(const std::vector<Enum> &values = allValues<Enum>()) {
  std::vector<std::string> words;
  for (Enum value : values)
    words.emplace_back(spell(value));
  return words;
}

/// `a|b|c`, as help lists what an option takes.
inline std::string listWords(const std::vector<std::string> &words) {
  std::string list;
  for (const std::string &word : words)
    list.append(list.empty() ? "" : "|").append(word);
  return list;
}

/// `a, b or c`, for a sentence.
inline std::string describeWords(const std::vector<std::string> &words) {
  std::string list;
  for (size_t i = 0; i < words.size(); ++i)
    list.append(i == 0                 ? ""
                : i + 1 < words.size() ? ", "
                                       : " or ")
        .append(words[i]);
  return list;
}

} // namespace shardonnx

#endif // SHARDONNX_RUNTIME_SPELLING_H
