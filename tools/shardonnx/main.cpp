// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command line. Every option of the contract is declared once, here; what
// it means is the driver's.

#include "Config.h"
#include "shardonnx/Driver/Eval.h"
#include "shardonnx/Support/ByteSize.h"
#include "shardonnx/runtime/Layout.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>

using namespace shardonnx;

namespace {

constexpr int64_t kLargestSize = int64_t(1) << 40;

void addDim(CompileOptions &options, const std::string &text) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    usageError("--dim: '" + text + "' is not NAME=N");
  std::optional<int64_t> size =
      parseWhole(text.substr(equals + 1), 1, kLargestSize);
  if (!size)
    usageError("--dim: '" + text.substr(equals + 1) + "' in '" + text +
               "' is not a whole number within 1..." +
               std::to_string(kLargestSize));
  options.dims[text.substr(0, equals)] = *size;
}

const std::vector<std::string> kStrategies = {
    "full_shard", "shard_grad_op", "shard_opt",
    "no_shard",   "hybrid_shard",  "hybrid_shard_zero2"};
const std::vector<std::string> kFloatTypes = {"f32", "bf16", "f16"};

// A whole number within bounds: --help shows a letter, and the message says
// what is wanted.
CLI::Option *whole(CLI::Option *option, int64_t least, int64_t most) {
  return option
      ->check([=](const std::string &text) {
        return parseWhole(text, least, most)
                   ? std::string()
                   : "'" + text + "' is not a whole number within " +
                         std::to_string(least) + "..." + std::to_string(most);
      })
      ->type_name("N");
}

// One of a few words; --help lists them.
CLI::Option *oneOf(CLI::Option *option, const std::vector<std::string> &words) {
  std::string list;
  for (const std::string &word : words)
    list += (list.empty() ? "" : "|") + word;
  return option
      ->check([words, list](const std::string &text) {
        bool known = std::find(words.begin(), words.end(), text) != words.end();
        return known ? std::string() : "'" + text + "' is not one of " + list;
      })
      ->type_name(list);
}

// What is wrong with a value of --recompute; empty when nothing is.
std::string checkRecompute(const std::string &text) {
  auto startsWith = [&](const std::string &prefix) {
    return text.rfind(prefix, 0) == 0;
  };
  if (text == "none" || text == "block" || text == "selective")
    return "";
  if (startsWith("every:"))
    return parseWhole(text.substr(6), 1, 1 << 20)
               ? ""
               : "'" + text + "': every: wants a positive number of blocks";
  if (startsWith("budget:"))
    return parseByteSize(text.substr(7))
               ? ""
               : "'" + text + "': budget: wants bytes, as in budget:512MiB";
  return "'" + text +
         "' is not one of none|block|every:N|selective|budget:BYTES";
}

// The options that change the program, shared by compile and inspect.
void addProgramOptions(CLI::App &app, CompileOptions &o) {
  oneOf(app.add_option("--target", o.target, "where the executable runs"),
        {"cpu", "cuda"})
      ->capture_default_str();
  app.add_option("--arch", o.arch,
                 "native, x86-64-v3, x86-64-v4 or a CPU name; for cuda sm_90, "
                 "or several: sm_80,sm_90 (native: this machine's GPU, sm_90 "
                 "without one)")
      ->type_name("ARCH")
      ->capture_default_str();
  whole(app.add_option_function<int64_t>(
            "--batch", [&o](int64_t n) { o.batch = n; },
            "axis 0 of every input: samples per rank and microbatch"),
        1, kLargestSize);
  whole(app.add_option_function<int64_t>(
            "--seq", [&o](int64_t n) { o.seq = n; },
            "axis 1 of token inputs: tokens per sample"),
        1, kLargestSize);
  app.add_option_function<std::vector<std::string>>(
         "--dim",
         [&o](const std::vector<std::string> &all) {
           for (const std::string &text : all)
             addDim(o, text);
         },
         "bind a dynamic dimension by name")
      ->allow_extra_args(false)
      ->type_name("NAME=N");
  oneOf(app.add_option("--loss", o.loss, "default: decided from the outputs"),
        {"causal-lm", "cross-entropy", "mse", "graph"});
  app.add_option("--logits", o.logits, "the graph output that the loss reads")
      ->type_name("NAME");
  oneOf(app.add_option("--strategy", o.strategy,
                       "who holds parameters and gradients"),
        kStrategies)
      ->capture_default_str();
  app.add_option("--unit", o.units,
                 "block, size:N and regexes over whole module paths, together")
      ->type_name("UNIT")
      ->allow_extra_args(false)
      ->capture_default_str();
  oneOf(app.add_option("--param-dtype", o.paramDtype,
                       "gathered parameters and activations"),
        kFloatTypes)
      ->capture_default_str();
  oneOf(app.add_option("--reduce-dtype", o.reduceDtype,
                       "gradients in the reduction [f32]"),
        kFloatTypes);
  oneOf(app.add_option("--output-dtype", o.outputDtype, "the graph's outputs"),
        kFloatTypes);
  app.add_option("--recompute", o.recompute,
                 "what backward computes again: nothing; every block, or every "
                 "N-th; all but matrix products and attention; the cheapest "
                 "with which activations fit")
      ->check(checkRecompute)
      ->type_name("none|block|every:N|selective|budget:BYTES")
      ->capture_default_str();
  whole(app.add_option("--forward-prefetch", o.forwardPrefetch,
                       "units ahead that an all-gather is issued"),
        0, 1024)
      ->capture_default_str();
  whole(app.add_option("--backward-prefetch", o.backwardPrefetch,
                       "the same in the backward pass"),
        0, 1024)
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--memory-budget",
         [&o](const std::string &text) {
           o.memoryBudget = parseByteSize(text);
         },
         "of a rank, at --world-size: gathers start as early as it allows, "
         "what is left keeps units gathered")
      ->check([](const std::string &text) {
        return parseByteSize(text)
                   ? std::string()
                   : "'" + text + "' is no size; write 80GB or 512MiB";
      })
      ->type_name("BYTES");
  oneOf(app.add_option("--optimizer", o.optimizer, "what the update computes"),
        {"adamw", "adam", "sgd"})
      ->capture_default_str();
  oneOf(app.add_option("--accumulate-mode", o.accumulateMode,
                       "gradients over microbatches: each reduced into owned "
                       "slices, or kept whole and reduced with the last"),
        {"sharded", "unsharded"})
      ->capture_default_str();
  app.add_option("--freeze", o.freeze,
                 "regexes over whole parameter names: not trained")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  oneOf(app.add_option("--dropout", o.dropout,
                       "which Dropout nodes drop: those in training mode, all "
                       "with a ratio, none"),
        {"graph", "on", "off"})
      ->capture_default_str();
  oneOf(app.add_option("--attention-mask", o.attentionMask,
                       "the graph's padding masks: folded to ones, read from "
                       "the data, or read where attention is not causal"),
        {"ones", "input", "auto"})
      ->capture_default_str();
  whole(app.add_option_function<int64_t>(
            "--document-separator",
            [&o](int64_t n) { o.documentSeparator = n; },
            "the token that ends a document: attention and the loss stay "
            "within documents"),
        0, int64_t(1) << 31)
      ->type_name("ID");
  app.add_option("--ignore", o.ignore,
                 "regexes over whole parameter names: whole on every rank")
      ->allow_extra_args(false)
      ->type_name("REGEX");
  app.add_flag("--strict-numerics", o.strictNumerics,
               "only passes that preserve numerics bit for bit");
  app.add_flag("--tf32", o.tf32,
               "f32 matrix products may round their operands to TF32 (cuda)");
  whole(app.add_option_function<int64_t>(
            "--world-size", [&o](int64_t n) { o.worldSize = n; },
            "a hint; the executable runs at any"),
        1, kLargestSize);
  app.add_option("--config", o.config,
                 "JSON with these keys and 'units', or Accelerate's YAML for "
                 "FSDP; options win")
      ->type_name("FILE");
}

void addCompileOptions(CLI::App &app, CompileOptions &o) {
  app.add_option("MODEL", o.model, "the exported ONNX model")
      ->type_name("FILE")
      ->required();
  app.add_option("-o,--output", o.output, "default: the model's stem")
      ->type_name("OUT");
  oneOf(app.add_option("--emit", o.emit, "stop there and print it"),
        {"onnx", "nn", "grad", "fsdp", "schedule", "memory", "llvm", "ptx",
         "obj"});
  app.add_option("--print-ir-after", o.printIRAfter,
                 "passes after which the IR goes to standard error, or all")
      ->allow_extra_args(false)
      ->type_name("PASS");
  app.add_option("--dump-dir", o.dumpDir, "write the IR of every level there")
      ->type_name("DIR");
  app.add_flag("--timing", o.timing, "print the time of every pass");
  app.add_flag("--print-locations", o.printLocations,
               "print ONNX node names and module paths");
  addProgramOptions(app, o);
}

void addExportOptions(CLI::App &app, ExportOptions &o) {
  app.add_option("CHECKPOINT", o.checkpoint,
                 "a checkpoint, or the folder that --save named: the newest")
      ->type_name("DIR")
      ->required();
  app.add_option("-o,--output", o.output,
                 "model.onnx: the graph with these weights; "
                 "model.safetensors: a state dict")
      ->type_name("FILE")
      ->required();
  app.add_option("--model", o.model,
                 "where the ONNX file that was compiled is now")
      ->type_name("FILE");
}

std::string checkInput(const std::string &text) {
  size_t equals = text.find('=');
  return equals == std::string::npos || equals == 0 || equals + 1 == text.size()
             ? "'" + text + "' is not NAME=FILE.npy"
             : "";
}

void addEvalOptions(CLI::App &app, EvalOptions &o) {
  app.add_option("MODEL", o.model, "an ONNX model")
      ->type_name("FILE")
      ->required();
  app.add_option("--input", o.inputs,
                 "the value of a graph input; its shape binds the model's "
                 "dynamic dimensions")
      ->check(checkInput)
      ->allow_extra_args(false)
      ->type_name("NAME=FILE.npy");
  app.add_option("--output-dir", o.outputDir,
                 "each output is written there as NAME.npy, what no file name "
                 "should have as %XX")
      ->type_name("DIR")
      ->required();
  app.add_flag("--grad", o.gradients,
               "also write the gradient of the sum of the float outputs, for "
               "each float input and initializer, as NAME.grad.npy");
  oneOf(app.add_option("--dropout", o.dropout,
                       "off: Dropout nodes in training mode do nothing; graph: "
                       "they are refused"),
        {"graph", "off"})
      ->capture_default_str();
  app.add_flag("--strict-numerics", o.strictNumerics,
               "only passes that preserve numerics bit for bit");
}

// Units of a configuration stand beside those of --unit, and instead of its
// default where they make any.
void addUnits(const Config &config, const CLI::App &app, CompileOptions &o) {
  o.unitPolicies = config.units;
  bool makesUnits = std::any_of(
      config.units.begin(), config.units.end(), [](const UnitPolicy &policy) {
        return policy.modules != std::vector<std::string>{"root"};
      });
  if (makesUnits && app.count("--unit") == 0)
    o.units.clear();
}

// CLI11 would say that a subcommand is missing before it says why.
void checkCommand(const std::vector<std::string> &args) {
  if (args.empty())
    usageError("a command is needed: compile, inspect, eval or export; see "
               "shardonnx --help");
  const std::string &first = args.front();
  if (first == "compile" || first == "inspect" || first == "eval" ||
      first == "export" || first == "-h" || first == "--help" ||
      first == "--version")
    return;
  const char *what = first[0] == '-' ? "option" : "command";
  usageError(std::string("unknown ") + what + " '" + first +
             "'; see shardonnx --help");
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app("Shardonnx: from an ONNX model to a native program that trains "
               "it with FSDP",
               "shardonnx");
  app.set_version_flag("--version",
                       std::string("shardonnx ") + SHARDONNX_VERSION);
  app.require_subcommand(1);

  CompileOptions compile;
  CLI::App *compileApp =
      app.add_subcommand("compile", "make a training executable");
  addCompileOptions(*compileApp, compile);

  InspectOptions inspect;
  CLI::App *inspectApp = app.add_subcommand(
      "inspect", "units, ownership, collectives and the memory peak");
  inspectApp
      ->add_option("MODEL", inspect.compile.model,
                   "an ONNX model or a training executable")
      ->type_name("FILE")
      ->required();
  whole(inspectApp->add_option("--nproc", inspect.nproc,
                               "world size to show it for"),
        1, kMaxRanks)
      ->capture_default_str();
  whole(inspectApp->add_option("--replicas", inspect.replicas,
                               "of the model, with a hybrid strategy"),
        1, kMaxRanks)
      ->capture_default_str();
  whole(inspectApp->add_option("--accumulate", inspect.accumulate,
                               "microbatches of a step"),
        1, kLargestSize)
      ->capture_default_str();
  oneOf(inspectApp->add_option("--offload", inspect.offload,
                               "as the executable's: what is not in memory"),
        {"none", "optimizer", "params"});
  inspectApp->add_flag("--parameters", inspect.parameters,
                       "a line for each parameter and live buffer too");
  inspectApp->add_flag("--json", inspect.json, "for programs");
  inspectApp
      ->add_option("--log", inspect.log,
                   "a run's log: shows the memory that was measured")
      ->type_name("FILE.jsonl");
  inspectApp
      ->add_option("--trace", inspect.trace,
                   "a run's trace: shows the communication that was measured")
      ->type_name("FILE.json");
  oneOf(inspectApp->add_option("--device", inspect.device,
                               "predict communication for it [what the program "
                               "is for]"),
        {"cpu", "a100", "h100", "h200"});
  // Those that precede are inspect's own.
  size_t ownOptions = inspectApp->get_options().size();
  addProgramOptions(*inspectApp, inspect.compile);

  EvalOptions eval;
  CLI::App *evalApp =
      app.add_subcommand("eval", "run a graph once, on given inputs");
  addEvalOptions(*evalApp, eval);

  ExportOptions exported;
  CLI::App *exportApp = app.add_subcommand(
      "export", "a checkpoint's weights as ONNX or .safetensors");
  addExportOptions(*exportApp, exported);

  // A full quota is an error of write(2), not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  std::vector<std::string> args(argv + 1, argv + argc);
  checkCommand(args);
  Config config = readConfig(args);
  args.insert(args.begin() + 1, config.arguments.begin(),
              config.arguments.end());
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp &help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp &help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion &version) {
    return app.exit(version);
  } catch (const CLI::ParseError &error) {
    usageError(std::string(error.what()) + "; see shardonnx --help");
  }
  if (*compileApp) {
    addUnits(config, *compileApp, compile);
    return runCompile(compile);
  }
  if (*evalApp)
    return runEval(eval);
  if (*exportApp)
    return runExport(exported);
  addUnits(config, *inspectApp, inspect.compile);
  std::vector<CLI::Option *> given = inspectApp->get_options();
  inspect.compileOptionsGiven =
      !config.units.empty() ||
      std::any_of(given.begin() + static_cast<std::ptrdiff_t>(ownOptions),
                  given.end(), [](CLI::Option *o) { return o->count() > 0; });
  return runInspect(inspect);
}
