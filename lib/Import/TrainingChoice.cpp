// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TrainingChoice.h.

#include "TrainingChoice.h"

#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/NamePattern.h"
#include "llvm/ADT/STLExtras.h"

using llvm::StringRef;

namespace shardonnx {

static std::vector<llvm::Regex>
compile(const std::vector<std::string> &patterns) {
  std::vector<llvm::Regex> expressions;
  for (const std::string &pattern : patterns)
    if (llvm::Regex expression = wholeName(pattern); expression.isValid())
      expressions.push_back(std::move(expression));
  return expressions;
}

static bool match(const std::vector<llvm::Regex> &expressions, StringRef name) {
  return llvm::any_of(expressions, [&](const llvm::Regex &expression) {
    return expression.match(name);
  });
}

static bool matchAny(const std::vector<llvm::Regex> &expressions,
                     const Initializer &init) {
  return match(expressions, init.symbol) ||
         llvm::any_of(init.names, [&](const std::string &name) {
           return match(expressions, name);
         });
}

TrainingChoice::TrainingChoice(const ImportOptions &options)
    : frozen(compile(options.freeze)), trained(compile(options.trainable)),
      all(options.trainable.empty()) {}

bool TrainingChoice::freezes(StringRef name) const {
  return match(frozen, name);
}

bool TrainingChoice::trains(const Initializer &init) const {
  return init.trainable && !matchAny(frozen, init) &&
         (all || matchAny(trained, init));
}

} // namespace shardonnx
