// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cross-entropy of rows of logits, a block a row, and its gradient, which may
// take the logits' place. For a row z with label y:
//   loss = log Σ exp(z_j) - z_y,  dz_j = seed · (exp(z_j) / Σ exp(z) - [j = y])
// The maximum and the sum come out of one pass (Milakov and Gimelshein, "Online
// normalizer calculation for softmax", 2018). Rows of an odd length do not
// begin at multiples of 16 bytes: what is before the first such address and
// after the last is done one by one.

#include "Device.cuh"
#include "Shapes.h"
#include "shardonnx/runtime/MeshABI.h"
#include <cfloat>

namespace shardonnx::rt::cuda {
namespace {

// exp(x) for the x ≤ 0 that softmax has: results below 2^-126 are zero, the
// others within 2 ulp and the rounding of x.
__device__ float expOf(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * 1.44269504f));
  return result;
}

struct LossArgs {
  const void *logits;
  void *dlogits; // may be null, may be logits
  const void *labels;
  const float *seed;
  double *losses; // one per block
  int64_t rows, stride;
  int64_t ignored; // a label
  int32_t classes, labelDtype;
  float softcap; // 0: none
};

// Σ exp(x - high) over what was seen. Starts at the least finite number, for
// which exp(-inf - high) is 0 and not NaN.
struct Normalizer {
  float high = -FLT_MAX, sum = 0;
  __device__ void raise(float to) {
    sum *= expOf(high - to);
    high = to;
  }
  __device__ void add(float x) {
    if (x > high)
      raise(x);
    sum += expOf(x - high);
  }
  template <int Count> __device__ void add(const Pack (&packs)[Count]) {
    float top = packs[0].x[0];
#pragma unroll
    for (int i = 0; i < Count * kPack; ++i)
      top = fmaxf(top, packs[i / kPack].x[i % kPack]);
    if (top > high)
      raise(top);
    float parts[Count] = {};
#pragma unroll
    for (int i = 0; i < Count * kPack; ++i)
      parts[i / kPack] += expOf(packs[i / kPack].x[i % kPack] - high);
#pragma unroll
    for (int i = 0; i < Count; ++i)
      sum += parts[i];
  }
  __device__ void merge(float otherHigh, float otherSum) {
    float top = fmaxf(high, otherHigh);
    sum = sum * expOf(high - top) + otherSum * expOf(otherHigh - top);
    high = top;
  }
  __device__ void mergeWarp() {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
      float otherHigh = __shfl_xor_sync(kAllLanes, high, step);
      float otherSum = __shfl_xor_sync(kAllLanes, sum, step);
      merge(otherHigh, otherSum);
    }
  }
};

struct Capped {
  float value, slope;
};
template <bool Softcap> __device__ Capped cap(float x, float softcap) {
  if (!Softcap)
    return {x, 1.f};
  float t = tanhf(x / softcap);
  return {softcap * t, 1.f - t * t};
}

// A row cut into a head, packs, and a tail. forEach calls packs(j, loaded) for
// packs of this thread, kStep elements apart from j on, which are loaded
// before any of them is used, and one(j) for each other element.
struct Cut {
  static constexpr int32_t kStep = kLossThreads * kPack;
  int32_t head, tail, length; // [0, head) and [tail, length) are no packs
  template <typename Element>
  __device__ Cut(const Element *from, const Element *to, int32_t length)
      : length(length) {
    auto at = reinterpret_cast<uintptr_t>(from);
    bool alike = ((at ^ reinterpret_cast<uintptr_t>(to)) & 15) == 0;
    int32_t before = int32_t((16 - (at & 15)) & 15) / int32_t(sizeof(Element));
    head = alike ? min(before, length) : length;
    tail = head + (length - head) / kPack * kPack;
  }
  template <int32_t Type, int Batch, typename Packs, typename One>
  __device__ void forEach(const Stored<Type> *row, Packs packs, One one) const {
    int32_t j = head + int32_t(threadIdx.x) * kPack;
    for (; j + (Batch - 1) * kStep < tail; j += Batch * kStep)
      loadAndCall<Type, Batch>(row, j, packs);
    if (Batch > 1)
#pragma unroll 1
      for (; j < tail; j += kStep)
        loadAndCall<Type, 1>(row, j, packs);
    int32_t singles = head + length - tail;
#pragma unroll 1
    for (int32_t i = int32_t(threadIdx.x); i < singles; i += kLossThreads)
      one(i < head ? i : tail - head + i);
  }

private:
  template <int32_t Type, int Batch, typename Packs>
  static __device__ void loadAndCall(const Stored<Type> *row, int32_t j,
                                     Packs packs) {
    Pack loaded[Batch];
#pragma unroll
    for (int i = 0; i < Batch; ++i)
      loaded[i] = loadPack<Type>(row + j + i * kStep);
    packs(j, loaded);
  }
};

// The sum of all threads' normalizers, in every thread. Merged in one order.
__device__ Normalizer mergeBlock(Normalizer mine) {
  __shared__ float highs[kWarp], sums[kWarp];
  mine.mergeWarp();
  __syncthreads(); // the last row's values have been read
  if (lane() == 0) {
    highs[warp()] = mine.high;
    sums[warp()] = mine.sum;
  }
  __syncthreads();
  bool held = lane() < int(blockDim.x / kWarp);
  Normalizer all;
  all.high = held ? highs[lane()] : -FLT_MAX;
  all.sum = held ? sums[lane()] : 0.f;
  all.mergeWarp();
  return all;
}

// Packs in flight; a soft cap has no use for many, as tanh takes longer.
template <bool Softcap> constexpr int kBatch = Softcap ? 1 : 4;

template <int32_t Type, bool Softcap>
__device__ Normalizer normalize(const Stored<Type> *row, const Cut &cut,
                                float softcap) {
  Normalizer mine;
  auto packs = [&](int32_t, auto &loaded) {
    if (Softcap)
#pragma unroll
      for (Pack &pack : loaded)
#pragma unroll
        for (float &x : pack.x)
          x = cap<Softcap>(x, softcap).value;
    mine.add(loaded);
  };
  auto one = [&](int32_t j) {
    mine.add(cap<Softcap>(Float<Type>::widen(row[j]), softcap).value);
  };
  cut.forEach<Type, kBatch<Softcap>>(row, packs, one);
  return mergeBlock(mine);
}

template <int32_t Type, bool Softcap>
__device__ void writeGradient(const Stored<Type> *row, Stored<Type> *to,
                              const Cut &cut, int64_t label, Normalizer all,
                              float seed, float softcap) {
  float scale = seed / all.sum;
  auto gradient = [&](float x, bool atLabel) {
    Capped z = cap<Softcap>(x, softcap);
    float p = scale * expOf(z.value - all.high);
    return (atLabel ? p - seed : p) * z.slope;
  };
  auto packs = [&](int32_t j, auto &loaded) {
#pragma unroll
    for (Pack &pack : loaded) {
      int64_t place = label - j;
      if (place < 0 || place >= kPack)
#pragma unroll
        for (float &x : pack.x)
          x = gradient(x, false);
      else
#pragma unroll
        for (int i = 0; i < kPack; ++i)
          pack.x[i] = gradient(pack.x[i], i == place);
      storePack<Type>(to + j, pack);
      j += Cut::kStep;
    }
  };
  auto one = [&](int32_t j) {
    to[j] =
        Float<Type>::narrow(gradient(Float<Type>::widen(row[j]), j == label));
  };
  cut.forEach<Type, kBatch<Softcap>>(row, packs, one);
}

template <int32_t Type>
__device__ void writeZeros(Stored<Type> *to, const Cut &cut) {
  for (int32_t j = cut.head + int32_t(threadIdx.x) * kPack; j < cut.tail;
       j += Cut::kStep)
    storePack<Type>(to + j, Pack{});
  int32_t singles = cut.head + cut.length - cut.tail;
  for (int32_t i = int32_t(threadIdx.x); i < singles; i += kLossThreads)
    to[i < cut.head ? i : cut.tail - cut.head + i] = 0;
}

// A label that is neither ignored nor a class gives NaN: the loss then shows
// it, and nothing outside the row is touched.
template <int32_t Type, bool Softcap>
__device__ double lossOfRow(const LossArgs &args, int64_t r) {
  int64_t label = indexAt(args.labelDtype, args.labels, r);
  const Stored<Type> *row = typed<Type>(args.logits, r * args.stride);
  Stored<Type> *to =
      args.dlogits ? typed<Type>(args.dlogits, r * args.stride) : nullptr;
  Cut cut(row, args.dlogits ? to : row, args.classes);
  if (label == args.ignored) {
    if (to)
      writeZeros<Type>(to, cut);
    return 0;
  }
  // Read before the gradient takes its place.
  float atLabel = label >= 0 && label < args.classes
                      ? Float<Type>::widen(row[label])
                      : __int_as_float(0x7fffffff);
  Normalizer all = normalize<Type, Softcap>(row, cut, args.softcap);
  if (to)
    writeGradient<Type, Softcap>(row, to, cut, label, all, *args.seed,
                                 args.softcap);
  float z = cap<Softcap>(atLabel, args.softcap).value;
  return double(logf(all.sum)) - (double(z) - double(all.high));
}

// The losses of a call without a workspace; calls of one device follow one
// another in its compute stream.
__device__ double blockLosses[kLossBlocks];

template <int32_t Type> __device__ void crossEntropy(const LossArgs &args) {
  double loss = 0;
  for (int64_t r = blockIdx.x; r < args.rows; r += gridDim.x)
    loss += args.softcap == 0 ? lossOfRow<Type, false>(args, r)
                              : lossOfRow<Type, true>(args, r);
  if (threadIdx.x == 0)
    (args.losses ? args.losses : blockLosses)[blockIdx.x] = loss;
}

// Of a vocabulary that ranks share: what each tells the others of a row. The
// logarithm of the sum of its words' exponentials, and the label's logit, which
// is one rank's; the others say 0, and NaN of a label that is no word.
struct Share {
  float logSum, label;
};
static_assert(sizeof(Share) == SHX_LOSS_SHARE_NUMBERS * sizeof(float), "");

template <int32_t Type>
__device__ void shareRow(const LossArgs &args, const TableRows &words,
                         Share *shares) {
  int64_t r = blockIdx.x, label = indexAt(args.labelDtype, args.labels, r);
  Share mine{0, 0};
  if (label != args.ignored) {
    const Stored<Type> *row = typed<Type>(args.logits, r * args.stride);
    Normalizer here =
        normalize<Type, false>(row, Cut(row, row, args.classes), args.softcap);
    mine.logSum = here.high + logf(here.sum);
    int64_t place = label - words.first;
    if (place >= 0 && place < args.classes)
      mine.label = Float<Type>::widen(row[place]);
    else if (label < 0 || label >= words.all)
      mine.label = __int_as_float(0x7fffffff);
  }
  if (threadIdx.x == 0)
    shares[r] = mine;
}

// Of a row of all ranks' words, in the order of ranks: all have the same bits.
__device__ Share wholeOf(const Share *shares, int32_t ranks, int64_t rows) {
  float high = -FLT_MAX, sum = 0;
  Share whole{0, 0};
  for (int32_t rank = 0; rank < ranks; ++rank)
    high = fmaxf(high, shares[rank * rows].logSum);
  for (int32_t rank = 0; rank < ranks; ++rank) {
    sum += expf(shares[rank * rows].logSum - high);
    whole.label += shares[rank * rows].label;
  }
  whole.logSum = high + logf(sum);
  return whole;
}

template <int32_t Type>
__device__ void lossOfShares(const LossArgs &args, const TableRows &words,
                             const Share *shares, int32_t ranks) {
  int64_t r = blockIdx.x, label = indexAt(args.labelDtype, args.labels, r);
  Stored<Type> *row =
      args.dlogits ? typed<Type>(args.dlogits, r * args.stride) : nullptr;
  Cut cut(row, row, args.classes);
  double loss = 0;
  if (label == args.ignored) {
    if (row)
      writeZeros<Type>(row, cut);
  } else {
    Share whole = wholeOf(shares + r, ranks, args.rows);
    loss = double(whole.logSum) - double(whole.label);
    Normalizer all;
    all.high = whole.logSum, all.sum = 1;
    if (row)
      writeGradient<Type, false>(row, row, cut, label - words.first, all,
                                 *args.seed, args.softcap);
  }
  // Behind the words, to the end of the rows that a rank has, there are none.
  for (int64_t j = args.classes + threadIdx.x; row && j < words.count;
       j += kLossThreads)
    row[j] = 0;
  if (threadIdx.x == 0)
    args.losses[r] = loss;
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

#define SHX_CROSS_ENTROPY(suffix, Type)                                        \
  extern "C" __global__ void __launch_bounds__(kLossThreads, 2)                \
      shx_k_cross_entropy_##suffix(                                            \
          const void *logits, void *dlogits, const void *labels,               \
          const float *seed, double *losses, int64_t rows, int64_t stride,     \
          int64_t ignored, int32_t classes, int32_t labelDtype,                \
          float softcap) {                                                     \
    crossEntropy<Type>({logits, dlogits, labels, seed, losses, rows, stride,   \
                        ignored, classes, labelDtype, softcap});               \
  }
SHX_FOR_FLOATS(SHX_CROSS_ENTROPY)

#define SHX_LOSS_SHARE(suffix, Type)                                           \
  extern "C" __global__ void __launch_bounds__(kLossThreads, 2)                \
      shx_k_loss_share_##suffix(const void *logits, const void *labels,        \
                                void *shares, TableRows words, int64_t stride, \
                                int64_t ignored, int32_t classes,              \
                                int32_t labelDtype) {                          \
    LossArgs args{logits, nullptr, labels,  nullptr,    nullptr, gridDim.x,    \
                  stride, ignored, classes, labelDtype, 0};                    \
    shareRow<Type>(args, words, static_cast<Share *>(shares));                 \
  }
SHX_FOR_FLOATS(SHX_LOSS_SHARE)

// Gradients take the place of the logits; null: there are none.
#define SHX_SHARED_LOSS(suffix, Type)                                          \
  extern "C" __global__ void __launch_bounds__(kLossThreads, 2)                \
      shx_k_shared_loss_##suffix(                                              \
          void *dlogits, const void *labels, const float *seed,                \
          const void *shares, double *losses, TableRows words, int64_t stride, \
          int64_t ignored, int32_t classes, int32_t labelDtype,                \
          int32_t ranks) {                                                     \
    LossArgs args{dlogits, dlogits, labels,  seed,       losses, gridDim.x,    \
                  stride,  ignored, classes, labelDtype, 0};                   \
    lossOfShares<Type>(args, words, static_cast<const Share *>(shares),        \
                       ranks);                                                 \
  }
SHX_FOR_FLOATS(SHX_SHARED_LOSS)

// *loss = Σ losses, in double. One block; each thread adds every
// kLossThreads-th, then the block adds as a tree.
extern "C" __global__ void __launch_bounds__(kLossThreads)
    shx_k_sum_losses(const double *losses, int64_t count, float *loss) {
  __shared__ double shared[kWarp];
  const double *from = losses ? losses : blockLosses;
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kLossThreads)
    sum += from[i];
  sum = blockSum(sum, shared);
  if (threadIdx.x == 0)
    *loss = float(sum);
}
