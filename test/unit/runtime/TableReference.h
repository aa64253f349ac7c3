// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the programs of TableProgram.cpp must compute, in one process and
// without a runtime.

#ifndef SHARDONNX_TEST_TABLEREFERENCE_H
#define SHARDONNX_TEST_TABLEREFERENCE_H

#include <cstdint>
#include <string>
#include <vector>

namespace shardonnx::test {

// 2001 of them below 300, always the same.
std::vector<uint16_t> tableTokens();

struct TableStep {
  double loss, gradNorm;
};

// 1210 floats: a, bias and frozen as in table.onnx, then b and c of table.data.
struct TableWeights {
  std::vector<float> a, bias, frozen, b, c;
};
TableWeights drawTable();
// Writes table.onnx and table.data into the folder.
void writeTable(const TableWeights &weights, const std::string &folder);

// AdamW on samples of 8 tokens, `globalBatch` of them a step, in the order of
// the file. `roundParams`: the forward sees parameters rounded to bf16;
// `roundB`: those of unit b. The first `skipped` steps change nothing.
// `clipValue`: the largest element of a gradient.
std::vector<TableStep> trainTable(TableWeights weights,
                                  const std::vector<uint16_t> &tokens,
                                  int64_t globalBatch, int steps, double lr,
                                  bool roundParams, bool roundB = false,
                                  int skipped = 0, double clipValue = 1e30);

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_TABLEREFERENCE_H
