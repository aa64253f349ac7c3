// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The optimizer kernels against torch.optim's formulas in f64, over slices of
// odd lengths, split anywhere, for several steps.

#include "kernel_harness.h"
#include "shardonnx/runtime/BlockCodes.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/MasterHalves.h"
#include "shardonnx/runtime/Random.h"
#include "llvm/ADT/APFloat.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <set>

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
  std::unique_ptr<OptimizerRunner> kernel = makeOptimizerRunner({GetParam()});
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
  OptimizerSlices slices{p, g, {rawBytes(m), rawBytes(v)}};
  float scalars[SHX_NUM_SCALARS] = {};
  for (int t = 1; t <= 5; ++t) {
    setScalars(settings, t, scalars);
    for (int64_t i = 0; i < kLength; ++i) {
      g[i] = normal(random);
      stepReference(GetParam(), settings, t, g[i], reference[i]);
    }
    int64_t cut = random() % kLength;
    kernel->run(slices, scalars, cut, kLength);
    kernel->run(slices, scalars, 0, cut);
  }
  for (int64_t i = 0; i < kLength; ++i)
    ASSERT_NEAR(p[i], reference[i].p, 2e-6) << "element " << i;
}

// Whatever the gradients are.
TEST_P(OptimizerKernels, SkipAStepBitForBit) {
  std::unique_ptr<OptimizerRunner> kernel = makeOptimizerRunner({GetParam()});
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
  OptimizerSlices slices{p, g, {rawBytes(m), rawBytes(v)}};
  float scalars[SHX_NUM_SCALARS] = {};
  setScalars(Settings(), 3, scalars);
  scalars[SHX_CLIP] = NAN;
  scalars[SHX_SKIP] = 1;
  kernel->run(slices, scalars, 0, kLength);
  EXPECT_EQ(p, p0);
  EXPECT_EQ(m, m0);
  EXPECT_EQ(v, v0);
}

uint16_t toBF16(float value) {
  llvm::APFloat rounded(value);
  bool loses;
  rounded.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven,
                  &loses);
  return uint16_t(rounded.bitcastToAPInt().getZExtValue());
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
        makeOptimizerRunner({GetParam(), type});
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
      kernel->run({p, g, {rawBytes(m), rawBytes(v)}, rawBytes(params)}, scalars,
                  kBegin, kLength);
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

// Masters that lie in halves come to the same as whole ones, bit for bit but
// for a tie that is rounded down, and so does everything else; elements outside
// of the piece, and all of them in a skipped step, stay as they are.
TEST_P(OptimizerKernels, KeepMastersInHalves) {
  constexpr int64_t kLength = 8 * kStateBlock + 3, kBegin = 7, kEnd = 2000;
  for (ShxDType state : {SHX_F32, SHX_BF16, SHX_I8}) {
    kernels::OptimizerTypes types{GetParam(), SHX_BF16, state};
    auto whole = makeOptimizerRunner(types);
    types.halves = true;
    auto halves = makeOptimizerRunner(types);
    ASSERT_TRUE(whole && halves);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    std::vector<float> p(kLength), g(kLength), unread;
    std::vector<uint16_t> params(kLength), upper;
    std::vector<int16_t> lower(kLength);
    std::vector<uint8_t> states[2][2];
    std::vector<float> scales[2][2];
    for (auto *of : {states, states + 1})
      for (int i = 0; i < statesOf(GetParam()); ++i)
        of[0][i].resize(kLength * sizeof(float));
    for (auto *of : {scales, scales + 1})
      for (int i = 0; i < statesOf(GetParam()); ++i)
        of[0][i].resize(stateBlocks(kLength));
    for (int64_t i = 0; i < kLength; ++i) {
      p[i] = std::ldexp(normal(random), int(random() % 40) - 20);
      g[i] = normal(random);
      params[i] = toBF16(p[i]);
      lower[i] = lowerHalf(p[i], params[i]);
      p[i] = joinHalves(params[i], lower[i]);
    }
    upper = params;
    for (int step = 1; step <= 3; ++step) {
      float scalars[SHX_NUM_SCALARS] = {};
      setScalars(Settings(), step, scalars);
      scalars[SHX_SKIP] = step == 2;
      whole->run({p,
                  g,
                  {states[0][0], states[0][1]},
                  rawBytes(params),
                  {rawBytes(scales[0][0]), rawBytes(scales[0][1])}},
                 scalars, kBegin, kEnd);
      halves->run({unread,
                   g,
                   {states[1][0], states[1][1]},
                   rawBytes(upper),
                   {rawBytes(scales[1][0]), rawBytes(scales[1][1])},
                   &lower},
                  scalars, kBegin, kEnd);
      ASSERT_EQ(params, upper) << spell(state) << ", step " << step;
      for (int64_t i = 0; i < kLength; ++i) {
        float expected = joinHalves(params[i], lowerHalf(p[i], params[i]));
        ASSERT_EQ(joinHalves(upper[i], lower[i]), expected)
            << spell(state) << ", step " << step << ", element " << i;
        p[i] = expected;
      }
      for (int i = 0; i < 2; ++i) {
        ASSERT_EQ(states[0][i], states[1][i]) << spell(state);
        ASSERT_EQ(scales[0][i], scales[1][i]) << spell(state);
      }
    }
  }
}

// What halves hold, and what they lose.
TEST(MasterHalves, AreTheWhole) {
  for (uint32_t bits :
       {0x3f800000u, 0x3f807fffu, 0x3f818000u, 0x3f80c001u, 0xbf807fffu,
        0x80000000u, 0x00000001u, 0x7f7fffffu, 0x7f800000u, 0xff800000u}) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    uint16_t upper = toBF16(value);
    float joined = joinHalves(upper, lowerHalf(value, upper));
    EXPECT_EQ(std::memcmp(&joined, &value, sizeof(value)), 0) << bits;
  }
  uint32_t tie = 0x3f808000u; // down to 1
  float value;
  std::memcpy(&value, &tie, sizeof(value));
  ASSERT_EQ(toBF16(value), 0x3f80);
  EXPECT_EQ(joinHalves(0x3f80, lowerHalf(value, 0x3f80)),
            std::nextafter(value, 0.f));
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(joinHalves(toBF16(nan), lowerHalf(nan, toBF16(nan)))));
}

/// A number of each element's own in [0, 1).
double unitOf(uint64_t key, int64_t i) {
  return random::elementBits(key, uint32_t(i)) * 0x1p-32;
}

float fromBF16(uint16_t bits) {
  return llvm::APFloat(llvm::APFloat::BFloat(), llvm::APInt(16, bits))
      .convertToFloat();
}

// The state in bf16 is one of the two neighbours of the state that the step
// comes to, the farther one as seldom as it is far; which one is a function of
// the key and of the element's place, however the slice is cut.
TEST_P(OptimizerKernels, RoundStateAtRandom) {
  auto kernel = makeOptimizerRunner({GetParam(), SHX_F32, SHX_BF16});
  ASSERT_TRUE(kernel);
  constexpr int64_t kLength = 20011;
  // One value everywhere: how often each neighbour comes tells the chance.
  float gradient = 0.3f;
  std::vector<float> g(kLength, gradient);
  float scalars[SHX_NUM_SCALARS] = {};
  Settings settings;
  settings.decay = 0;
  setScalars(settings, 1, scalars);
  uint32_t key = 0x1234567;
  std::memcpy(&scalars[SHX_ROUNDING_KEY], &key, sizeof(key));
  std::vector<uint16_t> whole[2], cut[2];
  for (auto *m : {whole, cut}) {
    std::vector<float> p(kLength, 1);
    m[0].resize(kLength);
    m[1].resize(GetParam() == Optimizer::SGD ? 0 : kLength);
    OptimizerSlices slices{p, g, {rawBytes(m[0]), rawBytes(m[1])}};
    int64_t at = m == cut ? 1237 : 0;
    kernel->run(slices, scalars, at, kLength);
    kernel->run(slices, scalars, 0, at);
  }
  EXPECT_EQ(whole[0], cut[0]);
  EXPECT_EQ(whole[1], cut[1]);
  Element expected{1, 0, 0};
  stepReference(GetParam(), settings, 1, gradient, expected);
  for (int i = 0; i < statesOf(GetParam()); ++i) {
    double exact = i == 0 ? expected.m : expected.v, sum = 0;
    std::set<uint16_t> seen(whole[i].begin(), whole[i].end());
    EXPECT_EQ(seen.size(), 2u);
    for (uint16_t bits : whole[i])
      sum += fromBF16(bits);
    double step = fromBF16(*seen.rbegin()) - fromBF16(*seen.begin());
    EXPECT_NEAR(sum / kLength, exact, step * 4 / std::sqrt(kLength));
  }
}

/// A slice whose state is in blocks, and the same in f64 by bitsandbytes'
/// formulas, with nearest entries of its map.
struct BlockSlice {
  explicit BlockSlice(int64_t length, int states)
      : p(length), g(length), m(length), v(states > 1 ? length : 0),
        mScales(stateBlocks(length)), vScales(stateBlocks(v.size())) {}
  OptimizerSlices slices() {
    return {p,
            g,
            {rawBytes(m), rawBytes(v)},
            {},
            {rawBytes(mScales), rawBytes(vScales)}};
  }
  std::vector<float> p, g;
  std::vector<int8_t> m, v;
  std::vector<float> mScales, vScales;
};

std::vector<double> mapOf(const BlockCodes &codes) {
  std::vector<double> map = {0, 1};
  for (int i = 0; i < 7; ++i)
    for (int k = 0, n = codes.cells << i; k < n; ++k) {
      double entry = std::pow(10.0, i - 6) * (0.1 + 0.9 * (k + 0.5) / n);
      map.push_back(entry);
      if (codes.hasSigns)
        map.push_back(-entry);
    }
  std::sort(map.begin(), map.end());
  return map;
}

// Decoded with the map, stepped, encoded as the nearest entry: in each of some
// steps from the same state.
TEST_P(OptimizerKernels, KeepStateInBlocks) {
  auto kernel = makeOptimizerRunner({GetParam(), SHX_F32, SHX_I8});
  ASSERT_TRUE(kernel);
  constexpr int64_t kLength = 6 * kStateBlock, kEnd = kLength - 100;
  constexpr int64_t kCut = 2 * kStateBlock;
  const std::vector<double> maps[2] = {mapOf(kSignedCodes),
                                       mapOf(kUnsignedCodes)};
  int states = statesOf(GetParam());
  BlockSlice s(kLength, states);
  Settings settings;
  float scalars[SHX_NUM_SCALARS] = {};
  for (int64_t i = 0; i < kLength; ++i)
    s.p[i] = float(unitOf(1, i) - 0.5);
  for (int t = 1; t <= 4; ++t) {
    setScalars(settings, t, scalars);
    BlockSlice before = s;
    for (int64_t i = 0; i < kLength; ++i) // of many magnitudes
      s.g[i] =
          float((unitOf(2 + t, i) - 0.5) * std::pow(10, -6 * unitOf(9, i)));
    s.g[kEnd] = INFINITY; // padding
    kernel->run(s.slices(), scalars, kCut, kEnd);
    kernel->run(s.slices(), scalars, 0, kCut);
    for (int64_t block = 0; block < stateBlocks(kLength); ++block) {
      std::vector<Element> after;
      double largest[2] = {0, 0};
      for (int64_t k = 0; k < kStateBlock; ++k) {
        int64_t i = block * kStateBlock + k;
        Element e{before.p[i], 0, 0};
        e.m = maps[0][before.m[i] + 128] * before.mScales[block];
        if (states > 1)
          e.v = maps[1][before.v[i] + 128] * before.vScales[block];
        if (i < kEnd)
          stepReference(GetParam(), settings, t, s.g[i], e);
        largest[0] = std::max(largest[0], std::fabs(e.m));
        largest[1] = std::max(largest[1], e.v);
        after.push_back(e);
        ASSERT_NEAR(s.p[i], e.p, 1e-5) << "step " << t << ", element " << i;
      }
      EXPECT_NEAR(s.mScales[block], largest[0], 1e-5 * largest[0]);
      if (states > 1)
        EXPECT_NEAR(s.vScales[block], largest[1], 1e-5 * largest[1]);
      for (int64_t k = 0; k < kStateBlock; ++k)
        for (int j = 0; j < states; ++j) {
          int64_t i = block * kStateBlock + k;
          double x = (j == 0 ? after[k].m : after[k].v) / largest[j];
          int place = (j == 0 ? s.m[i] : s.v[i]) + 128;
          double off = std::fabs(maps[j][place] - x);
          for (int other : {place - 1, place + 1})
            if (other >= 0 && other < 256 &&
                !(x < 0 && maps[j][other] >= 0)) // keeps its sign
              ASSERT_LE(off, std::fabs(maps[j][other] - x) * (1 + 1e-3) + 1e-9)
                  << "step " << t << ", element " << i << " of state " << j;
        }
    }
  }
}

// Where two pieces share a block, each leaves the other's masters alone; a step
// that is skipped leaves every bit.
TEST_P(OptimizerKernels, ShareAndSkipBlocks) {
  auto kernel = makeOptimizerRunner({GetParam(), SHX_F32, SHX_I8});
  ASSERT_TRUE(kernel);
  constexpr int64_t kLength = 2 * kStateBlock, kCut = kStateBlock + 16;
  BlockSlice s(kLength, statesOf(GetParam()));
  for (int64_t i = 0; i < kLength; ++i) {
    s.p[i] = float(unitOf(1, i));
    s.g[i] = float(unitOf(2, i) - 0.5);
  }
  float scalars[SHX_NUM_SCALARS] = {};
  setScalars(Settings(), 1, scalars);
  std::vector<float> before = s.p;
  kernel->run(s.slices(), scalars, 0, kCut);
  for (int64_t i = 0; i < kLength; ++i)
    ASSERT_EQ(s.p[i] == before[i], i >= kCut) << "element " << i;
  kernel->run(s.slices(), scalars, kCut, kLength);
  for (int64_t i = kCut; i < kLength; ++i)
    ASSERT_NE(s.p[i], before[i]) << "element " << i;
  BlockSlice old = s;
  scalars[SHX_SKIP] = 1;
  std::fill(s.g.begin(), s.g.end(), NAN);
  kernel->run(s.slices(), scalars, 0, kLength);
  EXPECT_EQ(s.p, old.p);
  EXPECT_EQ(s.m, old.m);
  EXPECT_EQ(s.v, old.v);
  EXPECT_EQ(s.mScales, old.mScales);
  EXPECT_EQ(s.vScales, old.vScales);
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
