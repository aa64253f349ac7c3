// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The options of each command.

#ifndef SHARDONNX_TOOLS_SHARDONNX_OPTIONS_H
#define SHARDONNX_TOOLS_SHARDONNX_OPTIONS_H

#include "shardonnx/Driver/Eval.h"
#include "shardonnx/Driver/Options.h"

namespace CLI {
class App;
}

namespace shardonnx {

/// What changes the program, the same for every command that compiles.
void addProgramOptions(CLI::App &app, CompileOptions &options);

/// Behind the parse: which of them a person has given, for --fit.
void noteGiven(const CLI::App &app, CompileOptions &options);

/// Each command's own; compile's have the program's among them.
void addCompileOptions(CLI::App &app, CompileOptions &options);
void addPlanOptions(CLI::App &app, PlanOptions &options);
/// With --calibrate there is nothing to plan, so nothing else has to be given.
void relaxForCalibration(CLI::App &app,
                         const std::vector<std::string> &arguments);
/// Remembers which options of compile, behind the first `own`, were given.
void notePlanGiven(const CLI::App &app, size_t own, PlanOptions &options);
void addInspectOptions(CLI::App &app, InspectOptions &options);
void addEvalOptions(CLI::App &app, EvalOptions &options);
void addExportOptions(CLI::App &app, ExportOptions &options);

} // namespace shardonnx

#endif // SHARDONNX_TOOLS_SHARDONNX_OPTIONS_H
