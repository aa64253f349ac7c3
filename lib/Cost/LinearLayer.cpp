// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See LinearLayer.h. The launches are those that nn-store-f8 leaves of a
// trained layer between kernels of ours (docs/low-precision.md).

#include "shardonnx/Cost/LinearLayer.h"

#include "shardonnx/Cost/Device.h"

#include <algorithm>

namespace shardonnx {
namespace {

class Launches {
public:
  Launches(const Device &device, const LinearLayer &layer)
      : device(device), l(layer), bytes(layer.half ? 2 : 4) {}

  double plain() const { return ofRows(false) + ofWeight(false); }
  double inF8(bool byRow) const {
    // In backward the weight is cast again.
    double weight = 2 * castOf(matrix(), 1);
    if (byRow)
      // What writes rows and gradients rounds them, too.
      return ofRows(true) + ofWeight(false) + weight +
             device.workSeconds(0, l.rows * (l.depth + l.columns), l.half);
    // What writes rows and gradients finds their largest values, too; those of
    // weights are the update's.
    return ofRows(true) + ofWeight(true) + weight +
           castOf(l.rows * l.depth, 2) + castOf(l.rows * l.columns, 2);
  }

private:
  double matrix() const { return l.depth * l.columns; }
  double launch(double seconds) const {
    return std::max(seconds, device.launchSeconds);
  }
  double pass(double moved) const {
    return launch(device.workSeconds(0, moved, l.half));
  }
  /// Read once, written as it is or transposed, or both ways.
  double castOf(double elements, double ways) const {
    return pass((bytes + ways) * elements);
  }
  double product(double rows, double depth, double columns, bool f8) const {
    double read = (rows * depth + depth * columns) * (f8 ? 1 : bytes);
    double moved = read + bytes * rows * columns;
    return launch(
        f8 ? device.f8ProductSeconds(rows, depth, columns, moved)
           : device.productSeconds(rows, depth, columns, 1, moved, l.half));
  }
  /// Forward, and the gradient of the rows.
  double ofRows(bool f8) const {
    return product(l.rows, l.depth, l.columns, f8) +
           product(l.rows, l.columns, l.depth, f8);
  }
  double ofWeight(bool f8) const {
    return product(l.depth, l.rows, l.columns, f8);
  }

  const Device &device;
  const LinearLayer &l;
  const double bytes;
};

} // namespace

double f8Gain(const Device &device, const LinearLayer &layer, bool byRow) {
  Launches launches(device, layer);
  return launches.plain() / launches.inF8(byRow);
}

} // namespace shardonnx
