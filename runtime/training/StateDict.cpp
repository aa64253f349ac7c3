// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See StateDict.h.

#include "StateDict.h"
#include "../checkpoint/Folder.h"
#include "../core/RowLengths.h"
#include "../data/ArraySource.h"
#include "../support/Error.h"
#include "Prefix.h"
#include "PublishedNames.h"
#include "TensorReader.h"
#include "shardonnx/runtime/EndsWith.h"
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace shardonnx::rt {
namespace {

constexpr const char *kRemedy =
    "--model takes the model's ONNX file, a .safetensors file, its .index.json "
    "or their folder";
constexpr const char *kShapeRemedy =
    "--model takes weights of the model that was compiled: give those, or "
    "compile the model that these are of";
constexpr const char *kBaseRemedy =
    "it may be a base model's, without the head: --model takes the weights of "
    "the whole model that was exported";
constexpr const char *kAdapterRemedy =
    "--adapter takes an adapter of this model for the modules that "
    "--lora-targets named, and --freeze leaves out what it trained beside them";
constexpr const char *kAdapterFiles =
    "--adapter takes a folder that PEFT's save_pretrained wrote, with "
    "adapter_config.json and adapter_model.safetensors";
constexpr const char *kIndexEnd = ".safetensors.index.json";
constexpr int64_t kLargestIndex = int64_t(1) << 30;
constexpr size_t kNamed = 5;                    // in a message
constexpr int64_t kCompared = int64_t(1) << 20; // bytes at a time

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
    fail("'", path, "' is no index of .safetensors files: ", describe(e));
  }
  return all;
}

class StateDict {
public:
  /// Of the program's parameters those that are adapters', and what else the
  /// file has; or all that are no adapters'.
  StateDict(const Manifest &manifest, const std::string &path, bool adapters)
      : path(path), adapters(adapters),
        arrays(endsWith(path, kIndexEnd)
                   ? readIndexed(path)
                   : readSafeTensors(std::make_shared<File>(
                         path, adapters ? kAdapterFiles : kRemedy))) {
    findPrefix(manifest);
    Names missing, misshapen;
    for (const Manifest::Unit &unit : manifest.units)
      for (const Manifest::Param &param : unit.params)
        if (wants(param) || (adapters && has(param)))
          bind(param, missing, misshapen);
    Names others = unused();
    if (adapters && missing.empty() && misshapen.empty() && !others.empty())
      fail("'", path,
           "' has tensors that the program has no adapter for: ", others.list(),
           "; ", kAdapterRemedy);
    if (missing.empty() && misshapen.empty())
      return;
    // transformers' base models lack their name before each weight, and heads.
    bool isBase = !prefix.removed.empty() && !missing.empty();
    fail("'", path, "'",
         prefix.empty() || adapters ? ""
                                    : concat(", which has the program's names ",
                                             describe(prefix), ","),
         " does not fit the program: ",
         missing.empty() ? "" : concat("it has no ", missing.list()),
         missing.empty() || others.empty() ? ""
                                           : concat(", but ", others.list()),
         missing.empty() || misshapen.empty() ? "" : "; ",
         misshapen.empty() ? "" : misshapen.list(), "; ",
         adapters             ? kAdapterRemedy
         : !misshapen.empty() ? kShapeRemedy
         : isBase             ? kBaseRemedy
                              : kRemedy);
  }

  void read(const OwnedRange &range) {
    auto found = bound.find(range.param);
    if (found == bound.end())
      return;
    const auto &[arrays, transposed] = found->second;
    std::vector<TensorReader::Stored> stored;
    for (const Array *array : arrays)
      stored.push_back({array->file.get(), array->offset,
                        elementName(array->type), transposed});
    if (stored.size() == 1)
      reader.read(range, stored.front());
    else
      reader.read(range, stored);
  }

  void tell() const {
    for (const auto &[first, second] : twice)
      requireEqual(arrays.at(first), arrays.at(second), first, second);
    if (!prefix.empty() && !adapters)
      std::printf("'%s' has the program's names %s\n", path.c_str(),
                  describe(prefix).c_str());
    if (Names others = unused(); !others.empty())
      printWarning(concat("'", path,
                          "' has tensors that the program has no "
                          "parameter for: ",
                          others.list()));
  }

private:
  bool wants(const Manifest::Param &param) const {
    return param.draw.has_value() == adapters;
  }
  bool has(const Manifest::Param &param) const {
    std::vector<std::string> names = param.names();
    return std::any_of(names.begin(), names.end(), [&](const auto &name) {
      return find(name) != arrays.end();
    });
  }
  Names unused() const {
    Names names;
    for (const auto &[name, array] : arrays)
      if (!used.count(name))
        names.add("'" + name + "'");
    return names;
  }
  // Under the graph's names there is no prefix to be found.
  void findPrefix(const Manifest &manifest) {
    for (const auto &[name, array] : arrays)
      places.emplace(withoutWrappers(name), name);
    if (places.size() < arrays.size())
      fail("'", path,
           "' has a name with and without a wrapper of PyTorch's; "
           "give a file that has one model");
    std::vector<std::vector<std::string>> wanted;
    for (const Manifest::Unit &unit : manifest.units)
      for (const Manifest::Param &param : unit.params) {
        if (!wants(param) || arrays.count(param.onnx))
          continue;
        std::vector<std::string> &names = wanted.emplace_back();
        for (const std::string &name : param.names())
          names.push_back(withoutWrappers(name));
        for (const std::vector<std::string> &parts : partsOf(param))
          names.push_back(parts.front());
      }
    std::vector<Prefix> fits = findPrefixes(wanted, places);
    if (fits.size() > 1)
      fail("'", path,
           "' has the program's names more than once: ", describe(fits[0]),
           ", and ", describe(fits[1]), "; give a file that has one model");
    prefix = fits.empty() ? likeliestPrefix(wanted, places) : fits.front();
  }
  Arrays::const_iterator find(const std::string &name) const {
    auto place = places.find(withPrefix(prefix, withoutWrappers(name)));
    return place == places.end() ? arrays.end() : arrays.find(place->second);
  }
  // What published files may have in the parameter's place: a tensor of
  // another name, or several.
  static std::vector<std::vector<std::string>>
  partsOf(const Manifest::Param &param) {
    std::vector<std::vector<std::string>> ways;
    for (const std::string &wrapped : param.names()) {
      std::string name = withoutWrappers(wrapped);
      for (std::string &other : publishedNames(name))
        ways.push_back({std::move(other)});
      std::vector<int64_t> shape = param.wholeShape();
      if (shape.size() != 3)
        continue;
      for (auto &parts : publishedParts(name, shape.front()))
        ways.push_back(std::move(parts));
    }
    return ways;
  }
  void bindParts(const Manifest::Param &param, Names &missing,
                 Names &misshapen) {
    for (const std::vector<std::string> &names : partsOf(param)) {
      if (find(names.front()) == arrays.end())
        continue;
      Bound &place = bound[&param];
      for (const std::string &name : names) {
        auto found = find(name);
        if (found == arrays.end())
          return missing.add("'" + name + "'");
        used.insert(found->first);
        const Array &array = found->second;
        TensorReader::elementBytes(elementName(array.type), param.name);
        std::vector<int64_t> shape = partShape(param, names.size());
        if (array.shape != shape)
          return misshapen.add(misfit(*found, shape));
        place.parts.push_back(&array);
      }
      return;
    }
    missing.add("'" + param.name + "'");
  }
  // Of a stack [experts, rows, columns] that `count` matrices make.
  static std::vector<int64_t> partShape(const Manifest::Param &param,
                                        size_t count) {
    std::vector<int64_t> shape = param.wholeShape();
    if (count == 1 || shape.size() != 3)
      return shape;
    return {shape[0] * shape[1] / static_cast<int64_t>(count), shape[2]};
  }
  static std::string misfit(const Arrays::value_type &found,
                            const std::vector<int64_t> &shape) {
    return concat("its '", found.first, "' is ", shapeText(found.second.shape),
                  ", not ", shapeText(shape));
  }
  void bind(const Manifest::Param &param, Names &missing, Names &misshapen) {
    bool onnx = false;
    auto found = arrays.end();
    for (const std::string &name : param.names()) {
      auto other = find(name);
      if (other == arrays.end())
        continue;
      used.insert(other->first);
      if (found == arrays.end())
        found = other; // one of them is enough
      else
        twice.emplace_back(found->first, other->first);
    }
    if (found == arrays.end() && param.onnx != param.name) {
      found = arrays.find(param.onnx);
      onnx = true;
    }
    if (found == arrays.end())
      return bindParts(param, missing, misshapen);
    used.insert(found->first);
    const Array &array = found->second;
    TensorReader::elementBytes(elementName(array.type), param.name);
    bool transposed = onnx && param.source && param.source->transposed;
    std::vector<int64_t> shape = param.wholeShape();
    if (transposed)
      std::swap(shape[0], shape[1]);
    if (array.shape != shape)
      return misshapen.add(misfit(*found, shape));
    bound[&param] = {{&array}, transposed};
  }

  // What the program shares must not be two tensors in the file.
  void requireEqual(const Array &a, const Array &b, const std::string &first,
                    const std::string &second) const {
    bool same = a.type == b.type && a.shape == b.shape;
    int64_t bytes = 1;
    for (int64_t size : a.shape)
      bytes *= size;
    bytes *= TensorReader::elementBytes(elementName(a.type), first);
    std::vector<uint8_t> mine, other;
    for (int64_t at = 0; same && at < bytes; at += kCompared) {
      int64_t n = std::min(kCompared, bytes - at);
      mine.resize(static_cast<size_t>(n));
      other.resize(static_cast<size_t>(n));
      a.file->read(mine.data(), a.offset + at, n);
      b.file->read(other.data(), b.offset + at, n);
      same = mine == other;
    }
    if (!same)
      fail("'", path, "' has different tensors as '", first, "' and '", second,
           "', which are one parameter of the program: export the model "
           "without tying them, or leave one out");
  }

  const std::string path;
  const bool adapters;
  const Arrays arrays;
  // The file's names by the same without wrappers.
  std::map<std::string, std::string> places;
  Prefix prefix;
  /// Where a parameter's whole tensor lies.
  struct Bound {
    std::vector<const Array *> parts; // one, or experts' matrices
    bool transposed;
  };
  std::map<const Manifest::Param *, Bound> bound;
  std::set<std::string> used;
  std::vector<std::pair<std::string, std::string>> twice; // names of a tied one
  TensorReader reader;
};

} // namespace

[[noreturn]] static void failOfPickle(const std::string &path,
                                      const std::string &converted,
                                      const char *option) {
  fail("'", path,
       "' is a pickle, which only PyTorch reads: `tools/checkpoint-convert ",
       path, ' ', converted, "` makes of it what ", option, " takes");
}

std::string findStateDict(const std::string &path) {
  for (const char *end : {".pt", ".pth", ".bin", ".ckpt"})
    if (endsWith(path, end))
      failOfPickle(path, "weights.safetensors", "--model");
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return endsWith(path, ".safetensors") || endsWith(path, kIndexEnd) ? path
                                                                       : "";
  std::filesystem::path folder(path);
  for (const char *name : {"model.safetensors", "model.safetensors.index.json"})
    if (std::filesystem::exists(folder / name, ignored))
      return folder / name;
  if (std::filesystem::exists(folder / "pytorch_model.bin", ignored))
    return findStateDict(folder / "pytorch_model.bin");
  if (findCheckpoint(path))
    fail("'", path,
         "' is a checkpoint: --resume goes on from it, and `shardonnx export` "
         "makes of it what --model takes");
  fail("the folder '", path,
       "' has neither model.safetensors nor "
       "model.safetensors.index.json; ",
       kRemedy);
}

void loadStateDict(Engine &engine, const std::string &path, bool warns) {
  StateDict dict(engine.manifest, path, /*adapters=*/false);
  if (warns)
    dict.tell();
  auto read = [&](const OwnedRange &range) { dict.read(range); };
  forOwned(engine, read);
  writeRowLengths(engine, read);
}

void loadAdapterWeights(Engine &engine, const std::string &path, bool warns) {
  std::filesystem::path pickle(path);
  pickle.replace_extension(".bin");
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored) &&
      std::filesystem::exists(pickle, ignored))
    failOfPickle(pickle, path, "--adapter");
  StateDict dict(engine.manifest, path, /*adapters=*/true);
  if (warns)
    dict.tell();
  forOwned(engine, [&](const OwnedRange &range) { dict.read(range); });
}

} // namespace shardonnx::rt
