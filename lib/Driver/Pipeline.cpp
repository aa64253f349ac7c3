// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "shardonnx/Driver/Pipeline.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"

#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace shardonnx {

static constexpr const char *kLevelNames[] = {
    "onnx", "nn", "grad", "fsdp", "schedule", "memory", "llvm", "obj", "link"};

StringRef levelName(Level level) {
  return kLevelNames[static_cast<int>(level)];
}

std::optional<Level> parseLevel(StringRef name) {
  if (name.empty())
    return Level::Link;
  for (int level = 0; level <= static_cast<int>(Level::Object); ++level)
    if (name == kLevelNames[level])
      return static_cast<Level>(level);
  return std::nullopt;
}

void addPassesTo(Level level, OpPassManager &pm,
                 const CompileOptions &options) {
  switch (level) {
  case Level::NN:
    buildRaisePipeline(pm);
    return;
  default:
    return;
  }
}

} // namespace shardonnx
