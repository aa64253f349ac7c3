// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A linear cross-entropy with its result in double: what the tests of every
// device's loss compare with.

#ifndef SHARDONNX_TEST_UNIT_LOSS_PROBLEM_H
#define SHARDONNX_TEST_UNIT_LOSS_PROBLEM_H

#include "cpu_kernels_util.h"

namespace shardonnx::test {

// -log softmax(cap(logits))[label] and its derivative, over one row.
inline double rowLoss(std::vector<double> &logits, int64_t label,
                      double softcap) {
  std::vector<double> slope(logits.size(), 1);
  for (size_t i = 0; softcap > 0 && i < logits.size(); ++i) {
    double t = std::tanh(logits[i] / softcap);
    slope[i] = 1 - t * t;
    logits[i] = softcap * t;
  }
  double peak = *std::max_element(logits.begin(), logits.end()), sum = 0;
  for (double x : logits)
    sum += std::exp(x - peak);
  double loss = peak + std::log(sum) - logits[size_t(label)];
  for (size_t i = 0; i < logits.size(); ++i)
    logits[i] =
        (std::exp(logits[i] - peak) / sum - (int64_t(i) == label)) * slope[i];
  return loss;
}

struct LossProblem {
  explicit LossProblem(const ShxLinearCrossEntropy &d)
      : d(d), x(d.dtypeX, d.rows * d.ldx), w(d.dtypeW, d.vocab * d.width),
        dx(d.dtypeX, d.rows * d.lddx), dw(d.dtypeDw, d.vocab * d.width),
        labels(d.labelDtype, d.rows) {
    std::mt19937 random(5);
    x.fillRandom(random);
    w.fillRandom(random, 0.5);
    dw.fillRandom(random);
    dx.fill(0.5);
    for (int64_t i = 0; i < d.rows; ++i)
      labels.set(i, random() % 5 == 0 ? double(d.ignoreIndex)
                                      : double(random() % uint64_t(d.vocab)));
  }

  int64_t weightAt(int64_t column, int64_t word) const {
    return d.transW ? word * d.width + column : column * d.vocab + word;
  }

  void reference() {
    loss = 0;
    for (int64_t i = 0; i < dw.size(); ++i)
      dwExpected.push_back(d.accumulateDw ? dw.get(i) : 0);
    for (int64_t i = 0; i < dx.size(); ++i)
      dxExpected.push_back(dx.get(i));
    for (int64_t i = 0; i < d.rows; ++i) {
      for (int64_t c = 0; c < d.width; ++c)
        dxExpected[size_t(i * d.lddx + c)] = 0;
      int64_t label = int64_t(labels.get(i));
      if (label == d.ignoreIndex)
        continue;
      std::vector<double> logits(size_t(d.vocab), 0.0);
      for (int64_t v = 0; v < d.vocab; ++v)
        for (int64_t c = 0; c < d.width; ++c)
          logits[size_t(v)] += x.get(i * d.ldx + c) * w.get(weightAt(c, v));
      loss += rowLoss(logits, label, d.softcap);
      for (int64_t v = 0; v < d.vocab; ++v)
        for (int64_t c = 0; c < d.width; ++c) {
          double slope = seed * logits[size_t(v)];
          dxExpected[size_t(i * d.lddx + c)] += slope * w.get(weightAt(c, v));
          dwExpected[size_t(weightAt(c, v))] += slope * x.get(i * d.ldx + c);
        }
    }
  }

  ShxLinearCrossEntropy d;
  Buffer x, w, dx, dw, labels;
  float seed = 0.375f;
  double loss = 0;
  std::vector<double> dxExpected, dwExpected;
};

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_LOSS_PROBLEM_H
