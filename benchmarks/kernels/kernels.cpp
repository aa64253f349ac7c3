// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU kernels against the machine's limits: attention and the losses in
// GFLOP/s of what their definitions need (causal counts the visible half,
// backward the five products), beside a matrix product of the same threads;
// copies in GB/s moved. OMP_NUM_THREADS sets the threads.

#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Workspace.h"
#include <benchmark/benchmark.h>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

using namespace shardonnx;

namespace {

std::vector<float> random(int64_t count) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float &x : values)
    x = normal(engine);
  return values;
}

benchmark::Counter perSecond(double amount) {
  return benchmark::Counter(amount * 1e-9,
                            benchmark::Counter::kIsIterationInvariantRate);
}

ShxAttention attention(int64_t batch, int64_t heads, int64_t kvHeads,
                       int64_t seq, int64_t dim, bool causal, int32_t dtype) {
  ShxAttention d{};
  d.batch = batch;
  d.heads = heads;
  d.kvHeads = kvHeads;
  d.seqQ = d.seqK = seq;
  d.headDim = dim;
  d.causal = causal;
  d.dtype = dtype;
  d.scale = 1 / std::sqrt(float(dim));
  auto strides = [&](int64_t *stride, int64_t count) {
    stride[0] = seq * count * dim;
    stride[1] = count * dim;
    stride[2] = dim;
  };
  for (int64_t *s : {d.qStride, d.outStride, d.dqStride, d.doutStride})
    strides(s, heads);
  for (int64_t *s : {d.kStride, d.vStride, d.dkStride, d.dvStride})
    strides(s, kvHeads);
  return d;
}

double visiblePairs(const ShxAttention &d) {
  double pairs = double(d.seqQ) * double(d.causal ? d.seqQ + 1 : 2 * d.seqQ);
  return pairs / 2 * double(d.batch * d.heads);
}

// Arguments: batch, heads, kv heads, sequence, head dim, causal, dtype.
void attentionBenchmark(benchmark::State &state, bool backward) {
  ShxAttention d =
      attention(state.range(0), state.range(1), state.range(2), state.range(3),
                state.range(4), state.range(5) != 0, int32_t(state.range(6)));
  int64_t q = d.batch * d.seqQ * d.heads * d.headDim;
  int64_t k = d.batch * d.seqK * d.kvHeads * d.headDim;
  std::vector<float> query = random(q), key = random(k), value = random(k);
  if (d.dtype != SHX_F32) // any bits will do, but no NaN
    query.assign(size_t(q), 0), key.assign(size_t(k), 0);
  std::vector<float> out(query.size()), dq(query.size()), dk(key.size()),
      dv(key.size()), lse(static_cast<size_t>(d.batch * d.heads * d.seqQ));
  std::vector<float> workspace(
      static_cast<size_t>(cpuLibraries().attentionGrad(d) / 4));
  shx_attention(nullptr, &d, query.data(), key.data(), value.data(), nullptr,
                out.data(), lse.data(), nullptr);
  for (auto _ : state) {
    if (backward)
      shx_attention_grad(nullptr, &d, query.data(), key.data(), value.data(),
                         nullptr, out.data(), lse.data(), query.data(),
                         dq.data(), dk.data(), dv.data(), workspace.data());
    else
      shx_attention(nullptr, &d, query.data(), key.data(), value.data(),
                    nullptr, out.data(), lse.data(), nullptr);
  }
  double products = backward ? 5 : 2;
  state.counters["GFLOP/s"] =
      perSecond(2 * products * double(d.headDim) * visiblePairs(d));
}

void Forward(benchmark::State &state) { attentionBenchmark(state, false); }
void Backward(benchmark::State &state) { attentionBenchmark(state, true); }

void attentionShapes(benchmark::internal::Benchmark *b) {
  b->Args({4, 6, 6, 256, 64, 1, SHX_F32});
  b->Args({4, 6, 6, 256, 64, 0, SHX_F32});
  b->Args({4, 8, 4, 256, 64, 1, SHX_F32});
  b->Args({4, 8, 4, 256, 64, 1, SHX_BF16});
  b->Args({1, 8, 8, 2048, 64, 1, SHX_F32});
  b->Args({1, 8, 8, 2048, 128, 1, SHX_F32});
  b->Args({1, 8, 8, 1000, 80, 1, SHX_F32});
}
BENCHMARK(Forward)->Apply(attentionShapes)->UseRealTime();
BENCHMARK(Backward)->Apply(attentionShapes)->UseRealTime();

// Arguments: rows, width, vocabulary, rows of a chunk (0: the planned ones),
// transW.
void LinearCrossEntropy(benchmark::State &state) {
  ShxLinearCrossEntropy d{};
  d.rows = state.range(0);
  d.width = d.ldx = d.lddx = state.range(1);
  d.vocab = state.range(2);
  d.chunkRows = state.range(3) ? state.range(3) : cpuLibraries().chunkRows(d);
  d.ignoreIndex = -100;
  d.transW = int32_t(state.range(4));
  d.labelDtype = SHX_I64;
  std::vector<float> x = random(d.rows * d.width);
  std::vector<float> w = random(d.vocab * d.width);
  std::vector<float> dx(x.size()), dw(w.size());
  std::vector<float> workspace(
      static_cast<size_t>(cpuLibraries().linearCrossEntropy(d) / 4));
  std::vector<int64_t> labels(static_cast<size_t>(d.rows), 5);
  float seed = 1, loss = 0;
  for (auto _ : state)
    shx_linear_cross_entropy(nullptr, &d, x.data(), w.data(), labels.data(),
                             &seed, &loss, dx.data(), dw.data(),
                             workspace.data());
  state.counters["GFLOP/s"] =
      perSecond(6 * double(d.rows) * double(d.width) * double(d.vocab));
}
BENCHMARK(LinearCrossEntropy)
    ->ArgsProduct(
        {{1024}, {384, 512}, {8192}, {0, 128, 256, 512, 1024}, {0, 1}})
    ->Args({1024, 768, 50257, 0, 1})
    ->UseRealTime();

// Arguments: m, n, k, dtype, which operands are stored transposed.
void Product(benchmark::State &state) {
  ShxGemm d{};
  d.m = state.range(0);
  d.n = d.ldc = state.range(1);
  d.k = state.range(2);
  d.dtypeA = d.dtypeB = d.dtypeC = int32_t(state.range(3));
  d.transA = state.range(4) & 1;
  d.transB = state.range(4) >> 1 & 1;
  d.lda = d.transA ? d.m : d.k;
  d.ldb = d.transB ? d.k : d.n;
  std::vector<float> a = random(d.m * d.k), b = random(d.k * d.n),
                     c(static_cast<size_t>(d.m * d.n));
  if (d.dtypeA != SHX_F32) // any bits will do, but no NaN
    a.assign(a.size(), 0), b.assign(b.size(), 0);
  std::vector<float> workspace(static_cast<size_t>(cpuLibraries().gemm(d) / 4));
  for (auto _ : state)
    shx_gemm(nullptr, &d, a.data(), b.data(), c.data(), workspace.data());
  state.counters["GFLOP/s"] =
      perSecond(2 * double(d.m) * double(d.n) * double(d.k));
}
// The limit, W2's linear layers forward and back, and small ones.
void productShapes(benchmark::internal::Benchmark *all) {
  for (int64_t dtype : {SHX_F32, SHX_BF16}) {
    all->Args({2048, 2048, 2048, dtype, 0});
    for (auto [in, out] :
         {std::pair<int64_t, int64_t>{512, 1024}, {512, 2752}, {1376, 512}}) {
      all->Args({1024, out, in, dtype, 2});
      all->Args({1024, in, out, dtype, 0});
      all->Args({out, in, 1024, dtype, 1});
    }
    all->Args({64, 64, 64, dtype, 0})->Args({4, 2048, 2048, dtype, 0});
  }
}
BENCHMARK(Product)->Apply(productShapes)->UseRealTime();

// [B, S, H, D] to [B, H, S, D]. Arguments: B, S, H, D.
void SwapHeads(benchmark::State &state) {
  int64_t b = state.range(0), s = state.range(1), h = state.range(2),
          w = state.range(3);
  ShxCopy d{{b, h, s, w},
            {s * h * w, w, h * w, 1},
            {h * s * w, s * w, w, 1},
            4,
            SHX_F32,
            SHX_F32,
            0};
  std::vector<float> from = random(b * s * h * w), to(from.size());
  for (auto _ : state)
    shx_copy(nullptr, &d, from.data(), to.data());
  state.counters["GB/s"] = perSecond(8 * double(from.size()));
}
BENCHMARK(SwapHeads)
    ->Args({4, 256, 6, 64})
    ->Args({4, 1024, 8, 128})
    ->UseRealTime();

// A matrix to its transpose, and a matrix to another dtype. Arguments: rows,
// columns.
void Transpose(benchmark::State &state) {
  int64_t m = state.range(0), n = state.range(1);
  ShxCopy d{{n, m}, {1, n}, {m, 1}, 2, SHX_F32, SHX_F32, 0};
  std::vector<float> from = random(m * n), to(from.size());
  for (auto _ : state)
    shx_copy(nullptr, &d, from.data(), to.data());
  state.counters["GB/s"] = perSecond(8 * double(from.size()));
}
BENCHMARK(Transpose)->Args({1024, 384})->Args({8192, 512})->UseRealTime();

void ToBf16(benchmark::State &state) {
  int64_t m = state.range(0), n = state.range(1);
  ShxCopy d{{m * n}, {1}, {1}, 1, SHX_F32, SHX_BF16, 0};
  std::vector<float> from = random(m * n), to(from.size());
  for (auto _ : state)
    shx_copy(nullptr, &d, from.data(), to.data());
  state.counters["GB/s"] = perSecond(6 * double(from.size()));
}
BENCHMARK(ToBf16)->Args({1024, 384})->Args({8192, 512})->UseRealTime();

void EmbeddingGrad(benchmark::State &state) {
  ShxEmbedding d{};
  d.rows = state.range(0);
  d.width = d.ldOut = state.range(1);
  d.vocab = state.range(2);
  d.idDtype = SHX_I64;
  d.paddingIdx = -1;
  std::mt19937 engine(1);
  std::vector<int64_t> ids(static_cast<size_t>(d.rows));
  for (int64_t &id : ids)
    id = int64_t(engine() % 128);
  std::vector<float> dy = random(d.rows * d.width);
  std::vector<float> table(static_cast<size_t>(d.vocab * d.width));
  for (auto _ : state)
    shx_embedding_grad(nullptr, &d, ids.data(), dy.data(), table.data(),
                       nullptr);
  state.counters["GB/s"] =
      perSecond(4 * double(table.size()) + 12 * double(dy.size()));
}
BENCHMARK(EmbeddingGrad)->Args({1024, 384, 8192})->UseRealTime();

} // namespace

BENCHMARK_MAIN();
