// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How long one launch takes: products by their shape, attention by its FLOPs,
// what ranks of an axis exchange by their links, everything else by its bytes.

#include "shardonnx/Cost/AxisTime.h"
#include "shardonnx/Cost/Exposure.h"

#include <algorithm>

namespace shardonnx {
namespace {

// "gemm 8192x4096x6144 gelu", "f8_gemm 8192x4096x6144": rows x depth x columns,
// behind any batches. "attention 4x2048x32x128 causal": batch x sequence x
// heads x headDim. Empty: none is told.
std::vector<double> sizesOf(const std::string &name) {
  std::vector<double> sizes;
  double size = 0;
  bool digits = false;
  for (size_t at = name.find(' '); at != std::string::npos;) {
    char letter = ++at < name.size() ? name[at] : ' ';
    if (letter >= '0' && letter <= '9') {
      size = 10 * size + (letter - '0');
      digits = true;
      continue;
    }
    if (!digits)
      return {};
    sizes.push_back(size);
    size = 0;
    digits = false;
    if (letter != 'x')
      break;
  }
  return sizes;
}

double productSeconds(const std::string &name, const std::vector<double> &sizes,
                      double bytes, const Device &device, bool half) {
  if (name.rfind("f8_gemm ", 0) == 0)
    return device.f8ProductSeconds(sizes[0], sizes[1], sizes[2], bytes);
  double count = 1;
  size_t batches = sizes.size() - 3;
  for (size_t i = 0; i < batches; ++i)
    count *= sizes[i];
  return device.productSeconds(sizes[batches], sizes[batches + 1],
                               sizes[batches + 2], count, bytes, half);
}

AttentionShape attentionShapeOf(const std::string &name,
                                Manifest::Phase phase) {
  AttentionShape shape;
  shape.backward = phase == Manifest::Phase::Backward;
  if (std::vector<double> sizes = sizesOf(name); sizes.size() == 4) {
    shape.sequence = sizes[1];
    shape.headDim = sizes[3];
  }
  shape.causal = name.find(" causal") != std::string::npos;
  return shape;
}

// Depthwise convolutions have no calibration of their own: with 31 taps and
// rows of 400 they ran at 21 to 30 % of the products' rate (Zen 4).
constexpr double kDepthwiseShare = 0.25;

// As measured in programs: what passes between launches adds up.
double measuredSeconds(const Manifest::Launch &launch, double bytes,
                       Manifest::Phase phase, const ThreadRates &rates) {
  if (launch.kind == "product")
    return launch.flops / rates.productFlops + bytes / rates.productBytes;
  if (launch.kind == "attention")
    return launch.flops / (phase == Manifest::Phase::Backward
                               ? rates.attentionBackward
                               : rates.attentionForward);
  if (launch.kind == "loss")
    return launch.flops / rates.lossFlops;
  if (launch.kind == "convolution")
    return launch.flops / (kDepthwiseShare * rates.productFlops) +
           bytes / rates.rowBytes;
  return bytes /
         (launch.kind == "column sums" ? rates.columnBytes : rates.rowBytes);
}

// What the rank itself does, which moves `bytes`.
double workSeconds(const Manifest::Launch &launch, double bytes,
                   Manifest::Phase phase, const Device &device, bool half,
                   const std::string &attention) {
  double least =
      device.launchSeconds *
      static_cast<double>(std::max<int64_t>(1, launch.kernels + launch.calls));
  if (const auto &rates = half ? device.halfRates : device.f32Rates)
    return least + measuredSeconds(launch, bytes, phase, *rates);
  double seconds = 0;
  std::vector<double> sizes;
  if (launch.kind == "product")
    sizes = sizesOf(launch.name);
  if (sizes.size() >= 3)
    seconds = productSeconds(launch.name, sizes, bytes, device, half);
  else if (launch.kind == "attention")
    seconds = device.attentionSeconds(launch.flops, bytes,
                                      attentionShapeOf(launch.name, phase),
                                      half, attention);
  else if (launch.kind == "loss") // products, and passes over their results
    seconds = device.workSeconds(launch.flops, 0, half) +
              device.workSeconds(0, bytes, half);
  else
    seconds = device.workSeconds(launch.flops, bytes, half);
  return std::max(seconds, least);
}

} // namespace

double launchSeconds(const Manifest &manifest, const Manifest::Launch &launch,
                     Manifest::Phase phase, const Device &device,
                     const std::string &attention) {
  double sending = 0, bytes = launch.readBytes + launch.writtenBytes;
  if (auto axis = axisLaunch(launch, manifest.mesh)) {
    sending = linkSeconds(*axis, device);
    bytes = axis->packedBytes;
  }
  return sending + workSeconds(launch, bytes, phase, device,
                               manifest.paramType != SHX_F32, attention);
}

double attentionReached(const Manifest &manifest, Manifest::Phase phase,
                        const Device &device) {
  double flops = 0, seconds = 0;
  for (const Manifest::Function &function : manifest.functions)
    for (const Manifest::LaunchRun &run : function.launches) {
      const Manifest::Launch &launch = manifest.launches[run.launch];
      if (launch.kind != "attention" || run.phase != phase)
        continue;
      flops += double(run.count) * launch.flops;
      seconds +=
          double(run.count) * launchSeconds(manifest, launch, phase, device);
    }
  return seconds > 0 ? flops / seconds : 0;
}

} // namespace shardonnx
