// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tests that run the programs of TableProgram.cpp in a folder of their own.

#ifndef SHARDONNX_TEST_TABLERUNS_H
#define SHARDONNX_TEST_TABLERUNS_H

#include "OneError.h"
#include "RunLog.h"
#include "TableReference.h"
#include <algorithm>
#include <gtest/gtest.h>

namespace shardonnx::test {

class Runs : public testing::Test {
protected:
  Runs() : weights(drawTable()) {
    writeTable(weights, folder.path);
    folder.write("t.bin", bytesOf(tableTokens()));
  }
  std::vector<std::string> command(const std::string &program,
                                   std::vector<std::string> more) {
    std::vector<std::string> words = {
        std::string(SHX_TEST_PROGRAMS) + "/" + program, "--data",
        folder / "t.bin", "--model", folder / "table.onnx"};
    if (std::find(more.begin(), more.end(), "--lr") == more.end())
      words.insert(words.end(), {"--lr", "0.01"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Finished run(const std::string &program, std::vector<std::string> more,
               Environment environment = {}) {
    return Process(command(program, std::move(more)), folder,
                   std::move(environment))
        .wait();
  }
  // Three runs of 30 steps have the same losses and norms to the last bit.
  void expectSameBits(const std::string &program,
                      std::vector<std::string> more) {
    more.insert(more.end(), {"--steps", "30", "--log", folder / "log.jsonl"});
    std::vector<Json> first;
    for (int turn = 0; turn < 3; ++turn) {
      Finished f = run(program, more);
      ASSERT_EQ(f.code, 0) << f.err;
      std::vector<Json> log = readLog(folder / "log.jsonl");
      ASSERT_EQ(log.size(), 30u);
      if (turn == 0)
        first = log;
      for (size_t s = 0; s < 30; ++s) {
        EXPECT_EQ(log[s]["loss"], first[s]["loss"]);
        EXPECT_EQ(log[s]["grad_norm"], first[s]["grad_norm"]);
      }
    }
  }
  // A run of 20 steps of 24 samples, batch 2 × ranks × accumulation each, with
  // the reference's losses and norms.
  void expectReference(const std::string &program, int ranks,
                       const std::vector<TableStep> &reference,
                       std::vector<std::string> more) {
    more.insert(more.end(),
                {"--steps", std::to_string(reference.size()), "--nproc",
                 std::to_string(ranks), "--accumulate",
                 std::to_string(12 / ranks), "--log", folder / "log.jsonl"});
    Finished f = run(program, more);
    ASSERT_EQ(f.code, 0) << f.err;
    std::vector<Json> log = readLog(folder / "log.jsonl");
    ASSERT_EQ(log.size(), reference.size());
    for (size_t s = 0; s < log.size(); ++s) {
      double loss = log[s]["loss"], norm = log[s]["grad_norm"];
      EXPECT_EQ(log[s]["step"], s + 1);
      EXPECT_NEAR(loss / reference[s].loss, 1, 1e-4)
          << program << " on " << ranks << " ranks, step " << s + 1;
      EXPECT_NEAR(norm / reference[s].gradNorm, 1, 1e-3)
          << program << " on " << ranks << " ranks, step " << s + 1;
    }
  }
  Folder folder;
  TableWeights weights;
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_TABLERUNS_H
