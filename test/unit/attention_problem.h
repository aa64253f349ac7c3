// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over generated shapes with every feature, and its definition: a
// score matrix in double. For the tests of every device.

#ifndef SHARDONNX_TEST_UNIT_ATTENTION_PROBLEM_H
#define SHARDONNX_TEST_UNIT_ATTENTION_PROBLEM_H

#include "cpu_kernels_util.h"

namespace shardonnx::test {

enum class Mask { None, Bool, Additive, FirstKeys };

struct AttentionCase {
  int64_t batch = 1, heads = 1, kvHeads = 1, seqQ = 1, seqK = 1, headDim = 16;
  bool causal = false;
  int64_t window = 0;
  float softcap = 0;
  Mask mask = Mask::None;
  bool maskPerHead = false;
  int32_t dtype = SHX_F32;
  bool headMajor = false; // memory is [batch, head, seq, dim]
};

inline std::ostream &operator<<(std::ostream &out, const AttentionCase &c) {
  return out << "B" << c.batch << " H" << c.heads << "/" << c.kvHeads << " S"
             << c.seqQ << "x" << c.seqK << " D" << c.headDim << " causal "
             << c.causal << " window " << c.window << " cap " << c.softcap
             << " mask " << int(c.mask) << c.maskPerHead << " dtype " << c.dtype
             << " headMajor " << c.headMajor;
}

// The tensors of a case, its descriptor and the kernels' results.
struct AttentionProblem {
  explicit AttentionProblem(const AttentionCase &c, unsigned seed = 1)
      : c(c), q(c.dtype, sizeQ()), k(c.dtype, sizeK()), v(c.dtype, sizeK()),
        out(c.dtype, sizeQ()), dout(c.dtype, sizeQ()), dq(c.dtype, sizeQ()),
        dk(c.dtype, sizeK()), dv(c.dtype, sizeK()),
        lse(SHX_F32, c.batch * c.heads * c.seqQ),
        mask(maskDtype(c),
             c.mask == Mask::FirstKeys
                 ? c.batch * c.seqQ
                 : (c.maskPerHead ? c.heads : 1) * c.seqQ * c.seqK) {
    std::mt19937 random(seed);
    for (Buffer *b : {&q, &k, &v, &dout})
      b->fillRandom(random);
    if (c.mask == Mask::Additive)
      mask.fillRandom(random);
    for (int64_t i = 0; c.mask == Mask::Bool && i < mask.size(); ++i)
      mask.set(i, random() % 4 != 0);
    if (c.mask == Mask::FirstKeys)
      drawFirstKeys(random);
    describe();
  }

  int64_t sizeQ() const { return c.batch * c.heads * c.seqQ * c.headDim; }
  int64_t sizeK() const { return c.batch * c.kvHeads * c.seqK * c.headDim; }

  static int32_t maskDtype(const AttentionCase &c) {
    return c.mask == Mask::FirstKeys ? SHX_I32
           : c.mask == Mask::Bool    ? SHX_I1
                                     : SHX_F32;
  }

  // Documents of every length, one query to all.
  void drawFirstKeys(std::mt19937 &random) {
    for (int64_t b = 0; b < c.batch; ++b) {
      int64_t first = 0, rarity = 1 + random() % (2 * c.seqQ);
      for (int64_t i = 0; i < c.seqQ; ++i) {
        if (i > 0 && random() % uint64_t(rarity) == 0)
          first = std::max<int64_t>(first, i + c.seqK - c.seqQ);
        mask.set(b * c.seqQ + i, double(first));
      }
    }
  }

  void describe() {
    desc = ShxAttention{};
    desc.batch = c.batch;
    desc.heads = c.heads;
    desc.kvHeads = c.kvHeads;
    desc.seqQ = c.seqQ;
    desc.seqK = c.seqK;
    desc.headDim = c.headDim;
    for (int64_t *s :
         {desc.qStride, desc.outStride, desc.dqStride, desc.doutStride})
      setStrides(s, c.heads, c.seqQ);
    for (int64_t *s :
         {desc.kStride, desc.vStride, desc.dkStride, desc.dvStride})
      setStrides(s, c.kvHeads, c.seqK);
    desc.maskStride[1] = c.maskPerHead ? c.seqQ * c.seqK : 0;
    desc.maskStride[2] = c.seqK;
    if (c.mask == Mask::FirstKeys) {
      desc.maskStride[0] = c.seqQ;
      desc.maskStride[1] = 0;
      desc.maskStride[2] = 1;
    }
    desc.scale = float(1 / std::sqrt(double(c.headDim)));
    desc.softcap = c.softcap;
    desc.causal = c.causal;
    desc.dtype = c.dtype;
    desc.maskDtype = mask.dtype;
    desc.window = c.window;
  }

  void setStrides(int64_t *stride, int64_t heads, int64_t seq) const {
    stride[0] = heads * seq * c.headDim;
    stride[1] = c.headMajor ? c.headDim : heads * c.headDim;
    stride[2] = c.headMajor ? seq * c.headDim : c.headDim;
  }

  const void *maskData() const {
    return c.mask == Mask::None ? nullptr : mask.data();
  }

  // Every other query sees no key, by what absorbs the scores or replaces them.
  void hideByNumbers() {
    bool flags = c.mask == Mask::Bool;
    float number = !flags ? -1e9f : c.heads > 1 ? -3e38f : -1e4f;
    for (int64_t i = 0; i < c.seqQ; i += 2)
      for (int64_t j = 0; j < c.seqK; ++j)
        mask.set(i * c.seqK + j, flags ? 0 : number);
    if (flags || c.causal)
      desc.hidden = number;
    if (desc.hidden < -1e4f)
      desc.flags = SHX_ATTENTION_ADDED;
  }

  AttentionCase c;
  Buffer q, k, v, out, dout, dq, dk, dv, lse, mask;
  ShxAttention desc;
};

inline std::vector<AttentionCase> unseenCases() {
  std::vector<AttentionCase> cases;
  for (Mask mask : {Mask::Bool, Mask::Additive})
    for (int32_t dtype : {SHX_F32, SHX_BF16})
      for (int64_t heads : {1, 4})
        for (int64_t seqK : {40, 75, 130}) {
          AttentionCase c;
          c.heads = heads;
          c.kvHeads = (heads + 1) / 2;
          c.seqQ = 70;
          c.seqK = seqK;
          c.causal = seqK != 75;
          c.dtype = dtype;
          c.mask = mask;
          cases.push_back(c);
        }
  return cases;
}

// The definition, in double.
struct AttentionReference {
  explicit AttentionReference(const AttentionProblem &p)
      : p(p), d(p.desc), q(p.q.values()), k(p.k.values()), v(p.v.values()),
        dout(p.dout.values()), out(size_t(p.sizeQ())), dq(out.size()),
        dk(size_t(p.sizeK())), dv(dk.size()), lse(size_t(p.lse.size())) {
    for (int64_t b = 0; b < d.batch; ++b)
      for (int64_t h = 0; h < d.heads; ++h)
        for (int64_t i = 0; i < d.seqQ; ++i)
          row(b, h, i);
  }

  bool visible(int64_t b, int64_t i, int64_t j) const {
    int64_t last = d.causal ? i + d.seqK - d.seqQ : d.seqK - 1;
    if (p.c.mask == Mask::FirstKeys && j < p.mask.get(b * d.seqQ + i))
      return false;
    return j <= last && (d.window == 0 || j > last - d.window);
  }

  static size_t at(const int64_t *stride, int64_t b, int64_t row,
                   int64_t head) {
    return size_t(b * stride[0] + row * stride[1] + head * stride[2]);
  }

  // The score and its derivative by scale·q·k.
  double score(int64_t b, int64_t h, int64_t i, int64_t j,
               double &slope) const {
    size_t qAt = at(d.qStride, b, i, h);
    size_t kAt = at(d.kStride, b, j, h * d.kvHeads / d.heads);
    double s = 0;
    for (int64_t x = 0; x < d.headDim; ++x)
      s += q[qAt + size_t(x)] * k[kAt + size_t(x)];
    s *= d.scale;
    slope = 1;
    if (d.softcap > 0) {
      double t = std::tanh(s / d.softcap);
      slope = 1 - t * t;
      s = d.softcap * t;
    }
    int64_t m = h * d.maskStride[1] + i * d.maskStride[2] + j;
    bool hidden = p.c.mask == Mask::Bool && p.mask.get(m) == 0;
    if (hidden || !visible(b, i, j))
      s = hide(s, slope);
    if (p.c.mask != Mask::Additive)
      return s;
    double number = p.mask.get(m);
    bool rounds = std::min(s, number) < SHX_ATTENTION_UNSEEN; // in f32
    return rounds ? float(float(s) + number) : s + number;
  }

  // A hidden score, rounded to f32.
  double hide(double s, double &slope) const {
    if (d.hidden == 0)
      return -INFINITY;
    if (d.flags & SHX_ATTENTION_ADDED)
      return float(s) + d.hidden;
    slope = 0;
    return d.hidden;
  }

  void row(int64_t b, int64_t h, int64_t i) {
    std::vector<double> s(size_t(d.seqK)), slope(s.size());
    double peak = -INFINITY, sum = 0;
    for (int64_t j = 0; j < d.seqK; ++j) {
      s[size_t(j)] = score(b, h, i, j, slope[size_t(j)]);
      peak = std::max(peak, s[size_t(j)]);
    }
    for (double &x : s)
      sum += x = peak == -INFINITY ? 0 : std::exp(x - peak);
    bool unseen = sum > 0 && peak < SHX_ATTENTION_UNSEEN;
    lse[size_t((b * d.heads + h) * d.seqQ + i)] =
        unseen ? peak : peak + std::log(sum);
    int64_t kv = h * d.kvHeads / d.heads;
    size_t qAt = at(d.qStride, b, i, h), oAt = at(d.outStride, b, i, h);
    double delta = 0;
    for (double &x : s)
      x = sum > 0 ? x / sum : 0;
    for (int64_t x = 0; x < d.headDim; ++x) {
      for (int64_t j = 0; j < d.seqK; ++j)
        out[oAt + size_t(x)] +=
            s[size_t(j)] * v[at(d.vStride, b, j, kv) + size_t(x)];
      delta += out[oAt + size_t(x)] * dout[oAt + size_t(x)];
    }
    for (int64_t j = 0; j < d.seqK; ++j) {
      size_t kAt = at(d.kStride, b, j, kv);
      double dp = 0;
      for (int64_t x = 0; x < d.headDim; ++x)
        dp += dout[oAt + size_t(x)] * v[kAt + size_t(x)];
      double ds = s[size_t(j)] * (dp - delta) * slope[size_t(j)] * d.scale;
      for (size_t x = 0; x < size_t(d.headDim); ++x) {
        dv[kAt + x] += s[size_t(j)] * dout[oAt + x];
        dk[kAt + x] += ds * q[qAt + x];
        dq[qAt + x] += ds * k[kAt + x];
      }
    }
  }

  const AttentionProblem &p;
  const ShxAttention &d;
  std::vector<double> q, k, v, dout;
  std::vector<double> out, dq, dk, dv, lse;
};

inline void expectResults(const AttentionProblem &p,
                          const AttentionReference &r) {
  double tolerance = precision(p.c.dtype);
  expectClose(p.out, r.out, tolerance, "out");
  for (int64_t i = 0; i < p.lse.size(); ++i) {
    double expected = r.lse[size_t(i)];
    if (std::isinf(expected))
      ASSERT_EQ(p.lse.get(i), expected);
    else
      ASSERT_NEAR(p.lse.get(i), expected, 1e-4);
  }
  // Gradients are differences (dout·v - dout·out) of larger numbers.
  expectClose(p.dq, r.dq, 5 * tolerance, "dq");
  expectClose(p.dk, r.dk, 5 * tolerance, "dk");
  expectClose(p.dv, r.dv, 5 * tolerance, "dv");
}

// Numbers hide all keys from half of the queries, by themselves or beside
// causality: what is hidden is weighed all the same. `Problem`: of a device.
template <typename Problem> void checkUnseenQueries() {
  for (const AttentionCase &c : unseenCases()) {
    Problem p(c);
    p.hideByNumbers();
    p.run();
    SCOPED_TRACE(testing::Message() << c << " hidden " << p.desc.hidden);
    expectResults(p, AttentionReference(p));
  }
}

inline AttentionCase randomAttention(std::mt19937 &random) {
  auto pick = [&](std::vector<int64_t> values) {
    return values[random() % values.size()];
  };
  AttentionCase c;
  c.batch = pick({1, 2});
  c.kvHeads = pick({1, 2, 3});
  c.heads = c.kvHeads * pick({1, 1, 2, 3});
  c.seqQ = pick({1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 100, 130});
  c.seqK = pick({0, 0, 1, 5, 16, 40, 64, 67, 129, 200});
  c.seqK = c.seqK == 0 ? c.seqQ : c.seqK;
  c.headDim = pick({16, 20, 24, 32, 37, 64, 80, 96, 128});
  c.causal = random() % 2;
  c.window = pick({0, 0, 0, 1, 3, 20, 64, 300});
  c.softcap = random() % 4 == 0 ? 1.5f : 0;
  c.mask = Mask(random() % 4);
  c.maskPerHead = random() % 2;
  c.dtype = int32_t(random() % 3);
  c.headMajor = random() % 2;
  return c;
}

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_UNIT_ATTENTION_PROBLEM_H
