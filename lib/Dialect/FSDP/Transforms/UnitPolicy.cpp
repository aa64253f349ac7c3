// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the user's --unit says about module paths.

#include "UnitPolicy.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

FailureOr<UnitPolicy>
UnitPolicy::parse(ArrayRef<std::string> words,
                  llvm::function_ref<InFlightDiagnostic()> emitError) {
  UnitPolicy policy;
  if (words.empty() || (words.size() == 1 && words[0] == "block"))
    return policy;
  for (StringRef word : words) {
    StringRef number = word;
    if (number.consume_front("size:")) {
      if (number.getAsInteger(10, policy.minimumSize) ||
          policy.minimumSize <= 0)
        return emitError() << "--unit=" << word
                           << ": size: wants a positive number of elements",
               failure();
      policy.policyKind = Kind::Size;
    } else if (word != "block") {
      policy.sources.push_back(word.str());
      policy.patterns.emplace_back(("^(" + word + ")$").str());
      std::string reason;
      if (!policy.patterns.back().isValid(reason))
        return emitError() << "--unit=" << word
                           << ": not a regular expression: " << reason,
               failure();
      policy.policyKind = Kind::Regex;
    }
  }
  if (words.size() != policy.sources.size() && words.size() != 1)
    return emitError() << "--unit: block and size:N stand alone; several "
                          "regular expressions may be given",
           failure();
  return policy;
}

// Calls back with every module on the way to `path`, outermost first, until
// the callback returns true.
static void forEachModule(StringRef path,
                          llvm::function_ref<bool(StringRef)> callback) {
  for (size_t end = 0; end != StringRef::npos && !path.empty();) {
    end = path.find('.', end + 1);
    if (callback(path.take_front(end)))
      return;
  }
}

static bool endsInNumber(StringRef module) {
  StringRef last = module.substr(module.rfind('.') + 1);
  return !last.empty() && llvm::all_of(last, llvm::isDigit);
}

StringRef UnitPolicy::unitOfPath(StringRef path) const {
  StringRef found;
  forEachModule(path, [&](StringRef module) {
    if (policyKind == Kind::Block && endsInNumber(module)) {
      found = module;
      return true;
    }
    if (llvm::any_of(patterns, [&](const llvm::Regex &pattern) {
          return pattern.match(module);
        }))
      found = module;
    return false;
  });
  return found;
}

std::optional<std::string>
UnitPolicy::unmatched(ArrayRef<StringRef> paths) const {
  for (auto [source, pattern] : llvm::zip_equal(sources, patterns)) {
    bool matched = false;
    for (StringRef path : paths)
      forEachModule(path, [&](StringRef module) {
        return matched |= pattern.match(module);
      });
    if (!matched)
      return source;
  }
  return std::nullopt;
}

StringRef fsdp::modulePathOf(StringRef parameterName) {
  size_t dot = parameterName.rfind('.');
  return dot == StringRef::npos ? StringRef() : parameterName.take_front(dot);
}
