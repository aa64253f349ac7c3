// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `--recompute`: a word, which may have a number behind it. No MLIR here.

#ifndef SHARDONNX_SUPPORT_RECOMPUTE_H
#define SHARDONNX_SUPPORT_RECOMPUTE_H

#include "shardonnx/runtime/ByteSize.h"
#include "shardonnx/runtime/Choices.h"

namespace shardonnx {

struct Recompute {
  RecomputeKind kind = RecomputeKind::None;
  int64_t number = 0; // blocks of every:N, bytes of budget:BYTES

  /// As the command line has it.
  std::string text() const {
    std::string word = spell(kind);
    size_t colon = word.find(':');
    return colon == std::string::npos
               ? word
               : word.substr(0, colon + 1) + std::to_string(number);
  }
};

/// The kind whose word, up to a colon, begins the text.
inline std::optional<RecomputeKind>
parseRecomputeKind(const std::string &text) {
  auto head = [](std::string_view word) {
    return word.substr(0, std::min(word.find(':'), word.size() - 1) + 1);
  };
  for (RecomputeKind kind : allValues<RecomputeKind>())
    if (!text.empty() && head(text) == head(spell(kind)))
      return kind;
  return std::nullopt;
}

/// What is wrong with the text is said in `error`.
inline std::optional<Recompute> parseRecompute(const std::string &text,
                                               std::string &error) {
  std::optional<RecomputeKind> kind = parseRecomputeKind(text);
  if (!kind) {
    error =
        "'" + text + "' is not one of " + listWords(spellAll<RecomputeKind>());
    return std::nullopt;
  }
  std::string argument = text.substr(text.find(':') + 1);
  std::optional<int64_t> number = 0;
  const char *wants = "";
  if (kind == RecomputeKind::Every) {
    number = parseWhole(argument, 1, 1 << 20);
    wants = "every: wants a positive number of blocks";
  } else if (kind == RecomputeKind::Budget) {
    number = parseByteSize(argument);
    wants = "budget: wants bytes, as in budget:512MiB";
  }
  if (!number) {
    error = "'" + text + "': " + wants;
    return std::nullopt;
  }
  return Recompute{*kind, *number};
}

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_RECOMPUTE_H
