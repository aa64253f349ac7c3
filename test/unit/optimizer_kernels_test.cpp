// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizer kernels against torch.optim's formulas in f64, over slices of
// odd lengths, split anywhere, for several steps.

#include "kernel_harness.h"
#include "shardonnx/runtime/ABI.h"
#include "llvm/ADT/APFloat.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

struct Settings {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.1;
  double clip = 0.7, momentum = 0.9, clipValue = INFINITY;
};

/// One element's state, in f64.
struct Element {
  double p, m, v;
};

void stepReference(Optimizer optimizer, const Settings &s, int t, double grad,
                   Element &e) {
  double g = std::clamp(grad * s.clip, -s.clipValue, s.clipValue);
  if (optimizer == Optimizer::AdamW)
    e.p *= 1 - s.lr * s.decay;
  else
    g += s.decay * e.p;
  if (optimizer == Optimizer::SGD) {
    e.m = t == 1 ? g : s.momentum * e.m + g;
    e.p -= s.lr * e.m;
    return;
  }
  e.m = s.beta1 * e.m + (1 - s.beta1) * g;
  e.v = s.beta2 * e.v + (1 - s.beta2) * g * g;
  double denominator =
      std::sqrt(e.v) / std::sqrt(1 - std::pow(s.beta2, t)) + s.eps;
  e.p -= s.lr / (1 - std::pow(s.beta1, t)) * e.m / denominator;
}

void setScalars(const Settings &s, int t, float *scalars) {
  scalars[SHX_LR] = s.lr;
  scalars[SHX_BETA1] = s.beta1;
  scalars[SHX_BETA2] = s.beta2;
  scalars[SHX_ONE_MINUS_BETA1] = 1 - s.beta1;
  scalars[SHX_ONE_MINUS_BETA2] = 1 - s.beta2;
  scalars[SHX_EPS] = s.eps;
  scalars[SHX_WEIGHT_DECAY] = s.decay;
  scalars[SHX_BIAS_CORRECTION1] = 1 - std::pow(s.beta1, t);
  scalars[SHX_BIAS_CORRECTION2] = 1 - std::pow(s.beta2, t);
  scalars[SHX_CLIP] = s.clip;
  scalars[SHX_MOMENTUM] = s.momentum;
  scalars[SHX_CLIP_VALUE] = s.clipValue;
  scalars[SHX_FIRST_STEP] = t == 1 ? 1 : 0;
}

class OptimizerKernels : public ::testing::TestWithParam<Optimizer> {};

TEST_P(OptimizerKernels, FollowTorch) {
  std::unique_ptr<OptimizerRunner> kernel = makeOptimizerRunner(GetParam());
  ASSERT_TRUE(kernel);

  constexpr int64_t kLength = 5003;
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> p(kLength), g(kLength), m(kLength), v(kLength);
  std::vector<Element> reference(kLength);
  for (int64_t i = 0; i < kLength; ++i) {
    p[i] = normal(random);
    reference[i] = {p[i], 0, 0};
  }
  if (GetParam() == Optimizer::SGD)
    v.clear();
  Settings settings;
  settings.clipValue = 0.5; // a third of the gradients
  std::vector<uint16_t> none;
  float scalars[SHX_NUM_SCALARS] = {};
  for (int t = 1; t <= 5; ++t) {
    setScalars(settings, t, scalars);
    for (int64_t i = 0; i < kLength; ++i) {
      g[i] = normal(random);
      stepReference(GetParam(), settings, t, g[i], reference[i]);
    }
    int64_t cut = random() % kLength;
    kernel->run({&p, &g, &m, &v}, none, scalars, cut, kLength);
    kernel->run({&p, &g, &m, &v}, none, scalars, 0, cut);
  }
  for (int64_t i = 0; i < kLength; ++i)
    ASSERT_NEAR(p[i], reference[i].p, 2e-6) << "element " << i;
}

// Whatever the gradients are.
TEST_P(OptimizerKernels, SkipAStepBitForBit) {
  std::unique_ptr<OptimizerRunner> kernel = makeOptimizerRunner(GetParam());
  ASSERT_TRUE(kernel);
  constexpr int64_t kLength = 517;
  std::vector<float> p(kLength), g(kLength, NAN), m(kLength), v(kLength);
  for (int64_t i = 0; i < kLength; ++i) {
    p[i] = 0.25f * float(i) - 7;
    m[i] = -0.5f * float(i);
    v[i] = float(i);
    if (i % 3 == 0)
      g[i] = INFINITY;
  }
  if (GetParam() == Optimizer::SGD)
    v.clear();
  std::vector<float> p0 = p, m0 = m, v0 = v;
  std::vector<uint16_t> none;
  float scalars[SHX_NUM_SCALARS] = {};
  setScalars(Settings(), 3, scalars);
  scalars[SHX_CLIP] = NAN;
  scalars[SHX_SKIP] = 1;
  kernel->run({&p, &g, &m, &v}, none, scalars, 0, kLength);
  EXPECT_EQ(p, p0);
  EXPECT_EQ(m, m0);
  EXPECT_EQ(v, v0);
}

// What products read is the new master, rounded to nearest; of a skipped step
// the old one.
TEST_P(OptimizerKernels, WriteWhatProductsRead) {
  constexpr int64_t kLength = 3001, kBegin = 7;
  std::pair<ShxDType, const llvm::fltSemantics *> types[] = {
      {SHX_BF16, &llvm::APFloat::BFloat()},
      {SHX_F16, &llvm::APFloat::IEEEhalf()}};
  for (auto [type, semantics] : types) {
    std::unique_ptr<OptimizerRunner> kernel =
        makeOptimizerRunner(GetParam(), type);
    ASSERT_TRUE(kernel);
    std::mt19937 random(11);
    std::normal_distribution<float> normal;
    std::vector<float> p(kLength), g(kLength), m(kLength), v(kLength);
    for (int64_t i = 0; i < kLength; ++i) {
      p[i] = normal(random);
      g[i] = normal(random);
    }
    if (GetParam() == Optimizer::SGD)
      v.clear();
    constexpr uint16_t kUntouched = 0x1234;
    for (float skip : {0.f, 1.f}) {
      std::vector<float> before = p;
      std::vector<uint16_t> params(kLength, kUntouched);
      float scalars[SHX_NUM_SCALARS] = {};
      setScalars(Settings(), 2, scalars);
      scalars[SHX_SKIP] = skip;
      kernel->run({&p, &g, &m, &v}, params, scalars, kBegin, kLength);
      EXPECT_EQ(p == before, skip != 0);
      for (int64_t i = 0; i < kLength; ++i) {
        llvm::APFloat rounded(p[i]);
        bool loses;
        rounded.convert(*semantics, llvm::APFloat::rmNearestTiesToEven, &loses);
        uint64_t bits = rounded.bitcastToAPInt().getZExtValue();
        ASSERT_EQ(params[i], i < kBegin ? kUntouched : bits)
            << "element " << i << " of " << spell(type);
      }
    }
  }
}

std::string nameOf(const ::testing::TestParamInfo<Optimizer> &info) {
  static const char *const names[] = {"AdamW", "Adam", "SGD"};
  return names[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerKernels,
                         ::testing::Values(Optimizer::AdamW, Optimizer::Adam,
                                           Optimizer::SGD),
                         nameOf);

} // namespace
