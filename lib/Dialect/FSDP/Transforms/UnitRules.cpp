// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What --unit and a configuration's `units` say about module paths.

#include "UnitRules.h"
#include "shardonnx/Support/NamePattern.h"
#include "shardonnx/runtime/WholeNumber.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::fsdp;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

bool UnitRule::matches(StringRef module) const {
  return llvm::any_of(patterns, [&](const llvm::Regex &pattern) {
    return pattern.match(module);
  });
}

// Reads one word into `rule`: block, size:N, root or a regular expression.
static LogicalResult readWord(StringRef word, UnitRule &rule,
                              EmitError emitError) {
  StringRef number = word;
  if (word == "block") {
    rule.kind = UnitRule::Kind::Block;
  } else if (word == "root") {
    rule.kind = UnitRule::Kind::Root;
  } else if (number.consume_front("size:")) {
    rule.kind = UnitRule::Kind::Size;
    std::optional<int64_t> size = parseWhole(number.str(), 1, INT64_MAX);
    if (!size)
      return emitError() << rule.origin
                         << ": size: wants a positive number of elements";
    rule.size = *size;
  } else {
    rule.kind = UnitRule::Kind::Module;
    rule.patterns.push_back(wholeName(word));
    std::string reason;
    if (!rule.patterns.back().isValid(reason))
      return emitError() << rule.origin << ": '" << word
                         << "' is not a regular expression: " << reason;
  }
  rule.sources.push_back(word.str());
  return success();
}

static LogicalResult readPolicy(DictionaryAttr policy, UnitRule &rule,
                                EmitError emitError) {
  auto modules = policy.getAs<ArrayAttr>("modules");
  if (!modules || modules.empty())
    return emitError() << rule.origin << " has no modules";
  for (Attribute module : modules) {
    auto word = dyn_cast<StringAttr>(module);
    if (!word)
      return emitError() << rule.origin << " has a module that is no string";
    if (failed(readWord(word, rule, emitError)))
      return failure();
    if (rule.kind != UnitRule::Kind::Module && modules.size() > 1)
      return emitError() << rule.origin << ": '" << word.getValue()
                         << "' stands alone, not in a list of modules";
  }
  rule.together = policy.contains("together");
  SmallVector<NamedAttribute> settings;
  for (NamedAttribute setting : policy)
    if (setting.getName() != "modules" && setting.getName() != "together")
      settings.push_back(setting);
  if (!settings.empty())
    rule.settings = DictionaryAttr::get(policy.getContext(), settings);
  return success();
}

FailureOr<UnitRules> UnitRules::parse(ArrayRef<std::string> words,
                                      ArrayAttr policies, EmitError emitError) {
  UnitRules result;
  ArrayRef<Attribute> entries;
  if (policies)
    entries = policies.getValue();
  for (Attribute policy : entries) {
    UnitRule rule;
    rule.origin = "units[" + std::to_string(result.rules.size()) + "]";
    auto dictionary = dyn_cast<DictionaryAttr>(policy);
    if (!dictionary)
      return emitError() << rule.origin << " is no dictionary", failure();
    if (failed(readPolicy(dictionary, rule, emitError)))
      return failure();
    result.rules.push_back(std::move(rule));
  }
  for (StringRef word : words) {
    UnitRule rule;
    rule.origin = ("--unit=" + word).str();
    if (failed(readWord(word, rule, emitError)))
      return failure();
    if (rule.kind == UnitRule::Kind::Root)
      return emitError() << rule.origin
                         << ": root is what is left; only a configuration's "
                            "'units' may name it, to give it a policy",
             failure();
    result.rules.push_back(std::move(rule));
  }
  bool any = llvm::any_of(result.rules, [](const UnitRule &rule) {
    return rule.kind != UnitRule::Kind::Root;
  });
  if (!any)
    result.rules.emplace_back();
  for (UnitRule::Kind kind : {UnitRule::Kind::Size, UnitRule::Kind::Root})
    if (llvm::count_if(result.rules, [&](const UnitRule &rule) {
          return rule.kind == kind;
        }) > 1)
      return emitError() << (kind == UnitRule::Kind::Size
                                 ? "--unit, units: size:N may be given once"
                                 : "units: root may be named once"),
             failure();
  return result;
}

static bool endsInNumber(StringRef module) {
  StringRef last = module.substr(module.rfind('.') + 1);
  return !last.empty() && llvm::all_of(last, llvm::isDigit);
}

/// Calls back with every module on the way to `path`, outermost first, and
/// whether it is a block.
static void forEachModule(StringRef path,
                          llvm::function_ref<void(StringRef, bool)> callback) {
  bool insideBlock = false;
  for (size_t end = 0; end != StringRef::npos && !path.empty();) {
    end = path.find('.', end + 1);
    StringRef module = path.take_front(end);
    bool isBlock = !insideBlock && endsInNumber(module);
    callback(module, isBlock);
    insideBlock |= isBlock;
  }
}

const UnitRule *UnitRules::ownerOf(StringRef module, bool isBlock) const {
  const auto *rule = llvm::find_if(rules, [&](const UnitRule &rule) {
    return (isBlock && rule.kind == UnitRule::Kind::Block) ||
           rule.matches(module);
  });
  return rule == rules.end() ? nullptr : rule;
}

// A module that an earlier rule has is that one's, and so would be all of this
// rule's under its name.
static void claim(UnitRule &rule, StringRef module, const UnitRule *owner,
                  bool &owns) {
  if (owner != &rule) {
    rule.earlier = owner->origin;
    return;
  }
  owns = true;
  if (rule.together && rule.name.empty())
    rule.name = module.str();
}

static InFlightDiagnostic
refuse(const UnitRule &rule, const std::string &source, EmitError emitError) {
  return emitError() << rule.origin
                     << (StringRef(rule.origin).starts_with("--")
                             ? std::string()
                             : ": '" + source + "'")
                     << " matches no module; a regular expression must match a "
                        "module's whole path ('shardonnx inspect' lists the "
                        "parameters)";
}

LogicalResult UnitRules::resolve(ArrayRef<StringRef> paths,
                                 EmitError emitError) {
  llvm::MapVector<StringRef, bool> modules; // whether it is a block
  for (StringRef path : paths)
    forEachModule(path, [&](StringRef module, bool isBlock) {
      modules.insert({module, isBlock});
    });
  for (UnitRule &rule : rules) {
    bool owns = false;
    for (auto [index, pattern] : llvm::enumerate(rule.patterns)) {
      bool matches = false;
      for (auto [module, isBlock] : modules) {
        if (!pattern.match(module))
          continue;
        matches = true;
        claim(rule, module, ownerOf(module, isBlock), owns);
      }
      if (!matches)
        return refuse(rule, rule.sources[index], emitError);
    }
    for (auto [module, isBlock] : modules)
      if (isBlock && rule.kind == UnitRule::Kind::Block)
        claim(rule, module, ownerOf(module, isBlock), owns);
    if (owns)
      rule.earlier.clear();
  }
  return success();
}

std::pair<StringRef, const UnitRule *>
UnitRules::unitOfPath(StringRef path) const {
  std::pair<StringRef, const UnitRule *> found = {};
  forEachModule(path, [&](StringRef module, bool isBlock) {
    if (const UnitRule *rule = ownerOf(module, isBlock))
      found = {rule->together ? StringRef(rule->name) : module, rule};
  });
  return found;
}

const UnitRule *UnitRules::find(UnitRule::Kind kind) const {
  const auto *rule = llvm::find_if(
      rules, [&](const UnitRule &rule) { return rule.kind == kind; });
  return rule == rules.end() ? nullptr : rule;
}

StringRef fsdp::modulePathOf(StringRef parameterName) {
  size_t dot = parameterName.rfind('.');
  return dot == StringRef::npos ? StringRef() : parameterName.take_front(dot);
}
