// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every option of the contract is declared once, here; what it means is the
// driver's.

#include "Options.h"
#include "Config.h"
#include "OptionValues.h"
#include "shardonnx/Cost/Device.h"
#include "shardonnx/Cost/Execution.h"
#include "shardonnx/Support/Mesh.h"
#include "shardonnx/runtime/Layout.h"

#include <algorithm>

namespace shardonnx {
namespace {

constexpr const char *kActivations = "activations";

// What lies in host memory: activations by the compiler's decision, the state
// by the executable's, which others predict.
void addOffload(CLI::App &app, CompileOptions &o, Offload *state) {
  std::vector<std::string> words = spellAll<Offload>();
  words.emplace_back(kActivations);
  auto set = [&o, state](const std::vector<std::string> &given) {
    for (const std::string &word : given)
      if (word == kActivations)
        o.offloadActivations = true;
      else if (state)
        *state = parseSpelling<Offload>(word).value_or(*state);
  };
  CLI::Option *option = app.add_option_function<std::vector<std::string>>(
      "--offload", set,
      state ? "what is not in memory: activations, as compiled; the "
              "optimizer's state, or weights too, as the executable's"
            : "what waits for backward in pinned host memory (cuda); of the "
              "optimizer's state and of weights the executable decides");
  option->delimiter(',');
  if (!state)
    option->check([](const std::string &word) {
      if (word == kActivations)
        return std::string();
      return "'" + word + "' is not " + kActivations +
             (parseSpelling<Offload>(word)
                  ? ": the executable decides that; start it with --offload=" +
                        word
                  : "");
    });
  else
    oneOf(option, words);
  option->type_name(state ? listWords(words) : std::string(kActivations));
}

// Where the program runs, and the sizes that it is made for.
void addTargetOptions(CLI::App &app, CompileOptions &o) {
  addChoice(app, "--target", o.target, "where the executable runs");
  app.add_option("--arch", o.arch,
                 "native, x86-64-v3, x86-64-v4 or a CPU name; for cuda sm_90, "
                 "or several: sm_80,sm_90 (native: this machine's GPU, sm_90 "
                 "without one)")
      ->type_name("ARCH")
      ->capture_default_str();
  whole(app.add_option("--batch", o.batch,
                       "axis 0 of every input: samples per rank and "
                       "microbatch"),
        1, kLargestDimension);
  whole(app.add_option("--seq", o.seq,
                       "axis 1 of token inputs: tokens per sample"),
        1, kLargestDimension);
  app.add_option_function<std::vector<std::string>>(
         "--dim",
         [&o](const std::vector<std::string> &all) {
           for (const std::string &text : all)
             addDim(o, text);
         },
         "bind a dynamic dimension by name")
      ->allow_extra_args(false)
      ->type_name("NAME=N");
}

// The strategies, and the one that a plan takes.
void addStrategy(CLI::App &app, CompileOptions &o) {
  std::vector<std::string> words = spellAll<Strategy>();
  words.emplace_back("auto");
  auto set = [&o](const std::string &word) {
    o.autoStrategy = word == "auto";
    o.strategy = parseSpelling<Strategy>(word).value_or(o.strategy);
  };
  oneOf(app.add_option_function<std::string>(
            "--strategy", set,
            "who holds parameters and gradients; auto: what plan takes for "
            "--world-size"),
        words)
      ->default_str(spell(o.strategy));
}

// Which ranks compute one sample together.
void addMesh(CLI::App &app, CompileOptions &o) {
  app.add_option_function<std::string>(
         "--mesh",
         [&o](const std::string &text) {
           std::string error;
           o.mesh = *parseMesh(text, error);
         },
         "the ranks as replicate:R,shard:S,context:C,tensor:T: tensor splits "
         "products of blocks over neighbouring ranks, context sequences; an "
         "axis that is not "
         "named is 1, the shard axis what is left")
      ->check([](const std::string &text) {
        std::string error;
        (void)parseMesh(text, error);
        return error;
      })
      ->type_name("AXIS:N,...");
  addChoice(app, "--context-attention", o.contextAttention,
            "how the context axis computes attention");
  app.add_flag("--overlap-axes", o.overlapAxes,
               "collectives of tensor and context axes run beside other work "
               "on GPUs; takes memory");
  whole(app.add_option("--axis-chunks", o.axisChunks,
                       "products beside collectives of the tensor axis are cut "
                       "into so many chunks of rows, with --overlap-axes; "
                       "without it as is predicted to be the fastest"),
        1, 8);
  app.add_option("--tensor-plan", o.tensorPlan,
                 "JSON file of REGEX: colwise|rowwise|replicate over whole "
                 "parameter names: how the tensor axis splits them, where the "
                 "graph would have it otherwise")
      ->type_name("FILE");
}

// Who holds what, in which type.
void addShardingOptions(CLI::App &app, CompileOptions &o) {
  addChoice(app, "--loss", o.loss, "default: decided from the outputs");
  app.add_option("--logits", o.logits, "the graph output that the loss reads")
      ->type_name("NAME");
  addStrategy(app, o);
  addMesh(app, o);
  app.add_option("--unit", o.units,
                 "block, size:N and regexes over whole module paths, together")
      ->check(checkUnitPattern)
      ->type_name("UNIT")
      ->allow_extra_args(false)
      ->capture_default_str();
  addChoice(app, "--param-dtype", o.paramDtype,
            "gathered parameters and activations", floatTypes());
  addChoice(app, "--reduce-dtype", o.reduceDtype, "gradients in the reduction",
            floatTypes());
  addChoice(app, "--output-dtype", o.outputDtype, "the graph's outputs",
            floatTypes());
  addChoice(app, "--matmul-dtype", o.matmulDtype,
            "what the linear layers of blocks multiply");
  number(app.add_option("--matmul-gain", o.matmulGain,
                        "of those with fp8: 8 bits only where an H100 is "
                        "predicted to take X times as long without, gradients "
                        "and roundings counted (default: 1 on GPUs that "
                        "multiply 8 bits, else 0)"),
         0, 100)
      ->type_name("X");
  addChoice(app, "--gather-dtype", o.gatherDtype,
            "what trained parameters cross the links as");
}

void addLoraOptions(CLI::App &app, CompileOptions &o) {
  app.add_option_function<std::string>(
         "--lora",
         [&o](const std::string &text) {
           std::string error;
           o.lora = parseLora(text, error);
         },
         "trains adapters of this rank beside the products of a frozen base, "
         "as PEFT's LoraConfig: ,alpha=A (8), ,dropout=P (0), ,rslora, ,dora")
      ->check([](const std::string &text) {
        std::string error;
        (void)parseLora(text, error);
        return error;
      })
      ->type_name("RANK");
  regexes(app.add_option("--lora-targets", o.loraTargets,
                         "which linear layers have one: all but the head, or "
                         "regexes over whole module paths"))
      ->type_name("all-linear|REGEX")
      ->default_str("all-linear");
  addChoice(app, "--base-dtype", o.baseDtype,
            "what the frozen weights of linear layers are kept and gathered "
            "in");
}

constexpr int64_t kMostMlpChunks = 1024;

std::optional<int64_t> parseMlpChunks(const std::string &text) {
  if (text == "auto")
    return 0;
  int64_t number = 0;
  bool isNumber = CLI::detail::lexical_cast(text, number) && number >= 1 &&
                  number <= kMostMlpChunks;
  return isNumber ? std::optional<int64_t>(number) : std::nullopt;
}

void addMlpChunks(CLI::App &app, CompileOptions &o) {
  app.add_option_function<std::string>(
         "--mlp-chunks",
         [&o](const std::string &text) { o.mlpChunks = parseMlpChunks(text); },
         "each MLP is computed in so many chunks of its tokens, one after the "
         "other; auto: in as few as take the least memory, or meet a budget "
         "(default: 1)")
      ->check([](const std::string &text) {
        return parseMlpChunks(text)
                   ? std::string()
                   : "'" + text + "' is neither auto nor a number within 1..." +
                         std::to_string(kMostMlpChunks);
      })
      ->type_name("N|auto");
}

// What memory a step takes, and what it computes again for it.
void addMemoryOptions(CLI::App &app, CompileOptions &o) {
  app.add_option_function<std::string>(
         "--recompute",
         [&o](const std::string &text) {
           std::string error;
           o.recompute = *parseRecompute(text, error);
         },
         "what backward computes again: nothing; every block, or every "
         "N-th; all but matrix products and attention; the cheapest "
         "with which activations fit")
      ->check([](const std::string &text) {
        std::string error;
        (void)parseRecompute(text, error);
        return error;
      })
      ->type_name(listWords(spellAll<RecomputeKind>()))
      ->default_str(o.recompute.text());
  addMlpChunks(app, o);
  whole(app.add_option("--forward-prefetch", o.forwardPrefetch,
                       "units ahead that an all-gather is issued"),
        0, 1024)
      ->capture_default_str();
  whole(app.add_option("--backward-prefetch", o.backwardPrefetch,
                       "the same in the backward pass"),
        0, 1024)
      ->capture_default_str();
  bytes(app, "--memory-budget", o.memoryBudget,
        "of a rank, at --world-size: as little is computed again as fits, "
        "gathers start as early as it allows, what is left keeps units "
        "gathered");
  bytes(app, "--fit", o.fit,
        "of a rank, at --world-size: takes the strategy, recomputation and "
        "prefetch with which a step that fits is fastest; what is given stays");
}

// What the step computes.
void addTrainingOptions(CLI::App &app, CompileOptions &o) {
  addChoice(app, "--optimizer", o.optimizer,
            "what the update computes; muon: of the matrices of blocks, adamw "
            "of the rest");
  addChoice(app, "--optimizer-dtype", o.optimizerDtype,
            "the optimizer's state: bf16 is rounded at random, int8 has a "
            "scale for each 256 elements",
            optimizerTypes());
  addChoice(app, "--master-dtype", o.masterDtype,
            "master weights: bf16 ones are what products read, rounded at "
            "random",
            masterTypes());
  addChoice(app, "--accumulate-mode", o.accumulateMode,
            "gradients over microbatches: each reduced into owned slices, or "
            "kept whole and reduced with the last");
  regexes(app.add_option("--freeze", o.freeze,
                         "regexes over whole parameter names: not trained"));
  regexes(app.add_option("--trainable", o.trainable,
                         "the same: these are trained, and no others"));
  addLoraOptions(app, o);
  addChoice(app, "--dropout", o.dropout,
            "which Dropout nodes drop: those in training mode, all with a "
            "ratio, none");
  addChoice(app, "--attention-mask", o.attentionMask,
            "the graph's padding masks: folded to ones, read from the data, or "
            "read where they matter");
  addChoice(app, "--position-ids", o.positionIds,
            "the graph's input position_ids: 0…S-1 in every sample, or read "
            "from the data");
  whole(app.add_option("--document-separator", o.documentSeparator,
                       "the token that ends a document: attention and the loss "
                       "stay within documents"),
        0, int64_t(1) << 31)
      ->type_name("ID");
  whole(app.add_option("--max-documents", o.maxDocuments,
                       "documents a sample that cuDNN's attention is planned "
                       "for (cuda, --batch=1); batches with more, and 0, go to "
                       "our own kernels [0]"),
        0, int64_t(1) << 20);
  regexes(app.add_option(
      "--ignore", o.ignore,
      "regexes over whole parameter names: whole on every rank"));
  app.add_flag("--strict-numerics", o.strictNumerics,
               "only passes that preserve numerics bit for bit");
  app.add_flag("--tf32", o.tf32,
               "f32 matrix products may round their operands to TF32 (cuda)");
  whole(app.add_option("--world-size", o.worldSize,
                       "a hint; the executable runs at any"),
        1, kMaxRanks);
}

std::string checkInput(const std::string &text) {
  size_t equals = text.find('=');
  return equals == std::string::npos || equals == 0 || equals + 1 == text.size()
             ? "'" + text + "' is not NAME=FILE.npy"
             : "";
}

} // namespace

void addProgramOptions(CLI::App &app, CompileOptions &o) {
  addTargetOptions(app, o);
  addShardingOptions(app, o);
  addMemoryOptions(app, o);
  addTrainingOptions(app, o);
  app.add_option(
         "--config", o.config,
         "JSON with these keys and 'units', Accelerate's YAML or DeepSpeed's "
         "JSON; options win")
      ->type_name("FILE");
}

void noteGiven(const CLI::App &app, CompileOptions &o) {
  o.given.strategy = app.count("--strategy") > 0 && !o.autoStrategy;
  o.given.recompute = app.count("--recompute") > 0;
  o.given.prefetch = app.count("--forward-prefetch") > 0 ||
                     app.count("--backward-prefetch") > 0;
}

void addCompileOptions(CLI::App &app, CompileOptions &o) {
  app.add_option("MODEL", o.model, "the exported ONNX model")
      ->type_name("FILE")
      ->required();
  app.add_option("-o,--output", o.output, "default: the model's stem")
      ->type_name("OUT");
  addOffload(app, o, nullptr);
  addChoice(app, "--emit", o.emit, "stop there and print it");
  app.add_option("--print-ir-after", o.printIRAfter,
                 "passes after which the IR goes to standard error, or all")
      ->allow_extra_args(false)
      ->type_name("PASS");
  app.add_option("--dump-dir", o.dumpDir, "write the IR of every level there")
      ->type_name("DIR");
  app.add_flag("--timing", o.timing, "print the time of every pass");
  app.add_flag("!--no-cache", o.cache,
               "makes every kernel anew: takes none of earlier compilations, "
               "and keeps none");
  app.add_flag("--print-locations", o.printLocations,
               "print ONNX node names and module paths");
  addProgramOptions(app, o);
}

static CLI::Option *device(CLI::App &app, std::string &value,
                           const std::string &description) {
  std::string names = listWords(deviceNames());
  return app.add_option("--device", value, description)
      ->check([names](const std::string &text) {
        bool known = deviceNamed(text) || CLI::ExistingFile(text).empty();
        return known ? std::string()
                     : "'" + text + "' is not one of " + names +
                           ", and no such file is there";
      })
      ->type_name(names + "|FILE.json");
}

void addInspectOptions(CLI::App &app, InspectOptions &o) {
  app.add_option("MODEL", o.compile.model,
                 "an ONNX model or a training executable")
      ->type_name("FILE")
      ->required();
  whole(app.add_option("--nproc", o.nproc, "world size to show it for"), 1,
        kMaxRanks)
      ->capture_default_str();
  whole(app.add_option("--replicas", o.replicas,
                       "of the model, with a hybrid strategy"),
        1, kMaxRanks)
      ->capture_default_str();
  whole(app.add_option("--accumulate", o.accumulate, "microbatches of a step"),
        1, kLargestSize)
      ->capture_default_str();
  addOffload(app, o.compile, &o.offload);
  app.add_flag("--parameters", o.parameters,
               "a line for each parameter and live buffer too");
  app.add_flag("--traffic", o.traffic,
               "what a step moves through memory, launch by launch, against "
               "the least that would do");
  app.add_flag("--json", o.json, "for programs");
  app.add_option("--html", o.html,
                 "writes a page: memory and queues over the step, units, "
                 "kernels, and a run beside them")
      ->type_name("FILE.html");
  app.add_option("--vary", o.vary,
                 "a line for each value of another option: memory, time of a "
                 "step, tokens a second")
      ->type_name("NAME=A,B,...");
  app.add_option("--log", o.log,
                 "a run's log: shows the memory that was measured")
      ->type_name("FILE.jsonl");
  app.add_option("--trace", o.trace,
                 "a run's trace: shows the communication that was measured")
      ->type_name("FILE.json");
  device(app, o.device,
         "whose figures predict times: one of these, or a device file [what "
         "the program is for]");
}

void addPlanOptions(CLI::App &app, PlanOptions &o) {
  app.add_option("MODEL", o.compile.model, "an ONNX model")
      ->type_name("FILE")
      ->required();
  whole(app.add_option("--gpus", o.gpus, "ranks to train on, one a device"), 1,
        kMaxRanks)
      ->required();
  whole(app.add_option("--gpus-per-node", o.gpusPerNode,
                       "of them on one machine [the device's]"),
        1, kMaxRanks);
  device(app, o.device,
         "whose figures predict memory and time: one of these, or a device "
         "file")
      ->required();
  std::vector<std::string> executions = executionNames();
  executions.insert(executions.begin(), "shardonnx");
  std::string known = listWords(executions);
  app.add_option("--as", o.as,
                 "whose execution times are predicted for: one of these, or a "
                 "file")
      ->check([executions, known](const std::string &text) {
        bool found = CLI::ExistingFile(text).empty() ||
                     std::find(executions.begin(), executions.end(), text) !=
                         executions.end();
        return found ? std::string()
                     : "'" + text + "' is not one of " + known +
                           ", and no such file is there";
      })
      ->type_name(known + "|FILE.json")
      ->capture_default_str();
  bytes(app, "--memory", o.memory, "that a rank may take [the device's]");
  addOffload(app, o.compile, nullptr);
  whole(app.add_option("--accumulate", o.accumulate, "microbatches of a step"),
        1, kLargestSize)
      ->capture_default_str();
  CLI::Option *tokens = number(app.add_option("--tokens", o.tokens,
                                              "to train on: hours are shown"),
                               1, 1e18)
                            ->type_name("N");
  number(app.add_option("--price", o.price,
                        "of a device for an hour: with --tokens, cost is "
                        "shown"),
         0, 1e9)
      ->needs(tokens)
      ->type_name("X");
  number(app.add_option_function<double>(
             "--straggler",
             [&o](double percent) { o.straggler = percent / 100; },
             "one rank works slower by so many percent"),
         0, 1000)
      ->type_name("PERCENT");
  app.add_flag("--json", o.json, "for programs");
  app.add_option("--html", o.html, "writes a page that compares them")
      ->type_name("FILE.html");
  app.add_option("--calibrate", o.calibrate,
                 "plans nothing: measures this machine's CPU, for about a "
                 "minute, and writes a file for --device")
      ->type_name("FILE.json");
}

void relaxForCalibration(CLI::App &app,
                         const std::vector<std::string> &arguments) {
  for (const std::string &argument : arguments)
    if (argument.rfind("--calibrate", 0) == 0)
      for (const char *name : {"MODEL", "--gpus", "--device"})
        app.get_option(name)->required(false);
}

void notePlanGiven(const CLI::App &app, size_t own, PlanOptions &o) {
  o.paramDtypeGiven = app.count("--param-dtype") > 0;
  o.targetGiven = app.count("--target") > 0;
  std::vector<const CLI::Option *> options = app.get_options();
  for (size_t i = own; i < options.size(); ++i) {
    const std::vector<std::string> &names = options[i]->get_lnames();
    if (names.empty() || options[i]->count() == 0)
      continue;
    // These are what a plan decides.
    static const std::vector<std::string> decided = {
        "target", "arch", "param-dtype", "strategy", "world-size", "recompute"};
    if (std::find(decided.begin(), decided.end(), names.front()) !=
        decided.end())
      continue;
    if (options[i]->get_expected_min() == 0)
      o.compileArguments.push_back("--" + names.front());
    else
      for (const std::string &value : options[i]->results())
        o.compileArguments.push_back("--" + names.front() + "=" + value);
  }
}

void addExportOptions(CLI::App &app, ExportOptions &o) {
  app.add_option("CHECKPOINT", o.checkpoint,
                 "a checkpoint, or the folder that --save named: the newest")
      ->type_name("DIR")
      ->required();
  app.add_option("-o,--output", o.output,
                 "model.onnx: the graph with these weights; "
                 "model.safetensors: a state dict; DIR: the adapters of --lora "
                 "as PEFT loads them; -: standard output")
      ->type_name("FILE")
      ->required();
  app.add_flag("--merge", o.merge,
               "adds the adapters of --lora to the weights beside them");
  oneOf(app.add_option("--format", o.format,
                       "what to write [by the name; safetensors to standard "
                       "output]"),
        {"onnx", "safetensors"});
  app.add_option("--model", o.model,
                 "where the ONNX file that was compiled is now")
      ->type_name("FILE");
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
  addChoice(app, "--dropout", o.dropout,
            "off: Dropout nodes in training mode do nothing; graph: they are "
            "refused",
            {DropoutMode::Graph, DropoutMode::Off});
  app.add_flag("--strict-numerics", o.strictNumerics,
               "only passes that preserve numerics bit for bit");
}

} // namespace shardonnx
