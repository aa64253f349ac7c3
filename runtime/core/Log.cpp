// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Log.h. A number that is not finite is null, as JSON has no other word.

#include "Log.h"
#include "Error.h"
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace shardonnx::rt {

Log::Log(const std::string &path) : path(path) {
  if (path.empty())
    return;
  fd = FileDescriptor(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd)
    fail("cannot write the log '", path, "': ", systemError(),
         "; --log needs a file in a folder that exists and can be written");
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
  if (r.evalLoss)
    line["eval_loss"] = *r.evalLoss;
  if (r.lossScale)
    line["loss_scale"] = *r.lossScale;
  if (r.skipped)
    line["skipped"] = true;
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
