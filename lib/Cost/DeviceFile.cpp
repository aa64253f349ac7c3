// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The one reader of device files. Those of lib/Cost/Devices are part of the
// program, so it finds them wherever it is installed.

#include "shardonnx/Cost/Device.h"
#include "shardonnx/Cost/Execution.h"
#include "shardonnx/runtime/DevicePlan.h" // kQueueBlocks

#include "DeviceFiles.inc" // kDeviceFiles: name and content

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <cmath>

namespace shardonnx {
namespace {

// Larger than anything that is built, so that products of two stay finite.
constexpr double kMost = 1e24;
constexpr double kLeast = 1e-30;

class Reader {
public:
  explicit Reader(std::string &error) : error(error) {}
  std::optional<Device> read(const llvm::json::Object &json);
  std::optional<Execution> readExecution(const llvm::json::Object &json);

private:
  void fail(const llvm::Twine &what) {
    if (error.empty())
      error = what.str();
  }
  const llvm::json::Object *object(const llvm::json::Object &in,
                                   llvm::StringRef key, llvm::StringRef path);
  std::string text(const llvm::json::Object &in, llvm::StringRef key);
  void source(const llvm::json::Object &in, llvm::StringRef path);
  double number(const llvm::json::Object &in, llvm::StringRef key,
                llvm::StringRef path, double least, double most);
  double figure(const llvm::json::Object &in, llvm::StringRef key,
                llvm::StringRef path, double least = kLeast,
                double most = kMost);
  double productFlops(const llvm::json::Object &in, llvm::StringRef type,
                      const Device &device);
  void protocols(const llvm::json::Object &in, Device &device);
  void attention(const llvm::json::Object &in, Device &device);
  std::vector<double> numbers(const llvm::json::Object &in, llvm::StringRef key,
                              llvm::StringRef path);
  void measured(const llvm::json::Object &in, Device &device);

  std::string &error;
};

} // namespace

const llvm::json::Object *Reader::object(const llvm::json::Object &in,
                                         llvm::StringRef key,
                                         llvm::StringRef path) {
  const llvm::json::Object *found = in.getObject(key);
  if (!found)
    fail("'" + path + "' is missing or no object");
  return found;
}

std::string Reader::text(const llvm::json::Object &in, llvm::StringRef key) {
  std::optional<llvm::StringRef> found = in.getString(key);
  if (!found)
    fail("'" + key + "' is missing or no text");
  return found.value_or("").str();
}

// Where a figure comes from, and whether somebody has measured it.
void Reader::source(const llvm::json::Object &in, llvm::StringRef path) {
  llvm::StringRef kind = in.getString("kind").value_or("");
  if (kind != "published" && kind != "assumed" && kind != "measured" &&
      kind != "fitted")
    fail("'" + path +
         ".kind' is none of published, measured, fitted and assumed");
  if (in.getString("source").value_or("").empty())
    fail("'" + path + ".source' is missing: it says where the figure is from");
}

double Reader::number(const llvm::json::Object &in, llvm::StringRef key,
                      llvm::StringRef path, double least, double most) {
  std::optional<double> value = in.getNumber(key);
  if (!value)
    fail("'" + path + "' is missing or no number");
  else if (!std::isfinite(*value) || *value < least || *value > most)
    fail("'" + path + "' is out of range");
  return value.value_or(least);
}

double Reader::figure(const llvm::json::Object &in, llvm::StringRef key,
                      llvm::StringRef path, double least, double most) {
  const llvm::json::Object *entry = object(in, key, path);
  if (!entry)
    return least;
  source(*entry, path);
  return number(*entry, "value", (path + ".value").str(), least, most);
}

// Where the product is told in which the rate was measured (rows, columns,
// depth), full tiles are as much faster as that one does not fill them.
double Reader::productFlops(const llvm::json::Object &in, llvm::StringRef type,
                            const Device &device) {
  std::string path = ("product_flops." + type).str();
  double flops = figure(in, type, path);
  const llvm::json::Object *entry = in.getObject(type);
  std::vector<double> shape =
      entry ? numbers(*entry, "shape", path) : std::vector<double>();
  if (shape.empty())
    return flops;
  if (shape.size() != 3) {
    fail("'" + path + ".shape' is not rows, columns, depth");
    return flops;
  }
  return flops / device.productShare(shape[0], shape[2], shape[1], 1);
}

void Reader::protocols(const llvm::json::Object &in, Device &device) {
  const llvm::json::Array *list = in.getArray("protocols");
  if (!list || list->empty())
    return fail("'protocols' is missing or empty");
  for (const llvm::json::Value &value : *list) {
    const llvm::json::Object *entry = value.getAsObject();
    if (!entry)
      return fail("'protocols' has an entry that is no object");
    source(*entry, "protocols");
    Protocol protocol;
    protocol.name = text(*entry, "name");
    auto seconds = [&](llvm::StringRef key) {
      return number(*entry, key, ("protocols." + key).str(), 0, 1e3);
    };
    protocol.baseSeconds = seconds("base_seconds");
    protocol.withinStep = seconds("within_step_seconds");
    protocol.acrossStep = seconds("across_step_seconds");
    protocol.share = number(*entry, "share", "protocols.share", 1e-6, 1);
    device.protocols.push_back(std::move(protocol));
  }
}

std::vector<double> Reader::numbers(const llvm::json::Object &in,
                                    llvm::StringRef key, llvm::StringRef path) {
  std::vector<double> list;
  const llvm::json::Array *array = in.getArray(key);
  if (!array)
    return list;
  for (const llvm::json::Value &value : *array) {
    std::optional<double> number = value.getAsNumber();
    if (!number || !(*number >= 1 && *number <= kMost)) {
      fail("'" + path + "." + key + "' has an entry that is out of range");
      return {};
    }
    list.push_back(*number);
  }
  return list;
}

// Rates by library, direction, size of heads and mask.
void Reader::attention(const llvm::json::Object &in, Device &device) {
  const llvm::json::Array *list = in.getArray("attention");
  if (!list)
    return;
  for (const llvm::json::Value &value : *list) {
    const llvm::json::Object *entry = value.getAsObject();
    if (!entry)
      return fail("'attention' has an entry that is no object");
    source(*entry, "attention");
    AttentionRates rates;
    rates.library = text(*entry, "library");
    rates.headDim = number(*entry, "head_dim", "attention.head_dim", 1, 65536);
    rates.backward = text(*entry, "pass") == "backward";
    rates.causal = entry->getBoolean("causal").value_or(false);
    std::vector<double> lengths = numbers(*entry, "sequence", "attention");
    std::vector<double> flops = numbers(*entry, "flops", "attention");
    if (lengths.empty() || lengths.size() != flops.size() ||
        !llvm::is_sorted(lengths, std::less_equal<double>()))
      return fail("'attention' has no rate for each of its lengths, which "
                  "have to grow");
    for (auto [length, rate] : llvm::zip_equal(lengths, flops))
      rates.points.push_back({length, rate});
    device.attention.push_back(std::move(rates));
  }
}

// "rates": {"f32": {"alone": {"product_flops": …}, "together": …}, "bf16": …}
void Reader::measured(const llvm::json::Object &in, Device &device) {
  const llvm::json::Object *rates = in.getObject("rates");
  if (!rates)
    return;
  device.machineThreads = figure(in, "machine_threads", "machine_threads", 1);
  auto read = [&](llvm::StringRef dtype, llvm::StringRef which) {
    ThreadRates result;
    std::string path = ("rates." + dtype).str();
    const llvm::json::Object *both = object(*rates, dtype, path);
    path = (path + "." + which).str();
    const llvm::json::Object *one = both ? object(*both, which, path) : nullptr;
    for (const auto &[word, rate] : kThreadRates)
      if (one)
        result.*rate = figure(*one, word, path + "." + word);
    return result;
  };
  device.f32Measured = {read("f32", "alone"), read("f32", "together")};
  device.halfMeasured = {read("bf16", "alone"), read("bf16", "together")};
}

std::optional<Device> Reader::read(const llvm::json::Object &json) {
  Device device;
  device.name = text(json, "name");
  device.title = text(json, "title");
  device.arch = text(json, "arch");
  std::optional<TargetKind> target =
      parseSpelling<TargetKind>(text(json, "target"));
  if (!target)
    fail("'target' is neither cpu nor cuda");
  device.target = target.value_or(TargetKind::CPU);
  device.sharedMemory = device.target == TargetKind::CPU;
  auto top = [&](llvm::StringRef key, double least = kLeast) {
    return figure(json, key, key, least);
  };
  auto inner = [&](llvm::StringRef key, llvm::StringRef word) {
    const llvm::json::Object *group = object(json, key, key);
    return group ? figure(*group, word, (key + "." + word).str()) : kLeast;
  };
  double ranks = top("ranks_per_machine", 0);
  if (ranks > 4096 || ranks != std::floor(ranks))
    fail("'ranks_per_machine' is no whole number within 0...4096");
  else
    device.perMachine = static_cast<int64_t>(ranks);
  device.memoryBytes = top("memory_bytes");
  device.reservedBytes = top("reserved_bytes", 0);
  device.f32Peak = inner("peak_flops", "f32");
  device.halfPeak = inner("peak_flops", "bf16");
  attention(json, device);
  device.attentionForward = inner("attention_flops", "forward");
  device.attentionBackward = inner("attention_flops", "backward");
  device.multiprocessors = top("multiprocessors", 1);
  device.tileRows = top("tile_rows", 1);
  device.tileColumns = top("tile_columns", 1);
  device.tileDepth = top("tile_depth", 0);
  if (auto *products = object(json, "product_flops", "product_flops")) {
    device.f32Flops = productFlops(*products, "f32", device);
    device.halfFlops = productFlops(*products, "bf16", device);
    if (products->getObject("fp8"))
      device.f8Flops = productFlops(*products, "fp8", device);
  }
  device.memoryBytesPerSecond = top("memory_bytes_per_second");
  device.launchSeconds = top("launch_seconds", 0);
  // Those of this runtime; a thread of its own copies on CPUs.
  device.collectiveMultiprocessors = device.sharedMemory ? 0 : kQueueBlocks;
  if (2 * device.collectiveMultiprocessors >= device.multiprocessors)
    fail("collectives leave none of 'multiprocessors'");
  device.within.bytesPerSecond = inner("within", "bytes_per_second");
  device.across.bytesPerSecond = inner("across", "bytes_per_second");
  device.hostBytesPerSecond = top("host_bytes_per_second");
  protocols(json, device);
  measured(json, device);
  return error.empty() ? std::optional(std::move(device)) : std::nullopt;
}

std::optional<Execution> Reader::readExecution(const llvm::json::Object &json) {
  Execution execution;
  execution.name = text(json, "name");
  execution.title = text(json, "title");
  std::optional<bool> eager = json.getBoolean("eager");
  if (!eager)
    fail("'eager' is neither true nor false");
  execution.eager = eager.value_or(false);
  execution.attention = text(json, "attention");
  auto share = [&](llvm::StringRef key, double least, double most) {
    return figure(json, key, key, least, most);
  };
  // A share of memory's rate as reached may pass one: not of the data sheet's.
  execution.productShare = share("product_share", 1e-3, 1);
  execution.attentionShare = share("attention_share", 1e-3, 2);
  execution.memoryShare = share("memory_share", 1e-3, 2);
  execution.unhidden = share("unhidden", 0, 10);
  execution.stepSeconds = share("step_seconds", 0, 1e3);
  execution.optimizerBytes = share("optimizer_bytes", 0, 1e6);
  execution.logitBytes = share("logit_bytes", 0, 1e6);
  if (const llvm::json::Object *memory = json.getObject("memory")) {
    auto bytes = [&](llvm::StringRef key) {
      return figure(*memory, key, ("memory." + key).str(), 0, 1e3);
    };
    execution.memory = Execution::Memory{
        bytes("state_bytes"), bytes("logit_bytes"), bytes("norm_bytes"),
        memory->getBoolean("repeats_keys").value_or(false)};
  }
  return error.empty() ? std::optional(std::move(execution)) : std::nullopt;
}

static std::optional<llvm::json::Object> readObject(const std::string &json,
                                                    std::string &error) {
  error.clear();
  llvm::Expected<llvm::json::Value> value = llvm::json::parse(json);
  if (!value) {
    error = "it is no JSON: " + llvm::toString(value.takeError());
    return std::nullopt;
  }
  llvm::json::Object *object = value->getAsObject();
  if (!object) {
    error = "it is no JSON object";
    return std::nullopt;
  }
  return std::move(*object);
}

std::optional<Device> parseDevice(const std::string &json, std::string &error) {
  std::optional<llvm::json::Object> object = readObject(json, error);
  return object ? Reader(error).read(*object) : std::nullopt;
}

std::optional<Execution> parseExecution(const std::string &json,
                                        std::string &error) {
  std::optional<llvm::json::Object> object = readObject(json, error);
  return object ? Reader(error).readExecution(*object) : std::nullopt;
}

std::optional<Execution> executionNamed(const std::string &name) {
  std::string error;
  for (const auto &[known, content] : kExecutionFiles)
    if (name == known)
      return parseExecution(content, error);
  return std::nullopt;
}

std::vector<std::string> executionNames() {
  std::vector<std::string> names;
  for (const auto &[known, content] : kExecutionFiles)
    names.emplace_back(known);
  return names;
}

std::optional<Device> deviceNamed(const std::string &name) {
  std::string wanted = name == "a100" ? "a100-80" : name;
  std::string error;
  for (const auto &[known, content] : kDeviceFiles)
    if (wanted == known)
      return parseDevice(content, error);
  return std::nullopt;
}

std::string deviceFile(const std::string &name) {
  for (const auto &[known, content] : kDeviceFiles)
    if (name == known)
      return content;
  return "";
}

std::vector<std::string> deviceNames() {
  std::vector<std::string> names;
  for (const auto &[known, content] : kDeviceFiles)
    names.emplace_back(known);
  return names;
}

} // namespace shardonnx
