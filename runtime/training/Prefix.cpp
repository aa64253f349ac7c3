// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Prefix.h.

#include "Prefix.h"
#include "../support/Error.h"
#include <algorithm>
#include <cstdint>
#include <set>

namespace shardonnx::rt {
namespace {

// What torch.compile, FSDP1 and its activation checkpointing put into names.
constexpr const char *kWrappers[] = {"_orig_mod.", "_fsdp_wrapped_module.",
                                     "_checkpoint_wrapped_module."};

// What `longer` has before `shorter`, up to a dot; empty where it does not end
// with it.
std::string difference(const std::string &longer, const std::string &shorter) {
  if (longer.size() < shorter.size() + 2)
    return {};
  size_t length = longer.size() - shorter.size();
  bool ends = longer.compare(length, shorter.size(), shorter) == 0 &&
              longer[length - 1] == '.';
  return ends ? longer.substr(0, length) : std::string();
}

// Whether the file has a parameter, under one of its names.
auto isThere(const Prefix &prefix,
             const std::map<std::string, std::string> &file) {
  return [&](const std::vector<std::string> &names) {
    return std::any_of(names.begin(), names.end(), [&](auto &name) {
      return file.count(withPrefix(prefix, name)) != 0;
    });
  };
}

bool fits(const Prefix &prefix,
          const std::vector<std::vector<std::string>> &parameters,
          const std::map<std::string, std::string> &file) {
  return std::all_of(parameters.begin(), parameters.end(),
                     isThere(prefix, file));
}

// Those under which the file has one parameter.
std::vector<Prefix> prefixesOf(const std::vector<std::string> &names,
                               const std::map<std::string, std::string> &file) {
  std::set<std::string> added, removed;
  for (const std::string &name : names)
    for (const auto &[stored, value] : file) {
      added.insert(difference(stored, name));
      removed.insert(difference(name, stored));
    }
  std::vector<Prefix> found;
  for (const std::string &text : added)
    if (!text.empty())
      found.push_back({text, ""});
  for (const std::string &text : removed)
    if (!text.empty())
      found.push_back({"", text});
  return found;
}

} // namespace

std::string withPrefix(const Prefix &prefix, const std::string &name) {
  if (prefix.removed.empty())
    return prefix.added + name;
  bool has = name.compare(0, prefix.removed.size(), prefix.removed) == 0;
  return has ? name.substr(prefix.removed.size()) : name; // as a head's
}

std::string describe(const Prefix &prefix) {
  if (prefix.empty())
    return "as they are";
  return prefix.added.empty() ? concat("without '", prefix.removed, "'")
                              : concat("with the prefix '", prefix.added, "'");
}

std::string withoutWrappers(std::string name) {
  for (const std::string wrapper : kWrappers)
    for (size_t at; (at = name.find(wrapper)) != std::string::npos;)
      name.erase(at, wrapper.size());
  return name;
}

std::vector<Prefix>
findPrefixes(const std::vector<std::vector<std::string>> &parameters,
             const std::map<std::string, std::string> &file) {
  if (parameters.empty() || fits({}, parameters, file))
    return {{}};
  // Every parameter is there, so one that has another name shows all that may
  // be.
  auto other =
      std::find_if_not(parameters.begin(), parameters.end(), isThere({}, file));
  std::vector<Prefix> found;
  for (const Prefix &prefix : prefixesOf(*other, file))
    if (fits(prefix, parameters, file))
      found.push_back(prefix);
  return found;
}

Prefix likeliestPrefix(const std::vector<std::vector<std::string>> &parameters,
                       const std::map<std::string, std::string> &file) {
  auto countOf = [&](const Prefix &prefix) {
    return std::count_if(parameters.begin(), parameters.end(),
                         isThere(prefix, file));
  };
  auto isLikely = [&](const Prefix &prefix) {
    return 2 * countOf(prefix) > static_cast<int64_t>(parameters.size());
  };
  if (isLikely({}))
    return {};
  // Each is looked for in the whole file: of more than half, some of the first
  // parameters have it.
  constexpr size_t kTried = 32;
  for (size_t i = 0; i < std::min(kTried, parameters.size()); ++i)
    for (const Prefix &prefix : prefixesOf(parameters[i], file))
      if (isLikely(prefix))
        return prefix;
  return {};
}

} // namespace shardonnx::rt
