// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See TableReference.h.

#include "TableReference.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

namespace shardonnx::test {
namespace {

constexpr int64_t kVocab = 300, kSeq = 8;

float roundToBF16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits = (bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000;
  std::memcpy(&x, &bits, 4);
  return x;
}

std::vector<float> draw(size_t count, uint64_t seed) {
  std::vector<float> values(count);
  for (float &value : values) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(seed >> 40) / float(1 << 24) - 0.5f;
  }
  return values;
}

struct Moments {
  std::vector<double> m, v;
};

void adamw(std::vector<float> &param, const std::vector<double> &grad,
           Moments &state, double factor, double limit, double lr, int step) {
  state.m.resize(param.size());
  state.v.resize(param.size());
  for (size_t i = 0; i < param.size(); ++i) {
    double g = std::clamp(grad[i] * factor, -limit, limit);
    double p = param[i] * (1 - lr * 0.1);
    state.m[i] = 0.9 * state.m[i] + 0.1 * g;
    state.v[i] = 0.95 * state.v[i] + 0.05 * g * g;
    double m = state.m[i] / (1 - std::pow(0.9, step));
    double v = state.v[i] / (1 - std::pow(0.95, step));
    param[i] = static_cast<float>(p - lr * m / (std::sqrt(v) + 1e-8));
  }
}

void append(std::ofstream &file, const std::vector<float> &values) {
  file.write(reinterpret_cast<const char *>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
}

} // namespace

std::vector<uint16_t> tableTokens() {
  std::vector<uint16_t> tokens(2001);
  uint32_t x = 12345;
  for (uint16_t &token : tokens) {
    x = x * 1664525 + 1013904223;
    token = static_cast<uint16_t>((x >> 8) % 300);
  }
  return tokens;
}

TableWeights drawTable() {
  return {draw(300, 1), draw(7, 2), draw(3, 3), draw(300, 4), draw(300, 5)};
}

void writeTable(const TableWeights &w, const std::string &folder) {
  std::ofstream model(folder + "/table.onnx", std::ios::binary);
  append(model, w.a);
  append(model, w.bias);
  append(model, w.frozen);
  std::ofstream data(folder + "/table.data", std::ios::binary);
  append(data, w.b);
  append(data, w.c);
}

std::vector<TableStep> trainTable(TableWeights w,
                                  const std::vector<uint16_t> &tokens,
                                  int64_t globalBatch, int steps, double lr,
                                  bool roundParams, bool roundB, int skipped,
                                  double clipValue) {
  auto samples = static_cast<int64_t>(tokens.size() - 1) / kSeq;
  auto seen = [&](float x) { return roundParams ? roundToBF16(x) : x; };
  auto seenOfB = [&](float x) {
    return roundParams || roundB ? roundToBF16(x) : x;
  };
  Moments moments[4];
  std::vector<TableStep> result;
  for (int step = 1; step <= steps; ++step) {
    std::vector<double> da(kVocab), dbias(7), db(kVocab), dc(kVocab);
    double loss = 0, count = double(globalBatch * kSeq);
    for (int64_t i = 0; i < globalBatch * kSeq; ++i) {
      int64_t sample = ((step - 1) * globalBatch + i / kSeq) % samples;
      auto at = static_cast<size_t>(sample * kSeq + i % kSeq);
      size_t x = tokens[at];
      double b = seenOfB(w.b[x]), c = seen(w.c[x]);
      double error = seen(w.a[x]) + seen(w.bias[x % 7]) +
                     seenOfB(w.frozen[x % 3]) + b * c -
                     tokens[at + 1] / double(kVocab);
      loss += 0.5 * error * error / count;
      da[x] += error / count;
      dbias[x % 7] += error / count;
      db[x] += error * c / count;
      dc[x] += error * b / count;
    }
    double squares = 0;
    for (auto *grad : {&da, &dbias, &db, &dc})
      for (double g : *grad)
        squares += g * g;
    double norm = std::sqrt(squares);
    result.push_back({loss, norm});
    if (step <= skipped)
      continue;
    double factor = std::min(1.0, 1.0 / (norm + 1e-6));
    adamw(w.a, da, moments[0], factor, clipValue, lr, step - skipped);
    adamw(w.bias, dbias, moments[1], factor, clipValue, lr, step - skipped);
    adamw(w.b, db, moments[2], factor, clipValue, lr, step - skipped);
    adamw(w.c, dc, moments[3], factor, clipValue, lr, step - skipped);
  }
  return result;
}

} // namespace shardonnx::test
