// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// dtable[ids[i], :] += dy[i, :]. The positions are sorted by id with a stable
// radix sort (Merrill and Grimshaw, "High performance and scalable radix
// sorting", 2011: count, scan, scatter), then each warp adds a tile of sorted
// rows: the work is even however often an id occurs, and the order of every
// sum follows from the ids alone. A run of one id that crosses tiles leaves one
// partial sum in each, which a second kernel adds in order. Rows of the table
// that are not here are one row behind those that are, of which there is no
// sum.

#include "Device.cuh"
#include "Shapes.h"

namespace shardonnx::rt::cuda {
namespace {

// Keys to be sorted: the rows of the ids themselves in the first pass. The
// forward has told of ids outside of the table; here they only must not leave
// it.
struct Keys {
  const void *ids;
  int32_t idDtype;
  TableRows part;
  const uint32_t *sorted; // by lower digits; null: ids
  __device__ uint32_t at(int64_t i) const {
    if (sorted)
      return sorted[i];
    int64_t row = placeWithin(indexAt(idDtype, ids, i), part.all, nullptr);
    if (row < 0)
      return 0;
    int64_t place = row - part.first;
    return uint32_t(place >= 0 && place < part.count ? place : part.count);
  }
};

struct Digit {
  int32_t shift, bits;
  __device__ int count() const { return 1 << bits; }
  __device__ uint32_t of(uint32_t key) const {
    return key >> shift & ((1u << bits) - 1);
  }
};

using Counters = uint32_t (*)[1 << kMaxDigitBits];

__device__ int64_t firstOfWarp() {
  return int64_t(blockIdx.x) * kSortTile + warp() * (kSortRounds * kWarp);
}

// counters[w][d] becomes the number of keys with digit d in warp w's part of
// the tile; rank[r] how many of them precede this lane's key of round r.
__device__ void rankTile(const Keys &keys, int64_t count, Digit digit,
                         Counters counters, uint32_t (&rank)[kSortRounds]) {
  for (int i = int(threadIdx.x); i < kSortWarps << kMaxDigitBits;
       i += kSortThreads)
    counters[0][i] = 0;
  __syncthreads();
  uint32_t *mine = counters[warp()];
#pragma unroll
  for (int r = 0; r < kSortRounds; ++r) {
    int64_t i = firstOfWarp() + r * kWarp + lane();
    bool valid = i < count;
    uint32_t d = valid ? digit.of(keys.at(i)) : 0;
    unsigned peers = __ballot_sync(kAllLanes, valid);
    for (int b = 0; b < digit.bits; ++b) {
      bool set = (d >> b & 1) != 0;
      unsigned lanes = __ballot_sync(kAllLanes, set);
      peers &= set ? lanes : ~lanes;
    }
    uint32_t before = mine[d];
    rank[r] = before + uint32_t(__popc(peers & lanesBelow()));
    __syncwarp();
    if (valid && (peers & lanesBelow()) == 0)
      mine[d] = before + uint32_t(__popc(peers));
    __syncwarp();
  }
  __syncthreads();
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

// counts[digit][block]: how often each digit occurs in each tile.
extern "C" __global__ void __launch_bounds__(kSortThreads)
    shx_k_sort_count(const void *ids, const uint32_t *sorted, uint32_t *counts,
                     int64_t count, TableRows part, int32_t idDtype,
                     int32_t shift, int32_t bits) {
  __shared__ uint32_t counters[kSortWarps][1 << kMaxDigitBits];
  uint32_t rank[kSortRounds];
  Digit digit{shift, bits};
  rankTile({ids, idDtype, part, sorted}, count, digit, counters, rank);
  for (int d = int(threadIdx.x); d < digit.count(); d += kSortThreads) {
    uint32_t sum = 0;
    for (int w = 0; w < kSortWarps; ++w)
      sum += counters[w][d];
    counts[int64_t(d) * gridDim.x + blockIdx.x] = sum;
  }
}

// Each count becomes the sum of those before it. One block.
extern "C" __global__ void __launch_bounds__(kScanThreads)
    shx_k_sort_scan(uint32_t *counts, int64_t count) {
  __shared__ uint32_t sums[kScanThreads / kWarp];
  int64_t each = (count + kScanThreads - 1) / kScanThreads;
  int64_t begin = min(count, each * threadIdx.x);
  int64_t end = min(count, begin + each);
  uint32_t mine = 0;
  for (int64_t i = begin; i < end; ++i)
    mine += counts[i];
  uint32_t before = blockSumBefore(mine, sums);
  for (int64_t i = begin; i < end; ++i) {
    uint32_t here = counts[i];
    counts[i] = before;
    before += here;
  }
}

// Keys and positions go where their digits belong, in their former order.
extern "C" __global__ void __launch_bounds__(kSortThreads)
    shx_k_sort_scatter(const void *ids, const uint32_t *sorted,
                       const uint32_t *order, const uint32_t *counts,
                       uint32_t *keysOut, uint32_t *orderOut, int64_t count,
                       TableRows part, int32_t idDtype, int32_t shift,
                       int32_t bits) {
  __shared__ uint32_t counters[kSortWarps][1 << kMaxDigitBits];
  uint32_t rank[kSortRounds];
  Keys keys{ids, idDtype, part, sorted};
  Digit digit{shift, bits};
  rankTile(keys, count, digit, counters, rank);
  for (int d = int(threadIdx.x); d < digit.count(); d += kSortThreads) {
    uint32_t place = counts[int64_t(d) * gridDim.x + blockIdx.x];
    for (int w = 0; w < kSortWarps; ++w) {
      uint32_t here = counters[w][d];
      counters[w][d] = place;
      place += here;
    }
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kSortRounds; ++r) {
    int64_t i = firstOfWarp() + r * kWarp + lane();
    if (i >= count)
      continue;
    uint32_t key = keys.at(i);
    uint32_t place = counters[warp()][digit.of(key)] + rank[r];
    keysOut[place] = key;
    orderOut[place] = sorted ? order[i] : uint32_t(i);
  }
}

namespace shardonnx::rt::cuda {
namespace {

// The columns of a lane: a pack of neighbours where 16-byte accesses are
// possible, else every 32nd.
struct Columns {
  int64_t first, step, width;
  __device__ Columns(int64_t width, bool packed)
      : first(slab() * kSumColumns + lane() * (packed ? kPack : 1)),
        step(packed ? 1 : kWarp), width(width) {}
  // The slabs of a block are neighbours.
  static __device__ int64_t slab() {
    return int64_t(blockIdx.y) * (kSumThreads / kWarp) + warp();
  }
  __device__ bool none() const { return slab() * kSumColumns >= width; }

  template <int32_t Type> __device__ Pack load(const Stored<Type> *row) const {
    if (step == 1)
      return first < width ? loadPack<Type>(row + first) : Pack{};
    Pack pack;
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      int64_t x = first + j * kWarp;
      pack.x[j] = x < width ? Float<Type>::widen(row[x]) : 0.f;
    }
    return pack;
  }
  template <int32_t Type>
  __device__ void store(Stored<Type> *row, const Pack &pack) const {
    if (step == 1) {
      if (first < width)
        storePack<Type>(row + first, pack);
      return;
    }
#pragma unroll
    for (int j = 0; j < kPack; ++j) {
      int64_t x = first + j * kWarp;
      if (x < width)
        row[x] = Float<Type>::narrow(pack.x[j]);
    }
  }
};

__device__ void addPack(Pack &sum, const Pack &pack) {
#pragma unroll
  for (int j = 0; j < kPack; ++j)
    sum.x[j] += pack.x[j];
}

// Where sums end: a row of the table, rounded once.
template <int32_t Table> struct Target {
  void *table;
  int64_t padding; // an id that gets none
  int64_t rows;    // from this id on, none does
  bool accumulate;
  __device__ bool has(uint32_t key) const {
    return int64_t(key) != padding && int64_t(key) < rows;
  }
  __device__ void add(uint32_t key, Pack sum, const Columns &columns) const {
    if (!has(key))
      return;
    Stored<Table> *row = typed<Table>(table, int64_t(key) * columns.width);
    if (accumulate)
      addPack(sum, columns.load<Table>(row));
    columns.store<Table>(row, sum);
  }
};

// Rows of partial sums are padded, so that they are always packed.
__device__ float *partialRow(float *partial, int64_t tile, int side,
                             const Columns &columns) {
  int64_t padded = (columns.width + kPack - 1) / kPack * kPack;
  return partial + (tile * 2 + side) * padded;
}

// partial[tile][0] is of the run that began in an earlier tile, partial[tile]
// [1] of the one that begins here and goes on in the next. Rows are fetched
// kBatch at a time, whichever runs they belong to, and wait in shared memory:
// each lane reads there what it wrote itself.
template <int32_t Table, int32_t Dy>
__device__ void sumTile(const uint32_t *__restrict__ keys,
                        const uint32_t *__restrict__ order,
                        const void *__restrict__ dy, float *partial,
                        const Target<Table> &target, int64_t count,
                        int64_t width, int64_t ldDy, bool packed) {
  constexpr int kBatch = 8;
  __shared__ float4 staged[kSumThreads / kWarp][kBatch][2][kWarp];
  Columns columns(width, packed);
  if (columns.none())
    return;
  auto &mine = staged[warp()];
  int64_t tile = blockIdx.x, begin = tile * kSumTile;
  int64_t end = min(count, begin + kSumTile);
  if (!target.has(keys[begin]) && keys[begin] == keys[end - 1])
    return;
  bool head = begin > 0 && keys[begin - 1] == keys[begin];
  Pack sum{};
  for (int64_t first = begin; first < end; first += kBatch) {
    int rows = int(min(int64_t(kBatch), end - first));
    auto fetch = [&](int j) {
      Pack row = columns.load<Dy>(typed<Dy>(dy, order[first + j] * ldDy));
      mine[j][0][lane()] = make_float4(row.x[0], row.x[1], row.x[2], row.x[3]);
      mine[j][1][lane()] = make_float4(row.x[4], row.x[5], row.x[6], row.x[7]);
    };
    if (packed && rows == kBatch) {
#pragma unroll
      for (int j = 0; j < kBatch; ++j)
        fetch(j);
    } else {
#pragma unroll 1
      for (int j = 0; j < rows; ++j)
        fetch(j);
    }
#pragma unroll 1
    for (int j = 0; j < rows; ++j) {
      float4 low = mine[j][0][lane()], high = mine[j][1][lane()];
      addPack(sum,
              {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}});
      int64_t next = first + j + 1;
      uint32_t key = keys[next - 1];
      bool sameNext = next < count && keys[next] == key;
      if (sameNext && next < end)
        continue;
      if (head || sameNext)
        columns.store<SHX_F32>(partialRow(partial, tile, head ? 0 : 1, columns),
                               sum);
      else
        target.add(key, sum, columns);
      head = false;
      sum = Pack{};
    }
  }
}

// The end of the run of `key` that goes on at `begin`.
__device__ int64_t endOfRun(const uint32_t *keys, int64_t begin, int64_t count,
                            uint32_t key) {
  int64_t low = begin, high = count; // keys[low - 1] == key < keys[high]
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (keys[middle] == key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Adds what the tiles of one run left, in the warp of the tile it begins in.
template <int32_t Table>
__device__ void joinTiles(const uint32_t *__restrict__ keys,
                          float *__restrict__ partial,
                          const Target<Table> &target, int64_t count,
                          int64_t width, bool packed) {
  Columns columns(width, packed);
  int64_t tile = blockIdx.x, begin = tile * kSumTile, end = begin + kSumTile;
  if (columns.none() || end >= count)
    return;
  uint32_t key = keys[end - 1];
  if (!target.has(key))
    return;
  bool beganEarlier = begin > 0 && keys[begin - 1] == key;
  if (keys[end] != key || beganEarlier)
    return;
  int64_t last = (endOfRun(keys, end, count, key) - 1) / kSumTile;
  Pack sum = columns.load<SHX_F32>(partialRow(partial, tile, 1, columns));
#pragma unroll 4
  for (int64_t t = tile + 1; t <= last; ++t)
    addPack(sum, columns.load<SHX_F32>(partialRow(partial, t, 0, columns)));
  target.add(key, sum, columns);
}

} // namespace
} // namespace shardonnx::rt::cuda

#define SHX_SUM_TILE(suffix, Table, Dy)                                        \
  extern "C" __global__ void __launch_bounds__(kSumThreads)                    \
      shx_k_embedding_sum_##suffix(                                            \
          const uint32_t *keys, const uint32_t *order, const void *dy,         \
          float *partial, void *table, int64_t padding, int64_t here,          \
          int64_t count, int64_t width, int64_t ldDy, int32_t accumulate,      \
          int32_t packed) {                                                    \
    sumTile<Table, Dy>(keys, order, dy, partial,                               \
                       Target<Table>{table, padding, here, accumulate != 0},   \
                       count, width, ldDy, packed != 0);                       \
  }
SHX_FOR_FLOAT_PAIRS(SHX_SUM_TILE)

#define SHX_JOIN_TILES(suffix, Table)                                          \
  extern "C" __global__ void __launch_bounds__(kSumThreads)                    \
      shx_k_embedding_join_##suffix(                                           \
          const uint32_t *keys, float *partial, void *table, int64_t padding,  \
          int64_t here, int64_t count, int64_t width, int32_t accumulate,      \
          int32_t packed) {                                                    \
    joinTiles<Table>(keys, partial,                                            \
                     Target<Table>{table, padding, here, accumulate != 0},     \
                     count, width, packed != 0);                               \
  }
SHX_FOR_FLOATS(SHX_JOIN_TILES)
