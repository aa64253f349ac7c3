// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See StateDict.h.

#include "StateDict.h"
#include "../data/ArraySource.h"
#include "../support/Error.h"
#include "TensorReader.h"
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace shardonnx::rt {
namespace {

constexpr const char *kRemedy = "--model takes the model's ONNX file, a "
                                ".safetensors file or its .index.json";
constexpr const char *kIndexEnd = ".safetensors.index.json";
constexpr int64_t kLargestIndex = int64_t(1) << 30;
constexpr size_t kNamed = 5; // in a message

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string folderOf(const std::string &path) {
  std::string folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

// Names of what is wrong, the first few of them.
class Names {
public:
  void add(const std::string &name) {
    if (++count <= kNamed)
      text += (text.empty() ? "" : ", ") + name;
  }
  bool empty() const { return count == 0; }
  std::string list() const {
    return count > kNamed ? concat(text, " and ", count - kNamed, " more")
                          : text;
  }

private:
  std::string text;
  size_t count = 0;
};

Arrays readIndexed(const std::string &path) {
  File file(path, kRemedy);
  if (file.size() > kLargestIndex)
    fail("'", path, "' is too large for an index");
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(text.data(), 0, file.size());
  Arrays all;
  try {
    auto places = nlohmann::json::parse(text)
                      .at("weight_map")
                      .get<std::map<std::string, std::string>>();
    std::map<std::string, Arrays> files;
    for (const auto &[name, in] : places) {
      auto [arrays, isNew] = files.try_emplace(in);
      if (isNew)
        arrays->second = readSafeTensors(
            std::make_shared<File>(File::beneath(folderOf(path), in, kRemedy)));
      auto found = arrays->second.find(name);
      if (found == arrays->second.end())
        fail("'", path, "' says that '", name, "' is in '", in,
             "', where it is not");
      all.emplace(name, found->second);
    }
  } catch (const nlohmann::json::exception &e) {
    fail("'", path, "' is no index of .safetensors files: ", e.what());
  }
  return all;
}

class StateDict {
public:
  StateDict(const Manifest &manifest, const std::string &path)
      : path(path),
        arrays(endsWith(path, kIndexEnd)
                   ? readIndexed(path)
                   : readSafeTensors(std::make_shared<File>(path, kRemedy))) {
    Names missing, misshapen;
    for (const Manifest::Unit &unit : manifest.units)
      for (const Manifest::Param &param : unit.params)
        bind(param, missing, misshapen);
    if (!missing.empty() || !misshapen.empty())
      fail("'", path, "' does not fit the program: ",
           missing.empty() ? "" : concat("it has no ", missing.list()),
           missing.empty() || misshapen.empty() ? "" : "; ",
           misshapen.empty() ? "" : misshapen.list(), "; ", kRemedy);
  }

  void read(const OwnedRange &range) {
    const auto &[array, transposed] = bound.at(range.param);
    reader.read(range, {array->file.get(), array->offset,
                        elementName(array->type), transposed});
  }

  void warnOfOthers() const {
    Names others;
    for (const auto &[name, array] : arrays)
      if (!used.count(name))
        others.add("'" + name + "'");
    if (!others.empty())
      printWarning(concat("'", path,
                          "' has tensors that the program has no "
                          "parameter for: ",
                          others.list()));
  }

private:
  void bind(const Manifest::Param &param, Names &missing, Names &misshapen) {
    bool onnx = false;
    auto found = arrays.find(param.name);
    for (const std::string &name : param.tied) {
      used.insert(name); // one of them is enough
      if (found == arrays.end())
        found = arrays.find(name);
    }
    if (found == arrays.end() && param.onnx != param.name) {
      found = arrays.find(param.onnx);
      onnx = true;
    }
    if (found == arrays.end())
      return missing.add("'" + param.name + "'");
    used.insert(found->first);
    const Array &array = found->second;
    TensorReader::elementBytes(elementName(array.type), param.name);
    bool transposed = onnx && param.source && param.source->transposed;
    std::vector<int64_t> shape = param.shape;
    if (transposed)
      std::swap(shape[0], shape[1]);
    if (array.shape != shape)
      return misshapen.add(concat("its '", found->first, "' is ",
                                  shapeText(array.shape), ", not ",
                                  shapeText(shape)));
    bound[&param] = {&array, transposed};
  }

  const std::string path;
  const Arrays arrays;
  std::map<const Manifest::Param *, std::pair<const Array *, bool>> bound;
  std::set<std::string> used;
  TensorReader reader;
};

} // namespace

bool isStateDict(const std::string &path) {
  return endsWith(path, ".safetensors") || endsWith(path, kIndexEnd);
}

void loadStateDict(Engine &engine, const std::string &path, bool warns) {
  StateDict dict(engine.manifest, path);
  if (warns)
    dict.warnOfOthers();
  forOwned(engine, [&](const OwnedRange &range) { dict.read(range); });
}

} // namespace shardonnx::rt
