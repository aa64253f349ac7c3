// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a run wrote by --log.

#ifndef SHARDONNX_TEST_RUNLOG_H
#define SHARDONNX_TEST_RUNLOG_H

#include "TestFiles.h"
#include <nlohmann/json.hpp>

namespace shardonnx::test {

using Json = nlohmann::json;

inline std::vector<Json> readLog(const std::string &path) {
  std::vector<Json> lines;
  std::string text = readFile(path);
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos;
       begin = end + 1)
    lines.push_back(Json::parse(text.substr(begin, end - begin)));
  return lines;
}

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_RUNLOG_H
