// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Calibration.h.

#include "shardonnx/Cost/Calibration.h"

#include "shardonnx/Cost/Exposure.h"
#include "shardonnx/runtime/MemoryPlan.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>

namespace json = llvm::json;

namespace shardonnx {
namespace {

/// Work of one kind, and the thread's seconds that it took.
struct Sample {
  double flops = 0, bytes = 0, seconds = 0;
};

using Samples = std::vector<Sample>;

double rateOf(const Samples &samples, double Sample::*work) {
  double done = 0, seconds = 0;
  for (const Sample &sample : samples) {
    done += sample.*work;
    seconds += sample.seconds;
  }
  return seconds > 0 ? done / seconds : 0;
}

// seconds = flops·x + bytes·y by least squares of the relative errors, each
// weighed by its time. Neither may be negative.
void fitProducts(const Samples &samples, ThreadRates &rates) {
  double ff = 0, fb = 0, bb = 0, f = 0, b = 0;
  for (const Sample &s : samples) {
    double weight = 1 / s.seconds;
    ff += weight * s.flops * s.flops;
    fb += weight * s.flops * s.bytes;
    bb += weight * s.bytes * s.bytes;
    f += s.flops;
    b += s.bytes;
  }
  double determinant = ff * bb - fb * fb;
  double x = determinant > 0 ? (f * bb - b * fb) / determinant : 0;
  double y = determinant > 0 ? (b * ff - f * fb) / determinant : 0;
  constexpr double kNone = 1e18; // bytes a second: they cost nothing
  if (x <= 0 || y <= 0) {
    rates.productFlops = rateOf(samples, &Sample::flops);
    rates.productBytes = kNone;
    return;
  }
  rates.productFlops = 1 / x;
  rates.productBytes = 1 / y;
}

// How often a launch of each name runs in a step of one microbatch.
std::map<std::string, Sample> worksOf(const MeasuredRun &run,
                                      Manifest::Phase phase, bool anyPhase,
                                      const std::string &kind) {
  std::map<std::string, Sample> works;
  for (const Manifest::Function &function : run.manifest.functions) {
    if (function.name != "first_microbatch" && function.name != "update")
      continue;
    for (const Manifest::LaunchRun &one : function.launches) {
      const Manifest::Launch &launch = run.manifest.launches[one.launch];
      bool isBackward = one.phase == Manifest::Phase::Backward;
      if (launch.kind != kind ||
          (!anyPhase && isBackward != (phase == Manifest::Phase::Backward)))
        continue;
      // All of a program's attention goes by one name in a trace.
      Sample &work = works[launch.kind == "attention"
                               ? launch.name.substr(0, launch.name.find(' '))
                               : launch.name];
      work.flops += double(one.count) * launch.flops;
      work.bytes +=
          double(one.count) * (launch.readBytes + launch.writtenBytes);
    }
  }
  return works;
}

class Fit {
public:
  explicit Fit(const std::vector<const MeasuredRun *> &runs) : runs(runs) {}

  Samples of(const std::string &kind,
             std::optional<Manifest::Phase> phase = {}) const {
    Samples samples;
    for (const MeasuredRun *run : runs)
      for (auto [name, work] : worksOf(
               *run, phase.value_or(Manifest::Phase::Forward), !phase, kind)) {
        auto measured = run->compute.find(name);
        if (measured == run->compute.end() || measured->second <= 0)
          continue;
        work.seconds = measured->second * run->threads;
        samples.push_back(work);
      }
    return samples;
  }

  // What the optimizer reads and writes, as the prediction counts it.
  Samples slices() const {
    Samples samples;
    for (const MeasuredRun *run : runs) {
      Sample sample;
      Topology topology(run->ranks, 1);
      for (const Manifest::Unit &unit : run->manifest.units)
        sample.bytes += optimizerBytes(run->manifest, unit, topology);
      auto measured = run->compute.find("optimizer");
      if (measured == run->compute.end())
        continue;
      sample.seconds = measured->second * run->threads;
      samples.push_back(sample);
    }
    return samples;
  }

private:
  const std::vector<const MeasuredRun *> &runs;
};

json::Object figure(double value, const std::string &source) {
  // Six digits are more than a measurement has.
  std::string text = llvm::formatv("{0:e5}", value).str();
  return json::Object{{"value", std::strtod(text.c_str(), nullptr)},
                      {"kind", "measured"},
                      {"source", source}};
}

json::Object ratesJson(const ThreadRates &rates, const std::string &source) {
  json::Object entry;
  for (const auto &[word, rate] : kThreadRates)
    entry[word] = figure(rates.*rate, source);
  return entry;
}

// Between kernels, for each of them.
double launchSeconds(const std::vector<MeasuredRun> &runs) {
  std::vector<double> each;
  for (const MeasuredRun &run : runs) {
    double kernels = 0, launches = 0;
    for (const auto &[name, seconds] : run.compute)
      kernels += seconds;
    for (const Manifest::Function &function : run.manifest.functions)
      if (function.name == "first_microbatch" || function.name == "update")
        for (const Manifest::LaunchRun &one : function.launches)
          launches += double(one.count);
    double rest =
        run.step - kernels - run.waiting - (run.ranks == 1 ? run.reduce : 0);
    each.push_back(std::max(0.0, rest / std::max(1.0, launches)));
  }
  std::sort(each.begin(), each.end());
  return each.empty() ? 0 : each[each.size() / 2];
}

// Gradients that a rank reads of the others while it sums them.
double linkBytesPerSecond(const std::vector<MeasuredRun> &runs) {
  Samples samples;
  for (const MeasuredRun &run : runs) {
    if (run.ranks == 1 || run.reduce <= 0)
      continue;
    Sample sample;
    for (const Manifest::Unit &unit : run.manifest.units)
      sample.bytes += double(unit.gradientBytes());
    sample.seconds = run.reduce;
    samples.push_back(sample);
  }
  return rateOf(samples, &Sample::bytes);
}

} // namespace

ThreadRates fitRates(const std::vector<const MeasuredRun *> &runs) {
  Fit fit(runs);
  ThreadRates rates;
  fitProducts(fit.of("product"), rates);
  rates.attentionForward =
      rateOf(fit.of("attention", Manifest::Phase::Forward), &Sample::flops);
  rates.attentionBackward =
      rateOf(fit.of("attention", Manifest::Phase::Backward), &Sample::flops);
  rates.lossFlops = rateOf(fit.of("loss"), &Sample::flops);
  rates.rowBytes = rateOf(fit.of("elementwise"), &Sample::bytes);
  rates.columnBytes = rateOf(fit.of("column sums"), &Sample::bytes);
  rates.sliceBytes = rateOf(fit.slices(), &Sample::bytes);
  return rates;
}

std::string calibratedDevice(const std::vector<MeasuredRun> &runs,
                             const MachineFigures &machine) {
  std::string source = llvm::formatv(
      "plan --calibrate: programs of its own on {0} threads of {1}",
      machine.threads, machine.name);
  auto fitted = [&](bool half, bool together) {
    std::vector<const MeasuredRun *> chosen;
    for (const MeasuredRun &run : runs)
      if ((run.manifest.paramType != SHX_F32) == half &&
          (run.threads > 1 || machine.threads == 1) == together)
        chosen.push_back(&run);
    return fitRates(chosen);
  };
  bool several = machine.threads > 1;
  ThreadRates f32 = fitted(false, !several), half = fitted(true, !several);
  json::Object file =
      std::move(*llvm::cantFail(json::parse(deviceFile("cpu"))).getAsObject());
  file["name"] = "calibrated";
  file["title"] = machine.name;
  file["machine_threads"] = figure(machine.threads, source);
  file["memory_bytes"] = figure(machine.memoryBytes, source);
  auto both = [&](const char *key, double first, double second, const char *one,
                  const char *other) {
    file[key] = json::Object{{one, figure(first, source)},
                             {other, figure(second, source)}};
  };
  for (const char *key : {"peak_flops", "product_flops"})
    both(key, f32.productFlops, half.productFlops, "f32", "bf16");
  both("attention_flops", f32.attentionForward, f32.attentionBackward,
       "forward", "backward");
  file["memory_bytes_per_second"] = figure(f32.sliceBytes, source);
  file["launch_seconds"] = figure(launchSeconds(runs), source);
  if (double link = linkBytesPerSecond(runs); link > 0)
    file["within"] = json::Object{{"bytes_per_second", figure(link, source)}};
  file["rates"] = json::Object{
      {"f32",
       json::Object{{"alone", ratesJson(f32, source)},
                    {"together", ratesJson(fitted(false, true), source)}}},
      {"bf16",
       json::Object{{"alone", ratesJson(half, source)},
                    {"together", ratesJson(fitted(true, true), source)}}}};
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::formatv("{0:2}", json::Value(std::move(file))) << "\n";
  return text;
}

} // namespace shardonnx
