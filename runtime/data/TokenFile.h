// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file of token ids, raw or with llm.c's header. Sample i is the tokens
// [i·S, i·S+S], S+1 of them: inputs the first S, labels the last S.

#ifndef SHARDONNX_RUNTIME_TOKENFILE_H
#define SHARDONNX_RUNTIME_TOKENFILE_H

#include "../support/File.h"
#include "DataSource.h"
#include <vector>

namespace shardonnx::rt {

class TokenFile : public DataSource {
public:
  TokenFile(const std::string &path,
            const std::optional<std::string> &tokenType,
            const Manifest &manifest);
  int64_t samples() const override { return (tokens - 1) / length; }
  void read(int64_t sample, size_t input, void *row) override;
  int64_t countLabels(int64_t sample) override;
  int64_t checkedBytes(int64_t) const override { return length * tokenBytes; }

private:
  void readHeader(const std::optional<std::string> &tokenType);
  void checkInputs();
  void checkTokenType(const std::optional<std::string> &tokenType);
  void load(int64_t sample);
  bool crossesDocument(int64_t position, bool shifted) const;
  void checkLimit(const Manifest::Input &input, int64_t sample, int64_t first);

  const Manifest &manifest;
  File file;
  int64_t begin = 0; // byte of the first token
  int64_t tokenBytes = 2;
  int64_t tokens = 0;              // in the file
  int64_t length = 0;              // S
  int64_t loaded = -1;             // the sample in `ids`
  int64_t ignored = kIgnoredLabel; // of the labels of the loss
  std::vector<uint8_t> raw;
  std::vector<int64_t> ids;    // S+1
  std::vector<int64_t> begins; // of their documents, where samples are packed
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_TOKENFILE_H
