// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Library.h.

#include "Library.h"
#include "../../support/Error.h"
#include <cstdlib>
#include <dlfcn.h>

namespace shardonnx::rt::cuda {
namespace {

constexpr const char *kToolkit = "/usr/local/cuda";

// The loader tells why in words of its own; a file that is there but cannot be
// loaded is worth more than one that is not.
bool isThere(const std::string &message) {
  return message.find("No such file") == std::string::npos;
}

std::string list(const std::vector<std::string> &places) {
  std::string text;
  for (const std::string &place : places) {
    if (!text.empty())
      text += ", ";
    text += place.find('/') == std::string::npos ? "the loader's path" : place;
  }
  return text;
}

} // namespace

std::vector<std::string> Library::candidates(const std::string &soname) {
  std::vector<std::string> places = {soname};
  const char *home = std::getenv("CUDA_HOME");
  if (home && *home && std::string(home) != kToolkit)
    places.push_back(concat(home, "/lib64/", soname));
  places.push_back(concat(kToolkit, "/lib64/", soname));
  return places;
}

Library Library::ofToolkit(const std::string &soname,
                           const std::string &title) {
  return Library(candidates(soname), title,
                 "install it, or set LD_LIBRARY_PATH or CUDA_HOME to where "
                 "it is");
}

Library::Library(const std::vector<std::string> &candidates,
                 const std::string &title, const std::string &remedy)
    : title(title) {
  std::string why;
  for (const std::string &candidate : candidates) {
    handle = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle) {
      name = candidate;
      return;
    }
    const char *message = ::dlerror();
    if (message && isThere(message) && why.empty())
      why = concat(" (", message, ")");
  }
  std::string soname = candidates.empty() ? title : candidates.front();
  fail(title, " (", soname, ") cannot be loaded from ", list(candidates), why,
       ": ", remedy);
}

void *Library::find(const char *symbol) const {
  return ::dlsym(handle, symbol);
}

void *Library::require(const char *symbol) const {
  if (void *address = find(symbol))
    return address;
  fail(title, " ('", name, "') has no ", symbol,
       ": it is too old for this program; install a newer one");
}

} // namespace shardonnx::rt::cuda
