// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choice of a reader, and what all readers share.

#include "DataSource.h"
#include "../support/Error.h"
#include "../support/Half.h"
#include "ArraySource.h"
#include "SeveralFiles.h"
#include "TokenFile.h"
#include "shardonnx/runtime/EndsWith.h"

namespace shardonnx::rt {
namespace {

std::unique_ptr<DataSource>
openFile(const std::string &path, const std::optional<std::string> &tokenType,
         const Manifest &manifest, std::optional<bool> shiftLabels) {
  bool npz = endsWith(path, ".npz");
  if (npz || endsWith(path, ".safetensors")) {
    if (tokenType)
      failUsage("--data-dtype is for .bin files; '", path,
                "' says its own dtypes");
    std::map<std::string, std::string> metadata;
    Arrays arrays = npz ? readNpz(path) : readSafeTensors(path, &metadata);
    return std::make_unique<ArraySource>(
        std::move(arrays), manifest, path, shiftLabels,
        /*unshifted=*/metadata["labels"] == "unshifted");
  }
  if (shiftLabels)
    failUsage(*shiftLabels ? "--shift-labels" : "--no-shift-labels",
              " is for labels in .npz and .safetensors files; those of '", path,
              "' are the next tokens already: leave it out");
  if (!endsWith(path, ".bin"))
    failUsage("the data file '", path,
              "' ends in none of .bin, .npz, .safetensors; tools/prepare-data "
              "makes such files of text");
  return std::make_unique<TokenFile>(path, tokenType, manifest);
}

} // namespace

std::unique_ptr<DataSource>
openData(const std::vector<std::string> &words,
         const std::optional<std::string> &tokenType, const Manifest &manifest,
         std::optional<bool> shiftLabels) {
  std::vector<std::string> paths = expandPatterns(words);
  if (paths.size() == 1)
    return openFile(paths.front(), tokenType, manifest, shiftLabels);
  std::vector<std::unique_ptr<DataSource>> files;
  for (const std::string &path : paths)
    files.push_back(openFile(path, tokenType, manifest, shiftLabels));
  return std::make_unique<SeveralFiles>(std::move(files));
}

void checkSample(DataSource &data, const Manifest &manifest, int64_t sample) {
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    const Manifest::Input &input = manifest.inputs[i];
    if (input.kind == InputKind::Random ||
        (wantsFloat(input) && !hasKnownValue(input)))
      continue;
    std::vector<uint8_t> row(
        static_cast<size_t>(rowElements(input) * dtypeBytes(input.dtype)));
    data.read(sample, i, row.data());
  }
}

std::vector<int64_t> documentBegins(const std::vector<int64_t> &ids,
                                    int64_t count, int64_t separator) {
  std::vector<int64_t> begins(static_cast<size_t>(count), 0);
  for (size_t i = 1; i < begins.size(); ++i)
    begins[i] =
        ids[i - 1] == separator ? static_cast<int64_t>(i) : begins[i - 1];
  return begins;
}

int64_t rowElements(const Manifest::Input &input) {
  int64_t n = 1;
  for (size_t i = 1; i < input.shape.size(); ++i)
    n *= input.shape[i];
  return n;
}

bool wantsFloat(const Manifest::Input &input) {
  return input.dtype == SHX_F32 || input.dtype == SHX_BF16 ||
         input.dtype == SHX_F16;
}

bool hasKnownValue(const Manifest::Input &input) {
  using Kind = Manifest::InputKind;
  return input.kind == Kind::AttentionMask || input.kind == Kind::ReadMask ||
         input.kind == Kind::TokenTypeIds || input.kind == Kind::PositionIds ||
         input.kind == Kind::ReadPositions;
}

int64_t knownValue(const Manifest::Input &input, int64_t at) {
  using Kind = Manifest::InputKind;
  if (input.kind == Kind::TokenTypeIds)
    return 0;
  if (input.kind != Kind::PositionIds && input.kind != Kind::ReadPositions)
    return 1;
  return input.shape.empty() ? 0 : at % input.shape.back();
}

bool holdsInteger(const Manifest::Input &input, int64_t value) {
  if (input.dtype == SHX_I32)
    return value == static_cast<int32_t>(value);
  return input.dtype != SHX_I8 || value == static_cast<int8_t>(value);
}

void storeFloat(const Manifest::Input &input, void *row, int64_t at,
                float value) {
  if (input.dtype == SHX_F32)
    static_cast<float *>(row)[at] = value;
  else if (input.dtype == SHX_BF16)
    static_cast<BFloat16 *>(row)[at] = fromFloat<BFloat16>(value);
  else if (input.dtype == SHX_F16)
    static_cast<Float16 *>(row)[at] = fromFloat<Float16>(value);
  else
    storeInteger(input, row, at, static_cast<int64_t>(value));
}

void storeInteger(const Manifest::Input &input, void *row, int64_t at,
                  int64_t value) {
  switch (input.dtype) {
  case SHX_I64:
    static_cast<int64_t *>(row)[at] = value;
    return;
  case SHX_I32:
    static_cast<int32_t *>(row)[at] = static_cast<int32_t>(value);
    return;
  case SHX_I1:
    static_cast<uint8_t *>(row)[at] = value != 0;
    return;
  case SHX_I8:
    static_cast<int8_t *>(row)[at] = static_cast<int8_t>(value);
    return;
  case SHX_F32:
  case SHX_BF16:
  case SHX_F16:
    storeFloat(input, row, at, static_cast<float>(value));
    return;
  case SHX_F8E4M3:
  case SHX_F8E5M2:
    return; // no graph has such inputs
  }
}

} // namespace shardonnx::rt
