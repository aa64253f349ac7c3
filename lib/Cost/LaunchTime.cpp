// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long one launch takes: products by their shape, attention by its FLOPs,
// everything else by its bytes.

#include "shardonnx/Cost/Exposure.h"

#include <algorithm>
#include <optional>

namespace shardonnx {
namespace {

struct ProductShape {
  double count = 1, rows = 0, depth = 0, columns = 0;
};

// "gemm 8192x4096x6144 gelu": rows x depth x columns, behind any batches.
std::optional<ProductShape> shapeOf(const std::string &name) {
  size_t begin = name.find(' ');
  if (begin == std::string::npos)
    return std::nullopt;
  std::vector<double> sizes;
  double size = 0;
  bool digits = false;
  for (size_t at = begin + 1; at <= name.size(); ++at) {
    char letter = at < name.size() ? name[at] : ' ';
    if (letter >= '0' && letter <= '9') {
      size = 10 * size + (letter - '0');
      digits = true;
      continue;
    }
    if (!digits)
      return std::nullopt;
    sizes.push_back(size);
    size = 0;
    digits = false;
    if (letter != 'x')
      break;
  }
  if (sizes.size() < 3)
    return std::nullopt;
  ProductShape shape;
  shape.columns = sizes.back();
  shape.depth = sizes[sizes.size() - 2];
  shape.rows = sizes[sizes.size() - 3];
  for (size_t i = 0; i + 3 < sizes.size(); ++i)
    shape.count *= sizes[i];
  return shape;
}

} // namespace

double launchSeconds(const Manifest::Launch &launch, Manifest::Phase phase,
                     const Device &device, bool half) {
  double bytes = launch.readBytes + launch.writtenBytes;
  double least =
      device.launchSeconds *
      static_cast<double>(std::max<int64_t>(1, launch.kernels + launch.calls));
  double seconds = 0;
  std::optional<ProductShape> shape;
  if (launch.kind == "product")
    shape = shapeOf(launch.name);
  if (shape)
    seconds = device.productSeconds(shape->rows, shape->depth, shape->columns,
                                    shape->count, bytes, half);
  else if (launch.kind == "attention")
    seconds = device.attentionSeconds(launch.flops, bytes,
                                      phase == Manifest::Phase::Backward, half);
  else if (launch.kind == "loss") // products, and passes over their results
    seconds = device.workSeconds(launch.flops, 0, half) +
              device.workSeconds(0, bytes, half);
  else
    seconds = device.workSeconds(launch.flops, bytes, half);
  return std::max(seconds, least);
}

} // namespace shardonnx
