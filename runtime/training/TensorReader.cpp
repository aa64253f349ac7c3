// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TensorReader.h.

#include "TensorReader.h"
#include "../support/Error.h"
#include "../support/Half.h"
#include <algorithm>
#include <cstring>
#include <map>

namespace shardonnx::rt {
namespace {

constexpr int64_t kChunk = 1 << 18; // elements read at a time

struct SourceType {
  int64_t bytes;
  void (*widen)(float *out, const uint8_t *in, int64_t count);
};

template <typename T> void widen(float *out, const uint8_t *in, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, in + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, double>)
      out[i] = static_cast<float>(value);
    else
      out[i] = toFloat(value);
  }
}

const SourceType &sourceType(const std::string &dtype,
                             const std::string &parameter) {
  static const std::map<std::string, SourceType> types = {
      {"f32", {4, widen<float>}},
      {"f64", {8, widen<double>}},
      {"bf16", {2, widen<BFloat16>}},
      {"f16", {2, widen<Float16>}}};
  auto found = types.find(dtype);
  if (found == types.end())
    fail("parameter '", parameter, "' is stored as ", dtype,
         ", which cannot be trained: give weights of f32, f64, bf16 or f16; "
         "what --base-dtype keeps in few bits is quantised as it is read");
  return found->second;
}

} // namespace

int64_t TensorReader::elementBytes(const std::string &dtype,
                                   const std::string &parameter) {
  return sourceType(dtype, parameter).bytes;
}

void TensorReader::read(const OwnedRange &range, const Stored &stored) {
  if (stored.transposed)
    return readTransposed(range, stored);
  read(range, std::vector<Stored>{stored});
}

void TensorReader::read(const OwnedRange &range,
                        const std::vector<Stored> &parts) {
  int64_t each =
      range.param->wholeElements() / static_cast<int64_t>(parts.size());
  auto read = [&](int64_t to, int64_t from, int64_t count) {
    for (int64_t at = 0, n = 0; at < count; at += n) {
      int64_t part = (from + at) / each, inside = (from + at) % each;
      n = std::min({kChunk, count - at, each - inside});
      readRun(parts[static_cast<size_t>(part)], inside, n);
      range.write(to + at, values.data(), n);
    }
  };
  range.part().forRuns(range.begin, range.end, read);
}

// `count` elements of the file's tensor from `at` on, into `values`.
void TensorReader::readRun(const Stored &stored, int64_t at, int64_t count) {
  const SourceType &type = sourceType(stored.dtype, "");
  raw.resize(static_cast<size_t>(count * type.bytes));
  values.resize(static_cast<size_t>(count));
  stored.file->read(raw.data(), stored.offset + at * type.bytes,
                    count * type.bytes);
  type.widen(values.data(), raw.data(), count);
  if (stored.addend != 0)
    for (float &value : values)
      value += stored.addend;
}

// A panel of rows at a time, one run of the file for each of its columns.
void TensorReader::readTransposed(const OwnedRange &range,
                                  const Stored &stored) {
  int64_t columns = range.param->shape[1];
  int64_t fileRows = range.param->wholeShape()[0];
  int64_t panelRows = std::max<int64_t>(1, 4 * kChunk / columns);
  ParamPart part = range.part();
  std::vector<float> panel;
  for (int64_t row = range.begin / columns, n = 0; row * columns < range.end;
       row += n) {
    SplitPart::Run rows = part.runOf(0, row);
    n = std::min(panelRows, rows.count);
    if (rows.whole < 0)
      continue;
    panel.resize(static_cast<size_t>(n * columns));
    for (int64_t column = 0; column < columns; ++column) {
      int64_t whole = part.runOf(1, column).whole;
      if (whole >= 0)
        readRun(stored, whole * fileRows + rows.whole, n);
      else
        values.assign(static_cast<size_t>(n), 0);
      for (int64_t i = 0; i < n; ++i)
        panel[static_cast<size_t>(i * columns + column)] =
            values[static_cast<size_t>(i)];
    }
    int64_t begin = std::max(range.begin, row * columns);
    int64_t end = std::min(range.end, (row + n) * columns);
    range.write(begin, panel.data() + begin - row * columns, end - begin);
  }
}

} // namespace shardonnx::rt
