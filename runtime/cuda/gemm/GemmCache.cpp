// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See GemmCache.h.

#include "GemmCache.h"
#include "../../support/Error.h"
#include "../../support/Mapping.h"
#include "shardonnx/runtime/Sha256.h"
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace shardonnx::rt::cuda {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr int64_t kMostBytes = int64_t(8) << 20;
constexpr size_t kMostEntries = 20000, kLongestKey = 400;
constexpr size_t kDigits = 16; // of one word of an algorithm

std::string machineText(const GemmMachine &machine) {
  return concat(machine.gpu, " sm_", machine.major, machine.minor, " cublasLt ",
                machine.library, " driver ", machine.driver);
}

std::string digest(const std::string &text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

std::string toHex(const GemmChoice &choice) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t word : choice.algorithm)
    for (int shift = 60; shift >= 0; shift -= 4)
      text += digits[(word >> shift) & 15];
  return text;
}

std::optional<GemmChoice> fromHex(const std::string &text, bool fused) {
  GemmChoice choice;
  choice.fused = fused;
  if (text.size() != choice.algorithm.size() * kDigits)
    return std::nullopt;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    bool decimal = c >= '0' && c <= '9';
    if (!decimal && (c < 'a' || c > 'f'))
      return std::nullopt;
    uint64_t &word = choice.algorithm[i / kDigits];
    word = word << 4 | uint64_t(decimal ? c - '0' : c - 'a' + 10);
  }
  return choice;
}

// Makes the folder and those above it, for this user alone.
bool makeFolders(const std::string &folder) {
  for (size_t end = folder.find('/', 1);; end = folder.find('/', end + 1)) {
    std::string part = folder.substr(0, end);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST)
      return false;
    if (end == std::string::npos)
      return true;
  }
}

// The file's text; empty if there is none. What is wrong with it is `problem`.
std::string readFile(const std::string &path, std::string &problem) {
  FileDescriptor fd(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!fd) {
    if (errno != ENOENT)
      problem = systemError();
    return {};
  }
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) {
    problem = systemError();
    return {};
  }
  if (!S_ISREG(status.st_mode) || status.st_size > kMostBytes)
    problem = "it is no file that was written here";
  else if (status.st_uid != ::geteuid() || (status.st_mode & 022) != 0)
    problem = "others may write it";
  if (!problem.empty())
    return {};
  std::string text(size_t(status.st_size), '\0');
  size_t at = 0;
  while (at < text.size()) {
    ssize_t got = ::read(fd.get(), text.data() + at, text.size() - at);
    if (got <= 0)
      break;
    at += size_t(got);
  }
  text.resize(at);
  return text;
}

bool writeFile(const std::string &path, const std::string &text) {
  FileDescriptor fd(
      ::open(path.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd)
    return false;
  size_t at = 0;
  while (at < text.size()) {
    ssize_t put = ::write(fd.get(), text.data() + at, text.size() - at);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return false;
    at += size_t(put);
  }
  return true;
}

std::string member(const Json &json, const char *name) {
  auto it = json.find(name);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

} // namespace

GemmCache::GemmCache(const std::string &folder, const GemmMachine &machine)
    : machine(machine), folder(folder) {
  if (folder.empty())
    return;
  file = concat(folder, "/gemm-", digest(machineText(machine)).substr(0, 16),
                ".json");
  entries = read();
}

const GemmChoice *GemmCache::find(const std::string &key) const {
  auto it = entries.find(key);
  return it == entries.end() ? nullptr : &it->second;
}

void GemmCache::add(const std::string &key, const GemmChoice &choice) {
  entries[key] = choice;
  added[key] = choice;
}

void GemmCache::warn(const std::string &message) {
  if (!warned)
    printWarning(message);
  warned = true;
}

// One line an entry, and a digest of them: a file that lost its end, or was
// mended by hand, is not believed.
std::string GemmCache::text(const Entries &entries) const {
  Json list = Json::array();
  for (const auto &[key, choice] : entries)
    list.push_back({key, choice.fused, toHex(choice)});
  Json json = {{"version", kVersion},
               {"machine", machineText(machine)},
               {"digest", digest(list.dump())},
               {"products", std::move(list)}};
  return json.dump(0, ' ', true, Json::error_handler_t::replace) + "\n";
}

GemmCache::Entries GemmCache::read() {
  Entries found;
  std::string problem;
  std::string text = readFile(file, problem);
  if (text.empty() && problem.empty())
    return found;
  auto parse = [&]() -> bool {
    Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("version", Json()) != kVersion)
      return false;
    auto list = json.find("products");
    if (list == json.end() || !list->is_array() ||
        list->size() > kMostEntries ||
        member(json, "machine") != machineText(machine) ||
        member(json, "digest") !=
            digest(list->dump(-1, ' ', false, Json::error_handler_t::replace)))
      return false;
    for (const Json &entry : *list) {
      if (!entry.is_array() || entry.size() != 3 || !entry[0].is_string() ||
          !entry[1].is_boolean() || !entry[2].is_string())
        return false;
      std::string key = entry[0].get<std::string>();
      auto choice = fromHex(entry[2].get<std::string>(), entry[1].get<bool>());
      if (!choice || key.size() > kLongestKey)
        return false;
      found[key] = *choice;
    }
    return true;
  };
  if (problem.empty() && !parse())
    problem = "it is damaged";
  if (problem.empty())
    return found;
  warn(concat("the file of matrix product algorithms '", file,
              "' is not used: ", problem,
              "; algorithms are chosen again and it is written anew"));
  return {};
}

void GemmCache::save() {
  if (file.empty() || added.empty())
    return;
  Entries all = read();
  for (const auto &[key, choice] : added)
    all[key] = choice;
  if (all.size() > kMostEntries)
    all = added;
  static std::atomic<unsigned> writes{0};
  std::string temporary = concat(file, ".", ::getpid(), ".", ++writes);
  if (!makeFolders(folder) || !writeFile(temporary, text(all)) ||
      ::rename(temporary.c_str(), file.c_str()) != 0) {
    std::string why = systemError();
    ::unlink(temporary.c_str());
    warn(concat("cannot keep the choice of matrix product algorithms in '",
                file, "': ", why,
                "; set SHARDONNX_CACHE_DIR to a folder that "
                "can be written"));
    return;
  }
  added.clear();
}

} // namespace shardonnx::rt::cuda
