// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A unit of three parameters, as a manifest tells it.

#ifndef SHARDONNX_TEST_SMALLMODEL_H
#define SHARDONNX_TEST_SMALLMODEL_H

#include "shardonnx/runtime/Manifest.h"

namespace shardonnx::test {

inline Manifest smallModel() {
  Manifest m;
  m.batch = 1;
  m.modelPath = "m.onnx";
  m.privateSpace.bytes = 1 << 20;
  m.gradientSpace.bytes = 1024 * 4;
  Manifest::Unit unit;
  unit.name = "u";
  unit.gatherInPlace = true;
  unit.length = 1024;
  auto source = [](int64_t offset, int64_t length) {
    return Manifest::Source{"m.onnx", "f32", offset, length};
  };
  unit.params = {{"fc.weight", "", 0, {20, 25}, true, source(0, 2000)},
                 {"ln_1.weight", "", 512, {100}, true, source(2000, 400)},
                 {"fc.bias", "", 768, {100}, true, source(2400, 400)}};
  m.units = {unit};
  return m;
}

} // namespace shardonnx::test

#endif // SHARDONNX_TEST_SMALLMODEL_H
