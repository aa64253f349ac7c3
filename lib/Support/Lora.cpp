// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Support/Lora.h"
#include "shardonnx/runtime/ByteSize.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace shardonnx {

static constexpr int64_t kLargestRank = 1 << 16;

/// A finite number of at least `least`, and less than `end`.
static bool parseNumber(StringRef text, double least, double end, double &to) {
  return !text.getAsDouble(to) && to >= least && to < end;
}

/// One word behind the rank; says what it should have been.
static std::string parseWord(StringRef word, Lora &lora) {
  auto [name, value] = word.split('=');
  if (name == "alpha")
    return parseNumber(value, 1e-6, 1e9, lora.alpha)
               ? ""
               : "alpha wants a positive number";
  if (name == "dropout")
    return parseNumber(value, 0, 1, lora.dropout)
               ? ""
               : "dropout wants a number within [0, 1)";
  if (word == "rslora") {
    lora.rslora = true;
    return "";
  }
  if (word == "dora") {
    lora.dora = true;
    return "";
  }
  return "'" + word.str() + "' is not one of alpha=A, dropout=P, rslora, dora";
}

std::optional<Lora> parseLora(const std::string &text, std::string &error) {
  SmallVector<StringRef> words;
  StringRef(text).split(words, ',');
  Lora lora;
  std::optional<int64_t> rank = parseWhole(words[0].str(), 1, kLargestRank);
  if (!rank)
    error = "'" + text + "': the rank wants a whole number from 1 to " +
            std::to_string(kLargestRank) + ", as in 16";
  else
    lora.rank = *rank;
  llvm::StringSet<> seen;
  for (StringRef word : ArrayRef(words).drop_front()) {
    std::string wrong = parseWord(word, lora);
    if (StringRef name = word.split('=').first;
        wrong.empty() && !seen.insert(name).second)
      wrong = name.str() + " is given twice";
    if (!wrong.empty() && error.empty())
      error.append("'").append(text).append("': ").append(wrong);
  }
  if (!error.empty())
    return std::nullopt;
  return lora;
}

} // namespace shardonnx
