// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "TraceLog.h"

#include "shardonnx/Support/InputFile.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
namespace json = llvm::json;

namespace shardonnx {

// The events may take hundreds of megabytes; their summary comes last.
static llvm::Expected<json::Value> parseSummary(StringRef file) {
  size_t at = file.rfind("\"otherData\":");
  StringRef tail = at == StringRef::npos ? StringRef() : file.substr(at);
  return json::parse("{" + tail.str());
}

static bool addUnit(const json::Value &value, double share,
                    MeasuredExposure &measured) {
  const json::Object *unit = value.getAsObject();
  std::optional<StringRef> name = unit ? unit->getString("unit") : std::nullopt;
  if (!name)
    return false;
  MeasuredExposure::Unit &sum = measured.units[*name];
  std::pair<double *, const char *> fields[] = {{&sum.gather, "gather_ms"},
                                                {&sum.reduce, "reduce_ms"},
                                                {&sum.exposed, "exposed_ms"}};
  for (auto [field, key] : fields) {
    std::optional<double> number = unit->getNumber(key);
    if (!number)
      return false;
    *field += share * *number;
  }
  return true;
}

static std::optional<MeasuredExposure> readSummary(const json::Value &value) {
  const json::Object *file = value.getAsObject();
  const json::Object *other = file ? file->getObject("otherData") : nullptr;
  const json::Array *ranks = other ? other->getArray("ranks") : nullptr;
  std::optional<int64_t> count =
      other ? other->getInteger("world_size") : std::nullopt;
  if (!ranks || !count)
    return std::nullopt;
  // A rank whose device lacked something to measure with says so instead.
  std::vector<const json::Object *> timed;
  for (const json::Value &entry : *ranks)
    if (const json::Object *rank = entry.getAsObject();
        rank && rank->getArray("units"))
      timed.push_back(rank);
  if (timed.empty())
    return std::nullopt;
  MeasuredExposure measured;
  measured.program = other->getString("program").value_or("").str();
  measured.ranks = *count;
  double share = 1.0 / static_cast<double>(timed.size());
  for (const json::Object *rank : timed) {
    std::optional<double> exposed = rank->getNumber("exposed_ms");
    if (!exposed)
      return std::nullopt;
    measured.exposed += share * *exposed;
    for (const json::Value &unit : *rank->getArray("units"))
      if (!addUnit(unit, share, measured))
        return std::nullopt;
  }
  return measured;
}

FailureOr<MeasuredExposure> readTrace(const std::string &path,
                                      Diagnostics &diagnostics) {
  InputBytes buffer = readInputFile(path);
  if (!buffer)
    return diagnostics.error("--trace: '" + path + "' cannot be read: " +
                             buffer.getError().message());
  llvm::Expected<json::Value> value = parseSummary((*buffer)->getBuffer());
  if (!value)
    llvm::consumeError(value.takeError());
  else if (std::optional<MeasuredExposure> measured = readSummary(*value))
    return std::move(*measured);
  return diagnostics.error(
      "--trace: '" + path +
      "' has no summary of communication; give a whole trace that a training "
      "executable wrote with --trace, of steps that it ran");
}

} // namespace shardonnx
