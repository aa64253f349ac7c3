// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The command line: which command, and what it is given.

#include "Config.h"
#include "Options.h"
#include "shardonnx/Support/LastResort.h"
#include "shardonnx/runtime/OptionNames.h"
#include "shardonnx/runtime/StandardStreams.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>

using namespace shardonnx;

namespace {

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

// `inspect` shows a world size, and budgets are kept at one: where a person has
// named only one of the two, it is both.
void shareWorldSize(const CLI::App &app, InspectOptions &o) {
  if (app.count("--nproc") == 0)
    o.nproc = o.compile.worldSize.value_or(o.nproc);
  else if (!o.compile.worldSize)
    o.compile.worldSize = o.nproc;
}

// A plan is for the ranks that --gpus says.
void checkWorldSize(const PlanOptions &o) {
  if (o.compile.worldSize.value_or(o.gpus) != o.gpus)
    usageError("--world-size: " + std::to_string(*o.compile.worldSize) +
               " are other ranks than --gpus " + std::to_string(o.gpus) +
               "; leave it out");
}

// CLI11 would say that a subcommand is missing before it says why.
void checkCommand(CLI::App &app, const std::vector<std::string> &args) {
  std::vector<std::string> commands;
  for (CLI::App *command : app.get_subcommands([](CLI::App *) { return true; }))
    commands.push_back(command->get_name());
  if (args.empty())
    usageError("a command is needed: " + describeWords(commands) +
               "; see shardonnx --help");
  const std::string &first = args.front();
  bool known =
      std::find(commands.begin(), commands.end(), first) != commands.end();
  if (known || first == "-h" || first == "--help" || first == "--version")
    return;
  if (first[0] == '-')
    usageError("unknown option '" + first + "'; see shardonnx --help");
  std::string near = nearestName(first, commands);
  usageError("unknown command '" + first + "'" +
             (near.empty() ? "" : ": did you mean '" + near + "'?") +
             "; see shardonnx --help");
}

std::vector<std::string> optionNames(const CLI::App &command) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options()) {
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
    for (const std::string &name : option->get_snames())
      names.push_back("-" + name);
  }
  return names;
}

// Underscores in names become dashes; a name that the command does not have is
// explained. `where` is --config for what a file says.
void checkNames(CLI::App &app, const std::string &name,
                std::vector<std::string> &arguments, const std::string &where) {
  auto isNamed = [&](const CLI::App *each) { return each->get_name() == name; };
  std::vector<CLI::App *> named = app.get_subcommands(isNamed);
  if (named.empty()) // --help, --version
    return;
  const CLI::App *command = named.front();
  std::vector<std::string> names = optionNames(*command);
  for (std::string &argument : arguments)
    argument = dashedOption(argument, names);
  std::vector<OtherOptions> others = {
      {"the training executable", trainOptionNames()}};
  for (CLI::App *other : app.get_subcommands([](CLI::App *) { return true; }))
    if (other != command)
      others.push_back({"shardonnx " + other->get_name(), optionNames(*other)});
  std::string wrong = explainUnknownOption(arguments, names, others);
  if (!wrong.empty())
    usageError(where + wrong + "; see shardonnx " + name + " --help");
  if (std::string empty = explainEmptyValue(arguments); !empty.empty())
    usageError(where + empty);
  if (std::string flag = explainFlagValue(*command, arguments); !flag.empty())
    usageError(where + flag);
}

// Where an option that a message begins with stands, if not on the command
// line.
std::string whereOf(const std::string &message, const Config &config) {
  for (const std::string &argument : config.arguments) {
    std::string option = argument.substr(0, argument.find('='));
    if (option[0] == '-' && (message.rfind(option + ":", 0) == 0 ||
                             message.rfind(option + " ", 0) == 0))
      return config.where();
  }
  return "";
}

// The exit code of --help and --version, where one of them was asked for.
std::optional<int> parse(CLI::App &app, const std::vector<std::string> &args,
                         const Config &config = {}) {
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(reversed);
    for (const CLI::App *command : app.get_subcommands())
      if (std::string empty = explainEmptyValue(*command); !empty.empty())
        usageError(empty);
    return std::nullopt;
  } catch (const CLI::Success &asked) { // --help, --version
    int code = app.exit(asked, std::cout, std::cerr);
    if (!std::cout.flush())
      fileError(std::string("cannot write to standard output: ") +
                std::strerror(errno));
    return code;
  } catch (const CLI::ParseError &error) {
    const std::string &command = args.front(); // checkCommand knows it
    std::string message = explainParseError(error.what());
    usageError(whereOf(message, config) + message + "; see shardonnx " +
               (command[0] == '-' ? "" : command + " ") + "--help");
  }
}

// `inspect` and what it is given.
struct InspectCommand {
  InspectOptions options;
  CLI::App *app;
  size_t ownOptions; // those before the options of a program

  explicit InspectCommand(CLI::App &all)
      : app(all.add_subcommand(
            "inspect", "units, ownership, collectives and the memory peak")) {
    addInspectOptions(*app, options);
    ownOptions = app->get_options().size();
    addProgramOptions(*app, options.compile);
  }

  // Once the command line has been read.
  void finish(const Config &config) {
    addUnits(config, *app, options.compile);
    noteGiven(*app, options.compile);
    shareWorldSize(*app, options);
    std::vector<CLI::Option *> given = app->get_options();
    options.compileOptionsGiven =
        !config.units.empty() ||
        std::any_of(given.begin() + static_cast<std::ptrdiff_t>(ownOptions),
                    given.end(), [](CLI::Option *o) { return o->count() > 0; });
  }
};

// --vary NAME=A,B: NAME, then its values.
std::vector<std::string> readVary(const InspectCommand &command) {
  const std::string &text = command.options.vary;
  size_t equals = text.find('=');
  std::vector<std::string> parts = {text.substr(0, equals)};
  std::replace(parts[0].begin(), parts[0].end(), '_', '-');
  for (size_t at = equals; at != std::string::npos;) {
    size_t comma = text.find(',', at + 1);
    parts.push_back(text.substr(at + 1, comma - at - 1));
    at = comma;
  }
  bool empty =
      std::any_of(parts.begin(), parts.end(),
                  [](const std::string &part) { return part.empty(); });
  if (parts.size() < 2 || empty)
    usageError("--vary: '" + text +
               "' is not NAME=A,B,...: an option, and values of it");
  const CLI::Option *option = command.app->get_option_no_throw("--" + parts[0]);
  std::vector<std::string> others = {"vary",  "html", "json",  "log",
                                     "trace", "help", "config"};
  if (!option ||
      std::find(others.begin(), others.end(), parts[0]) != others.end())
    usageError("--vary: '" + parts[0] +
               "' is no option whose values could be compared; see shardonnx "
               "inspect --help");
  if (option->count() > 0)
    usageError("--vary: --" + parts[0] + " is given, too; leave one out");
  for (const char *shown :
       {"--html", "--parameters", "--traffic", "--log", "--trace"})
    if (command.app->count(shown) > 0)
      usageError(std::string("--vary: one line for each value has no place for "
                             "what ") +
                 shown + " shows; leave one out");
  return parts;
}

// The same command line for each value.
int runVaried(const InspectCommand &command, const Config &config,
              const std::vector<std::string> &args) {
  std::vector<std::string> vary = readVary(command);
  std::vector<std::string> rest;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--vary")
      ++i; // and its value
    else if (args[i].rfind("--vary=", 0) != 0)
      rest.push_back(args[i]);
  }
  std::vector<InspectRow> rows;
  for (size_t i = 1; i < vary.size(); ++i) {
    CLI::App all("", "shardonnx");
    InspectCommand one(all);
    std::vector<std::string> varied = rest;
    varied.push_back("--" + vary[0] + "=" + vary[i]);
    (void)parse(all, varied);
    one.finish(config);
    rows.push_back({vary[i], one.options});
  }
  return runInspectRows(vary[0], rows);
}

int run(int argc, char **argv) {
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

  InspectCommand inspect(app);

  PlanOptions plan;
  CLI::App *planApp = app.add_subcommand(
      "plan", "what training will take on some machines, for each strategy");
  addPlanOptions(*planApp, plan);
  size_t plansOwn = planApp->get_options().size();
  addProgramOptions(*planApp, plan.compile);

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
  checkCommand(app, args);
  checkNames(app, args.front(), args, "");
  Config config = readConfig(args);
  checkNames(app, args.front(), config.arguments, config.where());
  args.insert(args.begin() + 1, config.arguments.begin(),
              config.arguments.end());
  relaxForCalibration(*planApp, args);
  if (std::optional<int> code = parse(app, args, config))
    return *code;
  if (*compileApp) {
    addUnits(config, *compileApp, compile);
    noteGiven(*compileApp, compile);
    return runCompile(compile);
  }
  if (*planApp) {
    addUnits(config, *planApp, plan.compile);
    noteGiven(*planApp, plan.compile);
    notePlanGiven(*planApp, plansOwn, plan);
    checkWorldSize(plan);
    return runPlan(plan);
  }
  if (*evalApp)
    return runEval(eval);
  if (*exportApp)
    return runExport(exported);
  inspect.finish(config);
  return inspect.options.vary.empty() ? runInspect(inspect.options)
                                      : runVaried(inspect, config, args);
}

} // namespace

int main(int argc, char **argv) {
  occupyStandardStreams();
  installLastResort("shardonnx");
  try {
    return run(argc, argv);
  } catch (const std::exception &error) { // of the machine: a file, a thread
    endWithError(error.what());
  }
}
