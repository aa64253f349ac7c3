// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Folder.h.

#include "Folder.h"
#include "../support/Error.h"
#include "Reader.h"
#include "StreamedFile.h"
#include <algorithm>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <unistd.h>

namespace fs = std::filesystem;

namespace shardonnx::rt {
namespace {

constexpr const char *kStep = "step-";
constexpr size_t kDigits = 8;

struct Entry {
  int64_t step;
  std::string name;
  bool partial;
};

std::optional<Entry> parseEntry(const std::string &name) {
  std::string digits = name;
  bool partial = false;
  std::string suffix = kPartial;
  if (digits.size() > suffix.size() &&
      digits.compare(digits.size() - suffix.size(), suffix.size(), suffix) ==
          0) {
    partial = true;
    digits.resize(digits.size() - suffix.size());
  }
  if (digits.compare(0, 5, kStep) != 0)
    return std::nullopt;
  digits.erase(0, 5);
  if (digits.size() < kDigits || digits.size() > 18 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return Entry{std::stoll(digits), name, partial};
}

// The newest first.
std::vector<Entry> entriesOf(const std::string &path) {
  std::vector<Entry> entries;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error))
    if (std::optional<Entry> entry = parseEntry(it->path().filename()))
      entries.push_back(*entry);
  if (error)
    fail("cannot read the folder '", path, "': ", error.message());
  std::sort(entries.begin(), entries.end(),
            [](const Entry &a, const Entry &b) { return a.step > b.step; });
  return entries;
}

bool isWhole(const std::string &path, std::string &why) {
  try {
    CheckpointReader reader(path);
    return true;
  } catch (const Error &e) {
    why = e.what();
    return false;
  }
}

// Only what a checkpoint is made of: a folder, and the files in it.
void removeCheckpoint(const std::string &path) {
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end;
       it.increment(error)) {
    std::string extension = it->path().extension();
    if (it->is_regular_file(error) &&
        (extension == ".safetensors" || extension == ".json"))
      fs::remove(it->path(), error);
  }
  fs::remove(path, error);
  if (error)
    printWarning(concat("cannot remove '", path, "': ", error.message()));
}

} // namespace

std::string stepName(int64_t step) {
  std::string digits = std::to_string(step);
  return kStep + std::string(kDigits - std::min(kDigits, digits.size()), '0') +
         digits;
}

std::optional<std::string> findCheckpoint(const std::string &path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    return std::nullopt;
  if (fs::exists(fs::path(path) / kIndexName, error)) {
    CheckpointReader reader(path); // says what is wrong
    return path;
  }
  bool any = false;
  for (const Entry &entry : entriesOf(path)) {
    std::string folder = (fs::path(path) / entry.name).string(), why;
    any |= !entry.partial;
    if (entry.partial)
      printWarning(concat("'", folder, "' was not finished: it is left out"));
    else if (isWhole(folder, why))
      return folder;
    else
      printWarning(concat(why, " (it is left out)"));
  }
  if (any)
    fail("no checkpoint in '", path, "' is whole; give another folder");
  return std::nullopt;
}

std::string noCheckpointIn(const std::string &path) {
  std::error_code error;
  const char *why = fs::is_directory(path, error) ? ""
                    : fs::exists(path, error)     ? ", which is a file"
                                                  : ", which does not exist";
  return concat("there is no checkpoint in '", path, "'", why);
}

SaveFolder::SaveFolder(const std::string &path, int64_t step)
    : path(path), made(path) {
  lock =
      FileDescriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (made.error() || !lock)
    fail("cannot make the folder '", path,
         "': ", made.error() ? made.error().message() : systemError(),
         "; --save needs a folder that can be written");
  if (::access(path.c_str(), W_OK | X_OK) != 0)
    fail("cannot write to the folder '", path, "': ", systemError(),
         "; --save needs a folder that can be written");
  if (!lockWhole(lock.get()))
    fail("another run saves to '", path, "'; give another --save");
  for (const Entry &entry : entriesOf(path)) {
    std::string folder = (fs::path(path) / entry.name).string();
    if (entry.partial) {
      printWarning(concat("'", folder, "' was not finished: it is removed"));
      removeCheckpoint(folder);
    } else if (entry.step > step) {
      fail("'", folder, "' is of a later step than ", step,
           ", where this run begins: --resume it, remove it, or give another "
           "--save");
    }
  }
}

void SaveFolder::publish(int64_t step, int64_t keep, bool best) {
  std::string to = (fs::path(path) / stepName(step)).string();
  std::string from = to + kPartial;
  syncFolder(from);
  if (std::rename(from.c_str(), to.c_str()) != 0)
    fail("cannot rename '", from, "' to '", to, "': ", systemError());
  if (best)
    linkBest(step);
  syncFolder(path);
  prune(step, keep);
}

void SaveFolder::discard(int64_t step) {
  std::string partial = (fs::path(path) / stepName(step)).string() + kPartial;
  std::error_code none;
  if (fs::exists(partial, none))
    removeCheckpoint(partial);
}

// The link is there at any time, to the old one or to the new one.
void SaveFolder::linkBest(int64_t step) {
  std::string name = (fs::path(path) / kBestName).string();
  std::string draft = name + kPartial;
  std::error_code ignored;
  fs::remove(draft, ignored);
  if (::symlink(stepName(step).c_str(), draft.c_str()) != 0 ||
      std::rename(draft.c_str(), name.c_str()) != 0)
    fail("cannot link '", name, "': ", systemError());
}

// A folder that is not whole is never counted, and left for people to see.
void SaveFolder::prune(int64_t step, int64_t keep) {
  int64_t kept = 0;
  std::error_code none;
  std::string best = fs::read_symlink(fs::path(path) / kBestName, none);
  for (const Entry &entry : entriesOf(path)) {
    if (keep == 0 || entry.partial || entry.step > step)
      continue;
    std::string folder = (fs::path(path) / entry.name).string(), why;
    if (kept < keep) {
      kept += entry.step == step || isWhole(folder, why);
      continue;
    }
    if (entry.name == best || !isWhole(folder, why))
      continue;
    // A run that is killed here leaves what its name calls unfinished.
    std::string doomed = folder + kPartial;
    if (std::rename(folder.c_str(), doomed.c_str()) == 0)
      removeCheckpoint(doomed);
  }
}

} // namespace shardonnx::rt
