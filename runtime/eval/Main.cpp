// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shardonnx-eval PROGRAM.so PLAN.json: what `shardonnx eval` starts. It has the
// CPU's library calls inside, so that a compiled graph need not be linked with
// them anew, and it is a process of its own: a graph that fails takes nobody
// with it. The plan, written by lib/Driver, says what lies in each buffer.

#include "../support/Error.h"
#include "../support/File.h"
#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Cpu.h"
#include "shardonnx/runtime/Npy.h"
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <nlohmann/json.hpp>

namespace shardonnx::rt {
namespace {

using Json = nlohmann::json;

constexpr size_t kAlignment = 64;

// Zeroed memory at a cache line, with room for a vector that is read whole.
class Buffer {
public:
  explicit Buffer(int64_t bytes) : bytes(bytes) {
    size_t rounded = (static_cast<size_t>(bytes) / kAlignment + 2) * kAlignment;
    data.reset(static_cast<uint8_t *>(std::aligned_alloc(kAlignment, rounded)));
    if (!data)
      fail("no memory for a buffer of ", bytes, " bytes; use smaller inputs");
    std::fill_n(data.get(), rounded, uint8_t(0));
  }
  uint8_t *get() const { return data.get(); }
  int64_t size() const { return bytes; }

private:
  struct Free {
    void operator()(uint8_t *p) const { std::free(p); }
  };
  std::unique_ptr<uint8_t, Free> data;
  int64_t bytes;
};

Json readPlan(const char *path) {
  std::ifstream stream(path);
  Json plan = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (plan.is_discarded())
    fail("'", path, "' is no plan of shardonnx eval");
  return plan;
}

using Entry = void (*)(ShxContext *);

Entry loadProgram(const char *path) {
  void *program = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!program)
    fail("the compiled graph cannot be loaded: ", ::dlerror());
  void *entry = ::dlsym(program, "shx_eval_microbatch");
  if (!entry)
    fail("'", path, "' is no compiled graph");
  return reinterpret_cast<Entry>(entry);
}

// Paths are bytes: one character of the plan each.
std::string pathOf(const Json &entry) {
  std::string path;
  const std::string text = entry.get<std::string>();
  for (size_t i = 0; i < text.size(); ++i) {
    auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x80 && i + 1 < text.size())
      c = static_cast<unsigned char>(
          (c & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    path += static_cast<char>(c);
  }
  return path;
}

void readInput(const Json &entry, const Buffer &buffer) {
  auto source = entry.find("file");
  if (source == entry.end())
    return;
  File file(pathOf(*source), "see shardonnx eval --help");
  file.read(buffer.get(), entry.at("offset").get<int64_t>(), buffer.size());
}

void writeOutput(const Json &entry, const Buffer &buffer) {
  auto target = entry.find("output");
  if (target == entry.end())
    return;
  std::string path = pathOf(*target);
  std::string header =
      makeNpyHeader(entry.at("descr").get<std::string>(),
                    entry.at("shape").get<std::vector<int64_t>>());
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream << header;
  stream.write(reinterpret_cast<const char *>(buffer.get()), buffer.size());
  stream.close();
  if (!stream)
    fail("cannot write '", path, "': ", systemError());
}

void evaluate(const char *programPath, const char *planPath) {
  Json plan = readPlan(planPath);
  Entry entry = loadProgram(programPath);
  if (int threads = plan.at("threads").get<int>())
    setPoolThreads(threads);
  const Json &entries = plan.at("buffers");
  std::vector<Buffer> buffers;
  std::vector<uint8_t *> addresses;
  for (const Json &each : entries) {
    buffers.emplace_back(each.at("bytes").get<int64_t>());
    addresses.push_back(buffers.back().get());
    readInput(each, buffers.back());
  }
  Buffer space(plan.at("private_bytes").get<int64_t>());
  float scalars[SHX_NUM_SCALARS] = {};
  scalars[SHX_LOSS_SCALE] = 1;
  ShxContext context = {};
  context.privateBase = space.get();
  context.inputs = addresses.data();
  context.scalars = scalars;
  entry(&context);
  for (size_t i = 0; i < buffers.size(); ++i)
    writeOutput(entries[i], buffers[i]);
}

} // namespace
} // namespace shardonnx::rt

int main(int argc, char **argv) {
  using namespace shardonnx::rt;
  setProgramName("shardonnx");
  try {
    if (argc != 3)
      failUsage("shardonnx-eval is started by shardonnx eval");
    evaluate(argv[1], argv[2]);
  } catch (const std::exception &e) {
    printError(describe(e));
    return kExitFailure;
  }
  return kExitDone;
}
