// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Log.h. A number that is not finite is null, as JSON has no other word.

#include "Log.h"
#include "../support/Error.h"
#include "../support/File.h"
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace shardonnx::rt {

static FileDescriptor reserved; // what standard output was

void reserveStandardOutput() {
  reserved = FileDescriptor(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!reserved || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
    fail("--log -: ", systemError());
}

Log::Log(const std::string &path, int64_t step) : path(path) {
  if (path.empty())
    return;
  if (path == kStandardOutput) {
    fd = std::move(reserved);
    return;
  }
  makeFolderOf(path);
  fd = FileDescriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  if (!fd)
    fail("cannot write the log '", path, "': ", systemError(),
         "; --log needs a file in a folder that can be written");
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return; // a pipe or a device has nothing to keep
  if (!lockWhole(fd.get()))
    fail("another run writes the log '", path, "'; give another --log");
  int64_t end = step > 0 ? endOf(step) : 0;
  if (::ftruncate(fd.get(), end) == 0)
    ::lseek(fd.get(), end, SEEK_SET);
}

// A line that is none of ours, or half of one, ends what is kept.
int64_t Log::endOf(int64_t step) const {
  std::ifstream file(path);
  std::string line;
  int64_t end = 0;
  while (std::getline(file, line) && !file.eof()) {
    nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") ||
        !record["step"].is_number_integer() || record["step"] > step)
      break;
    end += static_cast<int64_t>(line.size()) + 1;
  }
  return end;
}

void Log::write(const StepRecord &r) {
  if (!fd)
    return;
  nlohmann::ordered_json line = {{"step", r.step},
                                 {"loss", r.loss},
                                 {"grad_norm", r.gradNorm},
                                 {"lr", r.lr},
                                 {"tokens", r.tokens},
                                 {"step_ms", r.stepMs},
                                 {"tokens_per_s", r.tokensPerSecond},
                                 {"tflops", r.tflops},
                                 {"mfu", nullptr},
                                 {"peak_bytes", r.peakBytes},
                                 {"pss_bytes", r.pssBytes}};
  if (r.mfu)
    line["mfu"] = *r.mfu;
  if (r.contextBytes)
    line["context_bytes"] = *r.contextBytes;
  if (r.offloadBytesPerSecond)
    line["offload_bytes_per_s"] = *r.offloadBytesPerSecond;
  if (r.evalLoss)
    line["eval_loss"] = *r.evalLoss;
  if (r.perplexity)
    line["eval_perplexity"] = *r.perplexity;
  if (r.lossScale)
    line["loss_scale"] = *r.lossScale;
  if (r.skipped)
    line["skipped"] = true;
  if (r.saveMs)
    line["save_ms"] = *r.saveMs;
  if (r.saveStallMs)
    line["save_stall_ms"] = *r.saveStallMs;
  std::string text = line.dump() + "\n";
  off_t begin = ::lseek(fd.get(), 0, SEEK_END);
  ssize_t n = ::write(fd.get(), text.data(), text.size());
  if (n == static_cast<ssize_t>(text.size()))
    return;
  std::string why = n < 0 ? systemError() : "no space left on the device";
  if (n > 0 && begin >= 0) // no half line is left behind
    (void)!::ftruncate(fd.get(), begin);
  fail("cannot write the log '", path, "' at step ", r.step, ": ", why,
       "; make room, or give another --log");
}

void Log::close() {
  if (fd && ::close(fd.release()) != 0)
    fail("cannot write the log '", path, "': ", systemError(),
         "; make room, or give another --log");
}

} // namespace shardonnx::rt
