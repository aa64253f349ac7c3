// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `shardonnx plan --calibrate`: compiles a few small models as any other,
// trains each for some steps on this machine with a trace, and writes what
// launches took as a device file. The kernels measured are those that a program
// has.

#include "CalibrationModel.h"
#include "Trial.h"
#include "shardonnx/Cost/Calibration.h"
#include "shardonnx/Driver/Compilation.h"
#include "shardonnx/Driver/Plan.h"
#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/TemporaryFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unistd.h>

using namespace mlir;

namespace shardonnx {
namespace {

// Not the shape of anything that people train: narrow, middling and wide, since
// how fast products are depends on it.
constexpr CalibrationModel kModels[] = {
    {4, 192, 320, 5, 1280, 6144, /*gated=*/false},
    {1, 384, 640, 10, 1728, 6144, /*gated=*/true},
    {2, 256, 832, 13, 2240, 6144, /*gated=*/true},
};
constexpr int kSteps = 16, kFirstTraced = 3;
// What disturbs a run for seconds has gone when its turn comes again.
constexpr int kRounds = 2;

// The model's hidden size, the dtype and the ranks.
using RunKey = std::tuple<int64_t, ShxDType, int>;

class Calibrator {
public:
  explicit Calibrator(Diagnostics &diagnostics) : diagnostics(diagnostics) {}
  ~Calibrator() {
    if (std::error_code error = llvm::sys::fs::remove_directories(folder))
      diagnostics.warning("'" + folder + "' stays: " + error.message());
  }

  LogicalResult start();
  LogicalResult measure(const CalibrationModel &model, ShxDType dtype);

  std::vector<MeasuredRun> runs() const {
    std::vector<MeasuredRun> all;
    for (const auto &[key, run] : fastest)
      all.push_back(run);
    return all;
  }

private:
  LogicalResult fail(const Twine &message) {
    return diagnostics.error("--calibrate: " + message);
  }
  std::string file(StringRef name) const {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return path.str().str();
  }
  LogicalResult write(const std::string &path, StringRef content);
  LogicalResult train(MeasuredRun run, const RunKey &key);
  LogicalResult read(MeasuredRun &run);

  Diagnostics &diagnostics;
  llvm::SmallString<128> folder;
  std::map<RunKey, MeasuredRun> fastest; // of all rounds
};

// A traced step, in microseconds, and the seconds in it of the spans of each
// kind and name.
struct TracedStep {
  double begin, end;
  std::map<std::pair<std::string, std::string>, double> seconds;
};

// Of rank 0, with what ran in each.
std::vector<TracedStep> stepsOf(const llvm::json::Array &events) {
  std::vector<TracedStep> steps;
  auto forEvents = [&](auto visit) {
    for (const llvm::json::Value &entry : events) {
      const llvm::json::Object *event = entry.getAsObject();
      if (!event || event->getInteger("pid") != 0)
        continue;
      visit(event->getString("cat").value_or("").str(),
            event->getString("name").value_or("").str(),
            event->getNumber("ts").value_or(0),
            event->getNumber("dur").value_or(0));
    }
  };
  forEvents([&](const std::string &kind, const std::string &name, double begin,
                double length) {
    if (kind == "steps" && StringRef(name).starts_with("step "))
      steps.push_back({begin, begin + length, {}});
  });
  forEvents([&](const std::string &kind, const std::string &name, double begin,
                double length) {
    double middle = begin + length / 2;
    for (TracedStep &step : steps)
      if (kind != "steps" && step.begin <= middle && middle < step.end)
        step.seconds[{kind, name}] += length * 1e-6;
  });
  return steps;
}

// The half that was disturbed least. The same steps count for all that ran in
// them: so what passes between launches is the rest of them.
void keepQuiet(std::vector<TracedStep> &steps) {
  llvm::stable_sort(steps, [](const TracedStep &a, const TracedStep &b) {
    return a.end - a.begin < b.end - b.begin;
  });
  steps.resize((steps.size() + 1) / 2);
}

std::string processorName() {
  auto file = llvm::MemoryBuffer::getFileAsStream("/proc/cpuinfo");
  StringRef text = file ? (*file)->getBuffer() : StringRef();
  StringRef name = text.split("model name").second.split(':').second;
  name = name.take_until([](char c) { return c == '\n'; }).trim();
  return name.empty() ? "an unnamed processor" : name.str();
}

} // namespace

LogicalResult Calibrator::write(const std::string &path, StringRef content) {
  return writeFileAtomically(diagnostics, path, content);
}

LogicalResult Calibrator::start() {
  if (std::error_code error =
          llvm::sys::fs::createUniqueDirectory("shardonnx-calibrate", folder))
    return fail(cannotWriteTemporary(error));
  std::string tokens;
  uint32_t state = 1;
  for (int i = 0; i < 1 << 16; ++i) {
    state = state * 1664525 + 1013904223;
    uint32_t token = (state >> 16) % 4096;
    tokens += {char(token & 0xff), char(token >> 8)};
  }
  return write(file("tokens.bin"), tokens);
}

LogicalResult Calibrator::measure(const CalibrationModel &model,
                                  ShxDType dtype) {
  FailureOr<std::string> bytes = onnxOfText(textOf(model), diagnostics);
  if (failed(bytes) || failed(write(file("model.onnx"), *bytes)))
    return failure();
  CompileOptions options;
  options.model = file("model.onnx");
  options.paramDtype = dtype;
  options.trainable = {".*"};
  Compilation compilation(options, diagnostics);
  if (failed(compilation.runTo(Level::Memory)))
    return failure();
  FailureOr<std::string> text = compilation.manifest();
  if (failed(text) || failed(compilation.runTo(Level::Object)) ||
      failed(compilation.link(file("program"))))
    return failure();
  std::string error;
  std::optional<Manifest> manifest = parseManifest(*text, error);
  if (!manifest)
    return fail(error);
  int threads = threadsPerRank(1);
  MeasuredRun run;
  run.manifest = std::move(*manifest);
  run.threads = threads;
  if (failed(train(run, {model.hidden, dtype, run.ranks})))
    return failure();
  run.ranks = threads;
  run.threads = 1;
  RunKey key = {model.hidden, dtype, run.ranks};
  return threads == 1 ? success() : train(std::move(run), key);
}

LogicalResult Calibrator::train(MeasuredRun run, const RunKey &key) {
  std::string program = file("program"), messages = file("messages"),
              steps = std::to_string(kSteps), ranks = std::to_string(run.ranks),
              window = std::to_string(kFirstTraced) + "-" + steps,
              data = file("tokens.bin"), trace = file("trace.json");
  StringRef arguments[] = {
      program,   "--data", data,      "--init=random", "--steps",       steps,
      "--nproc", ranks,    "--trace", trace,           "--trace-steps", window};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(messages),
                                          StringRef(messages)};
  std::string message;
  constexpr unsigned kPatience = 300; // seconds
  if (llvm::sys::ExecuteAndWait(program, arguments, std::nullopt, redirects,
                                kPatience, 0, &message) != 0) {
    auto said = llvm::MemoryBuffer::getFile(messages);
    StringRef text = said ? (*said)->getBuffer().trim() : StringRef();
    return fail("a run of " + ranks + " ranks on this machine failed: " +
                (text.empty() ? StringRef(message) : text.rsplit('\n').second));
  }
  if (failed(read(run)))
    return failure();
  auto [place, isNew] = fastest.try_emplace(key, run);
  if (!isNew && run.step < place->second.step)
    place->second = std::move(run);
  return success();
}

LogicalResult Calibrator::read(MeasuredRun &run) {
  auto buffer = llvm::MemoryBuffer::getFile(file("trace.json"));
  llvm::Expected<llvm::json::Value> value =
      llvm::json::parse(buffer ? (*buffer)->getBuffer() : StringRef());
  if (!value)
    return fail(llvm::toString(value.takeError()));
  const llvm::json::Object *object = value->getAsObject();
  const llvm::json::Array *events =
      object ? object->getArray("traceEvents") : nullptr;
  if (!events)
    return fail("a run has left no trace");
  std::vector<TracedStep> steps = stepsOf(*events);
  if (steps.empty())
    return fail("the trace of a run has no steps");
  keepQuiet(steps);
  for (const TracedStep &step : steps) {
    double share = 1 / double(steps.size());
    run.step += share * (step.end - step.begin) * 1e-6;
    for (const auto &[what, seconds] : step.seconds) {
      const auto &[kind, name] = what;
      if (kind == "compute")
        run.compute[name] += share * seconds;
      else if (kind == "waiting")
        run.waiting += share * seconds;
      else if (kind == "reduce")
        run.reduce += share * seconds;
    }
  }
  return success();
}

int runCalibration(const PlanOptions &options) {
  Diagnostics diagnostics;
  const CompileOptions &compile = options.compile;
  if (compile.target == TargetKind::CUDA) {
    (void)diagnostics.error(
        "--calibrate: GPUs cannot be measured yet, only this machine's CPU; "
        "leave --target=cuda out, or plan with --device=" +
        llvm::join(llvm::ArrayRef(deviceNames()).drop_front(), "|"));
    return kExitUsage;
  }
  if (!compile.model.empty() || options.gpus != 0 || !options.device.empty()) {
    (void)diagnostics.error(
        "--calibrate measures this machine and plans nothing: leave MODEL, "
        "--gpus and --device out, and give the file to --device afterwards");
    return kExitUsage;
  }
  Calibrator calibrator(diagnostics);
  if (failed(checkFileIsWritable(diagnostics, options.calibrate)) ||
      failed(calibrator.start()))
    return kExitInput;
  for (int round = 0; round < kRounds; ++round)
    for (ShxDType dtype : {SHX_F32, SHX_BF16})
      for (const CalibrationModel &model : kModels)
        if (failed(calibrator.measure(model, dtype)))
          return kExitInput;
  MachineFigures machine;
  machine.threads = threadsPerRank(1);
  machine.memoryBytes =
      double(::sysconf(_SC_PHYS_PAGES)) * double(::sysconf(_SC_PAGESIZE));
  machine.name = processorName();
  std::string text = calibratedDevice(calibrator.runs(), machine);
  return failed(writeFileAtomically(diagnostics, options.calibrate, text))
             ? kExitInput
             : kExitDone;
}

} // namespace shardonnx
