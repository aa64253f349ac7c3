// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_group_rows: rows sorted by their groups, by one block. Each warp counts
// and then places neighbouring rows, so that the order is that of the rows
// however the warps take turns. The kernel is nvcc's, its launch is the C++
// compiler's.

#include "../kernels/GroupedShapes.h"
#include "../kernels/OutsideCells.h"

#ifdef __CUDACC__

#include "../kernels/Outside.cuh"

namespace shardonnx::rt::cuda {
namespace {

// A warp's rows, 32 at a time, and how many of each group it has met.
struct Segment {
  const ShxGroupRows &d;
  const void *indices;
  OutsideCells outside;
  uint32_t *counts;
  int64_t begin, end;
  int bits; // of a group's number

  // Rows outside are told, and go to the first group.
  __device__ uint32_t groupOf(int64_t row) const {
    int64_t group =
        placeOrNote(indexAt(d.indexDtype, indices, row), d.groups, outside);
    return group < 0 ? 0 : uint32_t(group);
  }

  // place(row, how many rows of its group come before)
  template <typename Place> __device__ void walk(Place place) const {
    for (int64_t first = begin; first < end; first += kWarp) {
      const int64_t row = first + lane();
      const bool valid = row < end;
      const uint32_t group = valid ? groupOf(row) : 0;
      unsigned peers = __ballot_sync(kAllLanes, valid);
      for (int b = 0; b < bits; ++b) {
        const bool set = (group >> b & 1) != 0;
        const unsigned lanes = __ballot_sync(kAllLanes, set);
        peers &= set ? lanes : ~lanes;
      }
      const unsigned below = peers & lanesBelow();
      const uint32_t before = counts[group];
      if (valid)
        place(row, before + uint32_t(__popc(below)));
      __syncwarp();
      if (valid && below == 0)
        counts[group] = before + uint32_t(__popc(peers));
      __syncwarp();
    }
  }
};

// counts[w][g]: how many rows of g warp w has, and then how many rows come
// before them. begins[g]: where g begins.
__device__ void scanCounts(uint32_t *counts, int warps, int groups,
                           int32_t *begins) {
  __shared__ uint32_t sums[kRouteThreads / kWarp];
  const int each = (groups + int(blockDim.x) - 1) / int(blockDim.x);
  const int first = min(groups, each * int(threadIdx.x));
  const int last = min(groups, first + each);
  uint32_t mine = 0;
  for (int g = first; g < last; ++g)
    for (int w = 0; w < warps; ++w)
      mine += counts[w * groups + g];
  uint32_t before = blockSumBefore(mine, sums);
  for (int g = first; g < last; ++g) {
    begins[g] = int32_t(before);
    for (int w = 0; w < warps; ++w) {
      const uint32_t here = counts[w * groups + g];
      counts[w * groups + g] = before;
      before += here;
    }
  }
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;

extern "C" __global__ void __launch_bounds__(kRouteThreads)
    shx_k_group_rows(const __grid_constant__ ShxGroupRows d,
                     const void *indices, int32_t *routes,
                     OutsideCells outside) {
  __shared__ uint32_t counts[SHX_MOST_GROUPS];
  const int warps = int(blockDim.x) / kWarp, groups = int(d.groups);
  int32_t *order = routes + groups + 1;
  for (int i = int(threadIdx.x); i < warps * groups; i += int(blockDim.x))
    counts[i] = 0;
  __syncthreads();
  const int64_t each = (d.rows + warps * kWarp - 1) / (warps * kWarp) * kWarp;
  const int64_t begin = min(d.rows, warp() * each);
  const int64_t end = min(d.rows, begin + each);
  Segment segment{d,
                  indices,
                  outside,
                  counts + warp() * groups,
                  begin,
                  end,
                  kWarp - __clz(groups - 1)};
  segment.walk([](int64_t, uint32_t) {});
  __syncthreads();
  scanCounts(counts, warps, groups, routes);
  if (threadIdx.x == 0)
    routes[groups] = int32_t(d.rows);
  __syncthreads();
  segment.walk(
      [&](int64_t row, uint32_t place) { order[place] = int32_t(row); });
}

#else

#include "../launch/Launch.h"
#include <algorithm>

using namespace shardonnx::rt::cuda;

void shx_group_rows(ShxContext *ctx, const ShxGroupRows *desc,
                    const void *indices, int32_t *routes, const char *what) {
  Context &context = contextOf(ctx);
  // Each warp has a counter for each group.
  int64_t warps = std::clamp<int64_t>(SHX_MOST_GROUPS / desc->groups, 1,
                                      kRouteThreads / 32);
  launch(context, "shx_k_group_rows", 1, warps * 32, 0, *desc, indices, routes,
         outsideCells(context.cells.outside, what));
}

#endif
