// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Progress.h.

#include "Progress.h"
#include "../comm/Control.h"
#include "../support/Error.h"
#include "shardonnx/runtime/ByteSize.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>
#include <utility>

namespace shardonnx::rt {
namespace {

constexpr double kSecondsBetweenLines = 2;

std::string format(const char *pattern, double value) {
  char text[64];
  // A NaN has a sign, of which nobody wants to know.
  std::snprintf(text, sizeof(text), pattern,
                std::isnan(value) ? std::fabs(value) : value);
  return text;
}

std::string timeText(double seconds) {
  long long s = std::llround(seconds);
  char text[64];
  if (s < 60)
    std::snprintf(text, sizeof(text), "%lld s", s);
  else if (s < 3600)
    std::snprintf(text, sizeof(text), "%lld:%02lld", s / 60, s % 60);
  else
    std::snprintf(text, sizeof(text), "%lld:%02lld:%02lld", s / 3600,
                  s / 60 % 60, s % 60);
  return text;
}

} // namespace

Progress::Progress(int64_t steps, int64_t begin, std::string rateUnit)
    : steps(steps), begin(begin), rateUnit(std::move(rateUnit)),
      terminal(::isatty(STDOUT_FILENO) == 1) {}

// The first step touches every page for the first time.
int64_t Progress::warmupSteps() const {
  int64_t all = steps - begin;
  return all > 10 ? 3 : (all > 1 ? 1 : 0);
}

std::string Progress::rateText(double rate) const {
  return format(rate < 100 ? "%.1f " : "%.0f ", rate) + rateUnit;
}

std::string Progress::lineOf(const StepRecord &r) const {
  int64_t measured = r.step - begin - warmupSteps();
  double left =
      static_cast<double>(steps - r.step) *
      (seconds > 0 && measured > 0 ? seconds / static_cast<double>(measured)
                                   : r.stepMs / 1000);
  std::string line = "step " + std::to_string(r.step) + "/" +
                     std::to_string(steps) + format("  loss %.4f", r.loss);
  if (r.evalLoss)
    line += format("  eval %.4f", *r.evalLoss);
  if (r.perplexity)
    line += format(" (perplexity %.5g)", *r.perplexity);
  if (r.skipped)
    line += "  skipped";
  return line + format("  norm %.3f", r.gradNorm) + format("  lr %.2e", r.lr) +
         "  " + rateText(r.tokensPerSecond) + "  " + formatBytes(r.pssBytes) +
         "/rank  " + timeText(left) + " left";
}

// A run is worth more than its lines: it goes on without a reader (`| head`)
// and where a disk is full.
void Progress::flush() const {
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return;
  std::string why = systemError();
  std::clearerr(stdout);
  if (std::exchange(isUnread, true))
    return;
  printWarning(concat("cannot write to standard output: ", why,
                      "; the run goes on without telling its steps, which "
                      "--log FILE keeps"));
}

void Progress::step(const StepRecord &r) {
  if (r.step == begin + 1)
    firstLoss = r.loss;
  if (r.step - begin > warmupSteps()) {
    seconds += r.stepMs / 1000;
    tokens += static_cast<double>(r.tokens);
    tflopSeconds += r.tflops * r.stepMs / 1000;
  }
  skipped += r.skipped ? 1 : 0;
  last = r;
  double now = monotonicSeconds();
  if (terminal) {
    std::printf("\r\033[K%s", lineOf(r).c_str());
    if (r.evalLoss) // worth keeping
      std::printf("\n");
  } else if (r.step == begin + 1 || r.step == steps || r.evalLoss ||
             now - lastShown >= kSecondsBetweenLines) {
    std::printf("%s\n", lineOf(r).c_str());
    lastShown = now;
  }
  flush();
}

void Progress::note(const std::string &line) const {
  std::printf("%s%s\n", terminal ? "\r\033[K" : "", line.c_str());
  flush();
}

void Progress::close() {
  if (terminal)
    std::printf("\n");
  double rate = seconds > 0 ? tokens / seconds : last.tokensPerSecond;
  double tflops = seconds > 0 ? tflopSeconds / seconds : last.tflops;
  std::string more;
  if (skipped > 0)
    more = concat(", ", skipped, skipped == 1 ? " step" : " steps",
                  " skipped for gradients that were not finite");
  if (last.offloadBytesPerSecond)
    more += format(", %.2f GB/s to and from what is offloaded",
                   *last.offloadBytesPerSecond * 1e-9);
  std::printf(
      "done: %lld steps, loss %.4f -> %.4f, %s, %.3f TFLOP/s "
      "(without %lld warm-up step%s), memory per rank %s planned, %s "
      "measured%s\n",
      static_cast<long long>(last.step - begin), firstLoss, last.loss,
      rateText(rate).c_str(), tflops, static_cast<long long>(warmupSteps()),
      warmupSteps() == 1 ? "" : "s", formatBytes(last.peakBytes).c_str(),
      formatBytes(last.pssBytes).c_str(), more.c_str());
  flush();
}

} // namespace shardonnx::rt
