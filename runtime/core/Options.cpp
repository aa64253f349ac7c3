// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options through CLI11: the texts here are what --help shows.

#include "Options.h"
#include "../support/Error.h"
#include "shardonnx/runtime/Layout.h"
#include "shardonnx/runtime/OptionNames.h"
#include "shardonnx/runtime/WholeNumber.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <regex>
#include <system_error>

namespace shardonnx::rt {
namespace {

constexpr int64_t kMany = int64_t(1) << 40;

// Bounds are checked by functions of our own: --help shows a letter, and the
// message says what is wanted.
CLI::Option *whole(CLI::Option *option, int64_t least, int64_t most = kMany) {
  auto read = [=](std::string &text) {
    std::optional<int64_t> value = parseWhole(text, least, most);
    if (!value)
      return concat("'", text, "' is not a whole number within ", least, "…",
                    most);
    text = std::to_string(*value); // without K or M
    return std::string();
  };
  return option->transform(CLI::Validator(read, ""))->type_name("N");
}

// Where the command line has no such option of its own.
bool isFromEnvironment(const std::string &text, const char *name) {
  const char *value = std::getenv(name);
  return value && text == value;
}

CLI::Option *nonNegative(CLI::Option *option) {
  return option
      ->check([](const std::string &text) {
        char *end = nullptr;
        double value = std::strtod(text.c_str(), &end);
        bool good =
            !text.empty() && !*end && value >= 0 && std::isfinite(value);
        return good ? std::string()
                    : concat("'", text, "' is not a number of 0 or more");
      })
      ->type_name("X")
      ->capture_default_str();
}

// One of some words; --help shows which is the default.
CLI::Option *oneOf(CLI::Option *option, const std::vector<std::string> &words) {
  return option->check(CLI::IsMember(words).description(""))
      ->type_name("KIND")
      ->capture_default_str();
}

void addData(CLI::App &app, Options &o) {
  app.add_option("--data", o.data,
                 "Token file (.bin: little-endian uint16, or with llm.c's "
                 "header), or .npz or .safetensors with one array per graph "
                 "input and 'labels'; several files or a pattern in quotes "
                 "('shards/*.bin') are read one after the other")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->required();
  app.add_option("--data-dtype", o.dataType,
                 "Token type of a raw .bin file: u16 (default), u32")
      ->check(CLI::IsMember({"u16", "u32"}).description(""))
      ->type_name("TYPE");
  auto *shift = app.add_flag_callback(
      "--shift-labels", [&o] { o.shiftLabels = true; },
      "Labels of .npz and .safetensors files are the inputs again, as "
      "transformers' models take them: the one behind a position is its label, "
      "the last of a sample has none. Without it they are labels as they "
      "stand, those that repeat the inputs are refused, and a graph that "
      "computes its own loss shifts them itself");
  app.add_flag_callback(
         "--no-shift-labels", [&o] { o.shiftLabels = false; },
         "Labels that repeat the inputs are meant so")
      ->excludes(shift);
  app.add_option("--eval-data", o.evalData, "Data of the validation loss")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  whole(app.add_option("--eval-every", o.evalEvery,
                       "Steps between validation losses (0: only one, after "
                       "the last step)"),
        0);
  whole(app.add_option("--patience", o.patience,
                       "Evaluations without a lower loss after which the run "
                       "ends (0: any number)"),
        0);
  whole(app.add_option(
            "--seed", o.seed,
            "Of --shuffle, --init=random, dropout and what the graph draws"),
        0, INT64_MAX)
      ->capture_default_str();
  app.add_flag("--shuffle", o.shuffle, "Permute the samples of each epoch");
}

// Options that are read as they are written and translated afterwards.
struct Texts {
  std::vector<double> betas{0.9, 0.95};
  std::string schedule = spell(Schedule::Kind::Constant), init = "model",
              onNonFinite = "stop", offload = spell(Offload::None);
  std::string adjustLR = spell(AdjustLR::Original);
  std::optional<std::string> lossScale;
  std::optional<std::string> traceSteps;
};

void addRanks(CLI::App &app, Options &o) {
  whole(app.add_option("--nproc", o.nproc,
                       "Start so many ranks on this machine; without it, as "
                       "torchrun, mpirun or srun say, else one"),
        1, kMaxRanks);
  whole(app.add_option("--replicas", o.replicas,
                       "Groups of ranks that each keep the model, of "
                       "--strategy=hybrid_shard or hybrid_shard_zero2 (the "
                       "number of machines)"),
        1, kMaxRanks);
  app.add_option("--flight-record", o.flightRecord,
                 "Where the last collectives of every rank are written when a "
                 "run of several ends badly, for shardonnx inspect (none: "
                 "nowhere; default: PROGRAM.flight.json)")
      ->type_name("FILE");
  app.add_option("--timeout", o.timeout,
                 "Seconds that a rank waits for another before it ends the "
                 "run and says who hangs in what")
      ->envname("SHARDONNX_TIMEOUT")
      ->check([](const std::string &text) {
        char *end = nullptr;
        double seconds = std::strtod(text.c_str(), &end);
        if (!text.empty() && !*end && seconds > 0 && seconds < 1e9)
          return std::string();
        return concat("'", text, "' is not a number of seconds above 0",
                      seconds >= 1e9 ? " and below 1e9" : "",
                      isFromEnvironment(text, "SHARDONNX_TIMEOUT")
                          ? " (SHARDONNX_TIMEOUT in the environment)"
                          : "");
      })
      ->type_name("SECONDS")
      ->capture_default_str();
}

void addTraining(CLI::App &app, Options &o, Texts &texts) {
  whole(app.add_option("--steps", o.steps, "Optimizer steps"), 1)
      ->capture_default_str();
  whole(app.add_option("--accumulate", o.accumulate, "Microbatches per step"),
        1, 1 << 20)
      ->capture_default_str();
  app.add_option("--log", o.log,
                 "Write one JSON object per step to this file (-: to standard "
                 "output, and what is for people to standard error)")
      ->type_name("FILE");
  app.add_option("--tensorboard", o.tensorboard,
                 "Write an event file for TensorBoard into this folder")
      ->type_name("DIR");
  app.add_option("--trace", o.trace,
                 "Write a trace of compute and communication to this file, "
                 "for ui.perfetto.dev")
      ->type_name("FILE.json");
  app.add_flag("--profile", o.profile,
               "At the end, print where the time of a step went: every kernel "
               "and product, its GFLOP/s or GB/s and the share of what this "
               "machine does at best, and waits");
  app.add_option("--trace-steps", texts.traceSteps,
                 "Steps of --trace (2-4) and --profile (4-13; both of those "
                 "that this run takes)")
      ->type_name("FIRST-LAST");
  app.add_flag("--debug-memory", o.debugMemory,
               "Poison freed buffers (slow; SHARDONNX_DEBUG_MEMORY=1 too)");
}

constexpr int64_t kProfileFirst = 4, kProfileLast = 13;

// One number is one step. The default counts from where the run begins.
void setTraceSteps(const std::optional<std::string> &text, Options &o) {
  if (!text) {
    if (o.profile && o.trace.empty()) { // behind the warm-up
      o.traceFirst = kProfileFirst;
      o.traceLast = kProfileLast;
    }
    return;
  }
  if (o.trace.empty() && !o.profile)
    failUsage("--trace-steps needs --trace FILE.json or --profile");
  size_t dash = text->find('-');
  std::string end = dash == text->npos ? *text : text->substr(dash + 1);
  std::optional<int64_t> first = parseWhole(text->substr(0, dash), 1, kMany);
  std::optional<int64_t> last = parseWhole(end, 1, kMany);
  if (!first || !last || *first > *last)
    failUsage("--trace-steps: '", *text, "' is not FIRST-LAST, as in 2-4");
  if (*last > o.steps)
    failUsage("--trace-steps=", *text, ": the run has ", o.steps,
              " steps; give more --steps, or others");
  o.traceStepsGiven = true;
  o.traceFirst = *first;
  o.traceLast = *last;
}

void setLossScale(const std::optional<std::string> &text, Options &o) {
  o.dynamicLossScale = text == "dynamic";
  if (!text || o.dynamicLossScale)
    return;
  char *end = nullptr;
  double scale = std::strtod(text->c_str(), &end);
  if (text->empty() || *end || !(scale >= 0x1p-120 && scale <= 0x1p120))
    failUsage("--loss-scale: '", *text,
              "' is neither 'dynamic' nor a factor "
              "above 0, as 1024");
  o.lossScale = scale;
}

void translate(const Texts &texts, Options &o) {
  o.scheduleKind = *parseSpelling<Schedule::Kind>(texts.schedule);
  o.randomInit = texts.init == "random";
  o.offload = parseSpelling<Offload>(texts.offload).value_or(Offload::None);
  o.adjustLR = parseSpelling<AdjustLR>(texts.adjustLR).value_or(o.adjustLR);
  o.beta1 = texts.betas[0];
  o.beta2 = texts.betas[1];
  o.skipNonFinite = texts.onNonFinite == "skip";
  setTraceSteps(texts.traceSteps, o);
  setLossScale(texts.lossScale, o);
}

void addOffload(CLI::App &app, Options &o, Texts &texts) {
  oneOf(app.add_option(
            "--offload", texts.offload,
            "Keep the owned slices of the optimizer's state (optimizer), "
            "of weights as well (params), in pinned host memory; of a "
            "program for CPUs in a file in --offload-dir"),
        spellAll<Offload>());
  app.add_option("--offload-dir", o.offloadDir,
                 "Folder on a fast disk for --offload of a program for CPUs")
      ->type_name("DIR");
}

void addOptimizer(CLI::App &app, Options &o, Texts &texts) {
  nonNegative(app.add_option("--lr", o.lr, "Learning rate"));
  app.add_option("--betas", texts.betas, "Of Adam")
      ->type_name("X,X")
      ->delimiter(',')
      ->expected(2)
      ->default_str("0.9,0.95");
  nonNegative(app.add_option("--eps", o.eps, "Of Adam"));
  nonNegative(app.add_option("--weight-decay", o.weightDecay,
                             "Of every trainable parameter"));
  app.add_option("--no-decay", o.noDecay,
                 "Parameters (whole name) without weight decay")
      ->type_name("REGEX");
  nonNegative(
      app.add_option("--momentum", o.momentum, "Of SGD (0), of Muon (0.95)"));
  nonNegative(app.add_option("--muon-lr", o.muonLR,
                             "Of Muon's matrices, under the same schedule; "
                             "default: --lr's"));
  oneOf(app.add_option(
            "--adjust-lr-fn", texts.adjustLR,
            "Factor on the learning rate of Muon's matrix of AxB: "
            "sqrt(max(1, A/B)) (original), or 0.2*sqrt(max(A, B)), with "
            "which AdamW's rate serves (match_rms_adamw)"),
        spellAll<AdjustLR>());
  nonNegative(app.add_option("--clip-grad-norm", o.clipGradNorm,
                             "Largest global gradient norm (0: off)"));
  nonNegative(app.add_option("--clip-grad-value", o.clipGradValue,
                             "Largest element of a gradient, either sign, "
                             "behind --clip-grad-norm (0: off)"));
  app.add_option("--loss-scale", texts.lossScale,
                 "Factor on the loss against zeros in float16 gradients: a "
                 "number, or dynamic (halved on overflow, when the step is "
                 "skipped; doubled after 2000 steps). Default: dynamic for "
                 "float16 programs, else 1")
      ->type_name("dynamic|X");
  oneOf(app.add_option(
            "--on-nonfinite", texts.onNonFinite,
            "A step whose loss or gradient norm is not finite: stop, or "
            "skip its update"),
        {"stop", "skip"});
  oneOf(app.add_option("--schedule", texts.schedule,
                       "Of the learning rate: constant, linear, cosine, wsd"),
        spellAll<Schedule::Kind>());
  whole(app.add_option("--warmup", o.warmup, "Steps of linear warm-up"), 0)
      ->capture_default_str();
  nonNegative(
      app.add_option("--min-lr", o.minLR, "Learning rate of the last step"));
}

void addModel(CLI::App &app, Options &o, Texts &texts) {
  oneOf(app.add_option("--init", texts.init, "Initial weights: model, random"),
        {"model", "random"});
  app.add_option("--model", o.model,
                 "Where the ONNX file with the initial weights is now, or a "
                 "state dict: .safetensors, its .index.json, or the folder "
                 "that save_pretrained wrote; its names may have a prefix more "
                 "or less (model., module., _orig_mod.)")
      ->type_name("FILE");
  app.add_option("--adapter", o.adapter,
                 "Starts from this PEFT folder: adapter_config.json and "
                 "adapter_model.safetensors (of programs compiled with --lora)")
      ->type_name("DIR");
}

void addCheckpoints(CLI::App &app, Options &o) {
  app.add_option("--save", o.save,
                 "Save checkpoints to this folder: at the end, and as "
                 "--save-every says")
      ->type_name("DIR");
  whole(app.add_option("--save-every", o.saveEvery,
                       "Steps between checkpoints (0: only at the end)"),
        0);
  whole(app.add_option("--keep", o.keep,
                       "Checkpoints that stay, the newest (0: all)"),
        0);
  app.add_flag("--keep-best", o.keepBest,
               "Save after each evaluation with a lower loss than any before, "
               "and keep the newest such checkpoint, which `best` in the "
               "folder links to");
  app.add_option("--resume", o.resume,
                 "Go on from this checkpoint, or from the newest whole one in "
                 "the folder that --save named; --steps counts from the run's "
                 "begin")
      ->type_name("DIR");
}

void checkTogether(const Options &o) {
  if (o.save.empty() && (o.saveEvery > 0 || o.keep > 0))
    failUsage(o.keep > 0 ? "--keep" : "--save-every", " needs --save DIR");
  if (o.trace == "-")
    failUsage("--trace -: a trace is put together in a file; name one");
  if (o.evalEvery > 0 && o.evalData.empty())
    failUsage("--eval-every needs --eval-data FILE");
  if (o.patience > 0 && o.evalEvery == 0)
    failUsage("--patience needs --eval-every N: it counts evaluations");
  if (o.keepBest && (o.save.empty() || o.evalData.empty()))
    failUsage("--keep-best needs ",
              o.save.empty() ? "--save DIR" : "--eval-data FILE");
  if (!(o.beta1 >= 0 && o.beta1 < 1 && o.beta2 >= 0 && o.beta2 < 1))
    failUsage("--betas must lie in [0, 1)");
  try {
    static_cast<void>(std::regex(o.noDecay));
  } catch (const std::regex_error &e) {
    failUsage("--no-decay: '", o.noDecay, "' is no regular expression (",
              e.what(), ")");
  }
}

// Underscores in names become dashes; a name that is none of ours is explained.
void checkNames(const CLI::App &app, std::vector<std::string> &arguments) {
  std::vector<std::string> names;
  for (const CLI::Option *option : app.get_options()) {
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      names.push_back("-" + name);
  }
  for (std::string &argument : arguments)
    argument = dashedOption(argument, names);
  std::string wrong = explainUnknownOption(
      arguments, names,
      {{"shardonnx compile, which makes the program", compileOptionNames()}});
  if (!wrong.empty())
    failUsage(wrong, "; --help lists the options");
  if (std::string empty = explainEmptyValue(arguments); !empty.empty())
    failUsage(empty);
  if (std::string flag = explainFlagValue(app, arguments); !flag.empty())
    failUsage(flag);
}

} // namespace

std::optional<Options> parseOptions(int argc, char **argv,
                                    const std::string &description) {
  Options o;
  Texts texts;
  CLI::App app(description, programName());
  app.footer("Environment:\n"
             "  SHARDONNX_NUM_THREADS=N     Threads of each rank (else its "
             "share of the cores)\n"
             "  SHARDONNX_SECRET=TEXT       By which ranks of several machines "
             "know each other, the\n"
             "                              same on all\n");
  addData(app, o);
  addTraining(app, o, texts);
  addRanks(app, o);
  addOptimizer(app, o, texts);
  addOffload(app, o, texts);
  addModel(app, o, texts);
  addCheckpoints(app, o);
  o.command.assign(argv, argv + argc);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  checkNames(app, arguments);
  std::reverse(arguments.begin(), arguments.end()); // as CLI11 takes them
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp &) {
    std::cout << app.help() << std::flush;
    if (!std::cout)
      fail("cannot write to standard output: ", systemError());
    return std::nullopt;
  } catch (const CLI::ParseError &e) {
    failUsage(explainParseError(e.what()), "; --help lists the options");
  }
  if (std::string empty = explainEmptyValue(app); !empty.empty())
    failUsage(empty);
  translate(texts, o);
  const char *debug = std::getenv("SHARDONNX_DEBUG_MEMORY");
  o.debugMemory |= debug && *debug && std::string(debug) != "0";
  checkTogether(o);
  return o;
}

} // namespace shardonnx::rt
