// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See SeveralFiles.h.

#include "SeveralFiles.h"
#include "../support/Error.h"
#include <algorithm>
#include <glob.h>
#include <unistd.h>

namespace shardonnx::rt {

SeveralFiles::SeveralFiles(std::vector<std::unique_ptr<DataSource>> sources)
    : files(std::move(sources)) {
  int64_t end = 0;
  for (const std::unique_ptr<DataSource> &file : files)
    ends.push_back(end += file->samples());
}

SeveralFiles::Place SeveralFiles::find(int64_t sample) const {
  auto end = std::upper_bound(ends.begin(), ends.end(), sample);
  int64_t before = end == ends.begin() ? 0 : *(end - 1);
  return {*files[static_cast<size_t>(end - ends.begin())], sample - before};
}

void SeveralFiles::read(int64_t sample, size_t input, void *row) {
  Place place = find(sample);
  place.file.read(place.sample, input, row);
}

int64_t SeveralFiles::countLabels(int64_t sample) {
  Place place = find(sample);
  return place.file.countLabels(place.sample);
}

int64_t SeveralFiles::checkedBytes(int64_t sample) const {
  Place place = find(sample);
  return place.file.checkedBytes(place.sample);
}

std::vector<std::string> SeveralFiles::unusedArrays() const {
  std::vector<std::string> names;
  for (const std::unique_ptr<DataSource> &file : files)
    for (const std::string &name : file->unusedArrays())
      if (std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

int64_t SeveralFiles::memoryBytes() const {
  int64_t bytes = 0;
  for (const std::unique_ptr<DataSource> &file : files)
    bytes += file->memoryBytes();
  return bytes;
}

std::vector<std::string> expandPatterns(const std::vector<std::string> &words) {
  std::vector<std::string> paths;
  for (const std::string &word : words) {
    if (word.find_first_of("*?[") == word.npos ||
        ::access(word.c_str(), F_OK) == 0) {
      paths.push_back(word);
      continue;
    }
    glob_t found = {};
    int status = ::glob(word.c_str(), GLOB_ERR, nullptr, &found);
    paths.insert(paths.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
    if (status == GLOB_NOMATCH)
      fail("no file matches '", word, "': check the folder and the pattern");
    if (status != 0)
      fail("the folder of '", word, "' cannot be read: ", systemError());
  }
  return paths;
}

} // namespace shardonnx::rt
