// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See EvalRun.h. The plan that shardonnx-eval reads names files and offsets, so
// that no array passes through this process.

#include "EvalRun.h"

#include "shardonnx/Support/ElementType.h"
#include "shardonnx/Support/TemporaryFile.h"
#include "shardonnx/Target/Link.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace mlir;

namespace shardonnx {
namespace {

/// Programs that touch less than this run on one thread: starting the others
/// would take longer.
constexpr int64_t kBytesForThreads = 4 << 20;

class JobRunner {
public:
  JobRunner(EvalJob &job, Diagnostics &diagnostics)
      : job(job), diagnostics(diagnostics) {}
  LogicalResult run();

private:
  LogicalResult fail(const Twine &message) {
    return diagnostics.error(message);
  }
  LogicalResult start(StringRef program, StringRef plan);
  LogicalResult checkIds(const EvalBuffer &buffer);
  LogicalResult storeValues();
  std::string planText();
  FailureOr<std::string> write(StringRef suffix, StringRef content);

  EvalJob &job;
  Diagnostics &diagnostics;
  std::vector<std::unique_ptr<TemporaryFile>> temporary;
};

} // namespace

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * elementBytes(type.getElementType());
}

// Paths come from the command line: bytes, while JSON is UTF-8. The plan is
// ours, so each byte travels as one character.
static std::string asText(StringRef bytes) {
  std::string text;
  for (unsigned char c : bytes)
    if (c < 0x80)
      text += char(c);
    else
      text += {char(0xc0 | (c >> 6)), char(0x80 | (c & 0x3f))};
  return text;
}

static llvm::json::Object describe(const EvalBuffer &buffer) {
  llvm::json::Object entry{{"bytes", bytesOf(buffer.type)}};
  if (!buffer.file.empty()) {
    entry["file"] = asText(buffer.file);
    entry["offset"] = buffer.offset;
  }
  if (buffer.output.empty())
    return entry;
  entry["output"] = asText(buffer.output);
  entry["descr"] = numpyDescr(buffer.type.getElementType());
  llvm::json::Array shape;
  for (int64_t size : buffer.type.getShape())
    shape.push_back(size);
  entry["shape"] = std::move(shape);
  return entry;
}

std::string JobRunner::planText() {
  int64_t bytes = job.privateBytes;
  llvm::json::Array entries;
  for (const EvalBuffer &buffer : job.buffers) {
    bytes += bytesOf(buffer.type);
    entries.push_back(describe(buffer));
  }
  llvm::json::Object plan{{"threads", bytes < kBytesForThreads ? 1 : 0},
                          {"private_bytes", job.privateBytes},
                          {"buffers", std::move(entries)}};
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(plan));
  return text;
}

/// Values that are in no file of the user's go into one of ours.
LogicalResult JobRunner::storeValues() {
  std::string bytes;
  SmallVector<EvalBuffer *> stored;
  for (EvalBuffer &buffer : job.buffers) {
    if (!buffer.value)
      continue;
    std::string npy = npyOf(buffer.value);
    size_t size = size_t(bytesOf(buffer.type));
    buffer.offset = int64_t(bytes.size());
    bytes.append(npy, npy.size() - size, size);
    stored.push_back(&buffer);
  }
  if (stored.empty())
    return success();
  FailureOr<std::string> path = write("bin", bytes);
  if (failed(path))
    return failure();
  for (EvalBuffer *buffer : stored)
    buffer->file = *path;
  return success();
}

FailureOr<std::string> JobRunner::write(StringRef suffix, StringRef content) {
  auto file = TemporaryFile::createHolding("shardonnx-eval", suffix, content);
  if (std::error_code error = file.getError())
    return fail(cannotWriteTemporary(error));
  temporary.push_back(std::move(*file));
  return temporary.back()->getPath().str();
}

/// Calls read rows by these numbers without asking.
LogicalResult JobRunner::checkIds(const EvalBuffer &buffer) {
  if (buffer.limit == 0 || buffer.file.empty())
    return success();
  unsigned width = buffer.type.getElementTypeBitWidth();
  auto bytes = llvm::MemoryBuffer::getFileSlice(
      buffer.file, uint64_t(bytesOf(buffer.type)), uint64_t(buffer.offset));
  if (!bytes)
    return fail("'" + buffer.file +
                "' cannot be read: " + bytes.getError().message());
  const char *data = (*bytes)->getBufferStart();
  for (int64_t i = 0; i < buffer.type.getNumElements(); ++i) {
    int64_t id = 0;
    if (width == 64)
      std::memcpy(&id, data + i * 8, 8);
    else {
      int32_t narrow;
      std::memcpy(&narrow, data + i * 4, 4);
      id = narrow;
    }
    // Ids count from the end, too.
    int64_t least = buffer.ignoredLabel ? 0 : -buffer.limit;
    if ((id < least || id >= buffer.limit) && id != buffer.ignoredLabel)
      return fail("input '" + buffer.name + "' is " + Twine(id) +
                  " at element " + Twine(i) +
                  ", but what reads it has rows 0…" + Twine(buffer.limit - 1));
  }
  return success();
}

LogicalResult JobRunner::start(StringRef program, StringRef plan) {
  llvm::Expected<std::string> host = findEvalProgram();
  if (!host)
    return fail(llvm::toString(host.takeError()));
  std::string message;
  int status = llvm::sys::ExecuteAndWait(*host, {*host, program, plan},
                                         std::nullopt, {}, 0, 0, &message);
  if (status == 0)
    return success();
  // It has said what went wrong, unless a signal ended it.
  if (status > 0)
    return failure();
  return fail("the compiled graph did not end by itself: " + message);
}

LogicalResult JobRunner::run() {
  if (failed(storeValues()))
    return failure();
  for (const EvalBuffer &buffer : job.buffers)
    if (failed(checkIds(buffer)))
      return failure();
  FailureOr<std::string> plan = write("json", planText());
  if (failed(plan))
    return failure();
  FailureOr<std::string> program = write("so", "");
  if (failed(program))
    return failure();
  if (llvm::Error error = linkLibrary(job.objects, *program))
    return fail(llvm::toString(std::move(error)));
  return start(*program, *plan);
}

LogicalResult runEvalJob(EvalJob &job, Diagnostics &diagnostics) {
  return JobRunner(job, diagnostics).run();
}

} // namespace shardonnx
