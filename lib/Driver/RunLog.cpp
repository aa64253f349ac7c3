// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "RunLog.h"

#include "shardonnx/Support/InputFile.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/LineIterator.h"

using namespace mlir;

namespace shardonnx {

// As many as a chart has room for.
static void thin(std::vector<RunMemory::Point> &points) {
  constexpr size_t kPoints = 512;
  if (points.size() <= kPoints)
    return;
  std::vector<RunMemory::Point> kept;
  for (size_t index = 1; index <= kPoints; ++index)
    kept.push_back(points[index * points.size() / kPoints - 1]);
  points = std::move(kept);
}

FailureOr<RunMemory> readRunLog(const std::string &path,
                                Diagnostics &diagnostics) {
  InputBytes buffer = readInputFile(path, /*isText=*/true);
  if (!buffer)
    return diagnostics.error(
        "--log: '" + path + "' cannot be read: " + buffer.getError().message());
  RunMemory memory;
  for (llvm::line_iterator line(**buffer); !line.is_at_end(); ++line) {
    llvm::Expected<llvm::json::Value> value = llvm::json::parse(*line);
    const llvm::json::Object *step = value ? value->getAsObject() : nullptr;
    std::optional<int64_t> planned, measured;
    if (step) {
      planned = step->getInteger("peak_bytes");
      measured = step->getInteger("pss_bytes");
    }
    if (!value)
      llvm::consumeError(value.takeError());
    if (!planned || !measured)
      return diagnostics.error(
          "--log: line " + std::to_string(line.line_number()) + " of '" + path +
          "' is no step with peak_bytes and pss_bytes; give a log that a "
          "training executable wrote");
    ++memory.steps;
    memory.tokens = step->getInteger("tokens").value_or(0);
    memory.planned = std::max(memory.planned, *planned);
    memory.measured = std::max(memory.measured, *measured);
    memory.points.push_back({step->getInteger("step").value_or(memory.steps),
                             step->getNumber("loss"),
                             step->getNumber("step_ms"),
                             step->getNumber("tokens_per_s"), *measured});
    if (std::optional<int64_t> context = step->getInteger("context_bytes"))
      memory.context = std::max(memory.context.value_or(0), *context);
  }
  if (memory.steps == 0)
    return diagnostics.error("--log: '" + path +
                             "' has no step; give the log of a run");
  thin(memory.points);
  return memory;
}

} // namespace shardonnx
