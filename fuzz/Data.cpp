// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A data file of any content, read as every kind of graph input that a program
// may have. It ends with samples or with an Error; SHARDONNX_FUZZ_FILE is the
// name that decides on the reader.

#include "../runtime/data/DataSource.h"
#include "../runtime/support/Error.h"
#include "Scratch.h"

using namespace shardonnx;
using Kind = Manifest::InputKind;

namespace {

constexpr int64_t kSequence = 4, kVocabulary = 100;

Manifest tokenModel() {
  Manifest m;
  m.batch = 2;
  m.seq = kSequence;
  std::vector<int64_t> shape = {2, kSequence};
  m.inputs = {{"input_ids", Kind::Tokens, SHX_I64, shape, kVocabulary},
              {"labels", Kind::Labels, SHX_I64, shape, kVocabulary},
              {"position_ids", Kind::PositionIds, SHX_I32, shape, 0},
              {"attention_mask", Kind::AttentionMask, SHX_I1, shape, 0}};
  m.loss.input = "labels";
  return m;
}

// The same with packed documents, whose labels the graph shifts.
Manifest documentModel() {
  Manifest m = tokenModel();
  m.documentSeparator = 0;
  m.inputs[1].kind = Kind::ShiftedLabels;
  m.loss.shift = 1;
  m.inputs.push_back(
      {"first_keys", Kind::FirstKeys, SHX_I32, {2, kSequence}, 0});
  return m;
}

Manifest imageModel() {
  Manifest m;
  m.batch = 2;
  m.inputs = {{"pixels", Kind::Data, SHX_F32, {2, 2, 3}, 0},
              {"classes", Kind::Labels, SHX_I32, {2}, 10}};
  m.loss.input = "classes";
  return m;
}

void readAll(const std::string &path, const Manifest &manifest,
             const std::optional<std::string> &tokenType) {
  constexpr int64_t kSamples = 8; // of each end
  try {
    std::unique_ptr<rt::DataSource> data =
        rt::openData({path}, tokenType, manifest);
    std::vector<int64_t> row(64);
    int64_t samples = data->samples();
    for (int64_t i = 0; i < samples; ++i) {
      if (i == kSamples && samples > 2 * kSamples)
        i = samples - kSamples;
      for (size_t input = 0; input < manifest.inputs.size(); ++input)
        data->read(i, input, row.data());
      data->countLabels(i);
    }
    data->unusedArrays();
    data->memoryBytes();
  } catch (const rt::Error &) {
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static fuzz::Scratch scratch;
  static const Manifest models[] = {tokenModel(), documentModel(),
                                    imageModel()};
  std::string path = scratch.write(SHARDONNX_FUZZ_FILE, bytes, size);
  for (const Manifest &manifest : models)
    readAll(path, manifest, std::nullopt);
  if (path.find(".bin") != std::string::npos)
    readAll(path, models[0], "u32");
  return 0;
}
