// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rows of which group a block multiplies: groups are as large as the data
// says, so blocks find out on the device.

#ifndef SHARDONNX_RUNTIME_CUDA_KERNELS_GROUPEDTILE_CUH
#define SHARDONNX_RUNTIME_CUDA_KERNELS_GROUPEDTILE_CUH

#include "Device.cuh"
#include "GroupedShapes.h"

namespace shardonnx::rt::cuda {

/// The routes of shx_group_rows.
struct Routes {
  const int32_t *begins; // of each group, and the end of the last
  const int32_t *order;
  __device__ Routes(const ShxGroupedGemm &d, const int32_t *routes)
      : begins(routes), order(routes + d.groups + 1) {}
};

/// Some rows of one group, by their places in the order.
struct GroupedRows {
  int64_t group;
  int begin, end;
};

/// Part `index` of all groups, each cut into parts of `Tile` rows; false when
/// there are fewer. Every warp looks for itself.
template <int Tile>
__device__ bool findRows(const Routes &routes, int64_t groups, int index,
                         GroupedRows &rows) {
  int before = 0; // parts of earlier groups
  for (int64_t first = 0; first < groups; first += kWarp) {
    int64_t group = first + lane();
    int begin = group < groups ? routes.begins[group] : 0;
    int end = group < groups ? routes.begins[group + 1] : 0;
    int parts = (end - begin + Tile - 1) / Tile;
    int through = warpSumThrough(parts);
    unsigned beyond = __ballot_sync(kAllLanes, before + through > index);
    if (beyond) {
      int here = __ffs(int(beyond)) - 1;
      int skipped = __shfl_sync(kAllLanes, before + through - parts, here);
      rows.group = first + here;
      rows.begin =
          __shfl_sync(kAllLanes, begin, here) + (index - skipped) * Tile;
      rows.end = min(rows.begin + Tile, __shfl_sync(kAllLanes, end, here));
      return true;
    }
    before += __shfl_sync(kAllLanes, through, kWarp - 1);
  }
  return false;
}

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_KERNELS_GROUPEDTILE_CUH
