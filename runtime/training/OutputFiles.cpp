// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See OutputFiles.h.

#include "OutputFiles.h"
#include "../checkpoint/Folder.h"
#include "../data/SeveralFiles.h"
#include "../support/Error.h"
#include "Log.h"
#include "shardonnx/runtime/EndsWith.h"
#include "shardonnx/runtime/SameFile.h"
#include <filesystem>

namespace shardonnx::rt {
namespace {

namespace fs = std::filesystem;

struct NamedFile {
  std::string name; // the option, or what the file is
  std::string path;
};

std::vector<NamedFile> outputsOf(const Options &options) {
  std::vector<NamedFile> outputs;
  if (!options.log.empty() && options.log != kStandardOutput)
    outputs.push_back({"--log", options.log});
  if (!options.trace.empty())
    outputs.push_back({"--trace", options.trace});
  if (!options.flightRecord.empty() && options.flightRecord != "none")
    outputs.push_back({"--flight-record", options.flightRecord});
  return outputs;
}

void addData(const std::vector<std::string> &words, const char *option,
             std::vector<NamedFile> &inputs) {
  try {
    for (const std::string &path : expandPatterns(words))
      inputs.push_back({option, path});
    // What is wrong with a pattern is told by who reads the data.
    // NOLINTNEXTLINE(bugprone-empty-catch)
  } catch (const Error &) {
  }
}

// What a folder of weights, an adapter's or a checkpoint has that is read.
void addFolder(const fs::path &folder, const char *option,
               std::vector<NamedFile> &inputs) {
  std::error_code error; // what is no folder is told by who reads it
  for (const fs::directory_entry &entry :
       fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (endsWith(name, ".safetensors") || endsWith(name, "index.json") ||
        name == "adapter_config.json")
      inputs.push_back({option, entry.path().string()});
  }
}

std::vector<NamedFile> inputsOf(const Options &options,
                                const Manifest &manifest) {
  std::vector<NamedFile> inputs = {{"the program", "/proc/self/exe"}};
  addData(options.data, "--data", inputs);
  addData(options.evalData, "--eval-data", inputs);
  std::string model =
      options.model.empty() ? manifest.modelPath : options.model;
  if (!model.empty())
    inputs.push_back({"--model", model});
  if (endsWith(model, "index.json"))
    addFolder(fs::absolute(model).parent_path(), "--model", inputs);
  else if (!model.empty())
    addFolder(model, "--model", inputs);
  if (!options.adapter.empty())
    addFolder(options.adapter, "--adapter", inputs);
  if (std::optional<std::string> from;
      !options.resume.empty() && (from = findCheckpoint(options.resume)))
    addFolder(*from, "--resume", inputs);
  for (const ExternalFile &file : manifest.external.files)
    inputs.push_back(
        {"the model", (fs::path(model).parent_path() / file.name).string()});
  return inputs;
}

} // namespace

void checkOutputFiles(const Options &options, const Manifest &manifest) {
  std::vector<NamedFile> outputs = outputsOf(options);
  if (outputs.empty())
    return;
  std::vector<NamedFile> inputs = inputsOf(options, manifest);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile &output = outputs[i];
    for (const NamedFile &input : inputs)
      if (isSameFile(output.path, input.path))
        failUsage(output.name, ": '", output.path, "' is a file of ",
                  input.name, ", and would be overwritten; name another");
    for (size_t j = i + 1; j < outputs.size(); ++j)
      if (isSameFile(output.path, outputs[j].path))
        failUsage(output.name, " and ", outputs[j].name, " both name '",
                  outputs[j].path,
                  "', and either would overwrite the other; give each its own "
                  "file");
  }
}

} // namespace shardonnx::rt
