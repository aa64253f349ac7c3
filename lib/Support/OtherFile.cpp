// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kinds of files are told by how they begin, folders by what lies in them.

#include "shardonnx/Support/OtherFile.h"

#include "shardonnx/Support/InputFile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

namespace shardonnx {
namespace {

using llvm::StringRef;

struct Kind {
  const char *what;
  const char *takenBy;
};

constexpr Kind kCheckpoint = {"is a checkpoint",
                              "'shardonnx export' makes one of it, and "
                              "--resume of an executable goes on from it"};
constexpr Kind kAdapters = {"holds adapters",
                            "--adapter of an executable takes them"};
constexpr Kind kWeights = {"holds weights without a graph",
                           "--model of an executable takes them"};
constexpr Kind kArrays = {"holds arrays", "--data of an executable takes them"};
constexpr Kind kArray = {"holds an array",
                         "--input of 'shardonnx eval' takes it"};
constexpr Kind kModule = {"is of torch.save or torch.export.save",
                          "export the module: docs/export-your-model.md"};
constexpr Kind kTrained = {"is a training executable",
                           "'shardonnx inspect' shows it, and the others take "
                           "the model that it was compiled from"};
constexpr Kind kProgram = {"is a program", "name the file with the graph"};
constexpr Kind kText = {"is JSON", "name the file with the graph"};

/// Files that tell what a folder is.
constexpr std::pair<const char *, const Kind *> kMembers[] = {
    {"index.json", &kCheckpoint},
    {"adapter_config.json", &kAdapters},
    {"model.safetensors", &kWeights},
    {"model.safetensors.index.json", &kWeights},
};

std::string sentence(const Kind &kind) {
  return std::string("it ") + kind.what + ", not an ONNX model; " +
         kind.takenBy;
}

bool isCheckpointName(StringRef name) {
  return name.consume_front("step-") && !name.empty() &&
         llvm::all_of(name, llvm::isDigit);
}

std::string describeFolder(StringRef folder) {
  std::string model;
  bool hasCheckpoint = false;
  std::error_code error;
  llvm::sys::fs::directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    StringRef name = llvm::sys::path::filename(entry->path());
    hasCheckpoint |= isCheckpointName(name);
    // The folder's order is nobody's.
    if (name.ends_with(".onnx") && (model.empty() || name < model))
      model = name.str();
  }
  if (!model.empty())
    return "it is a folder; name the file, as '" + model + "' in it";
  for (const auto &[name, kind] : kMembers) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    if (llvm::sys::fs::exists(path))
      return sentence(*kind);
  }
  return hasCheckpoint ? sentence(kCheckpoint)
                       : "it is a folder; name an ONNX file";
}

bool isSafeTensors(StringRef bytes) {
  if (bytes.size() < 9 || bytes[8] != '{')
    return false;
  uint64_t header = llvm::support::endian::read64le(bytes.data());
  return header <= bytes.size() - 8;
}

/// Of a zip archive, by the name of its first members.
bool isOfTorch(StringRef bytes) {
  StringRef names = bytes.take_front(4096);
  return names.contains("data.pkl") || names.contains("archive_format");
}

} // namespace

std::string describeOtherFile(const std::string &path) {
  if (llvm::sys::fs::is_directory(path))
    return describeFolder(path);
  InputBytes file = readInputFile(path);
  if (!file)
    return "";
  StringRef bytes = (*file)->getBuffer();
  if (bytes.starts_with("\x7f"
                        "ELF"))
    return sentence(bytes.contains(kManifestSection) ? kTrained : kProgram);
  if (bytes.starts_with("PK\x03\x04"))
    return sentence(isOfTorch(bytes) ? kModule : kArrays);
  if (bytes.starts_with("\x93NUMPY"))
    return sentence(kArray);
  if (isSafeTensors(bytes))
    return sentence(kWeights);
  return bytes.ltrim().starts_with("{") ? sentence(kText) : "";
}

} // namespace shardonnx
