// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Weights.h.

#include "Weights.h"
#include "Error.h"
#include "File.h"
#include "Half.h"
#include "SampleOrder.h"
#include "Sha256.h"
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>

namespace shardonnx::rt {
namespace {

constexpr const char *kRemedy =
    "give --model FILE (where the ONNX file is now, its external data beside "
    "it), or --init=random";
constexpr int64_t kChunk = 1 << 18; // elements read at a time

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}
std::string nameOf(const std::string &path) {
  return path.substr(path.rfind('/') + 1);
}

// Where a weight goes: a range of a parameter that this rank owns.
struct Target {
  Engine *engine;
  size_t unit;
  const Manifest::Param *param;
  int64_t begin, end; // elements of the parameter

  void write(int64_t at, const float *values, int64_t count) const {
    engine->write(unit, param->trainable, param->offset + at, values, count);
  }
};

// Calls visit(Target) for all that this rank owns.
template <typename Visit> void forOwned(Engine &engine, Visit visit) {
  const std::vector<Manifest::Unit> &units = engine.manifest.units;
  for (size_t unit = 0; unit < units.size(); ++unit)
    for (const Manifest::Param &param : units[unit].params) {
      Interval owned = engine.owned(unit, param.trainable);
      int64_t begin = std::max(owned.begin, param.offset);
      int64_t end = std::min(owned.end, param.offset + param.elements());
      if (begin < end)
        visit(Target{&engine, unit, &param, begin - param.offset,
                     end - param.offset});
    }
}

struct SourceType {
  int64_t bytes;
  void (*widen)(float *out, const uint8_t *in, int64_t count);
};

template <typename T> void widen(float *out, const uint8_t *in, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, in + static_cast<size_t>(i) * sizeof(T), sizeof(T));
    if constexpr (std::is_same_v<T, double>)
      out[i] = static_cast<float>(value);
    else
      out[i] = toFloat(value);
  }
}

SourceType sourceType(const Manifest::Param &param) {
  static const std::map<std::string, SourceType> types = {
      {"f32", {4, widen<float>}},
      {"f64", {8, widen<double>}},
      {"bf16", {2, widen<BFloat16>}},
      {"f16", {2, widen<Float16>}}};
  auto found = types.find(param.source->dtype);
  if (found == types.end())
    fail("parameter '", param.name, "' is stored as ", param.source->dtype,
         ", which cannot be trained");
  return found->second;
}

class ModelFiles {
public:
  ModelFiles(const Manifest &manifest, const std::string &modelOverride)
      : manifest(manifest),
        path(modelOverride.empty() ? manifest.modelPath : modelOverride),
        folder(folderOf(path)) {}

  void checkHash() {
    if (manifest.modelSha256.empty())
      return;
    const File &file = open(nameOf(manifest.modelPath));
    Sha256 hash;
    std::vector<uint8_t> part(1 << 20);
    for (int64_t at = 0; at < file.size();) {
      int64_t n = std::min<int64_t>(static_cast<int64_t>(part.size()),
                                    file.size() - at);
      file.read(part.data(), at, n);
      hash.update(part.data(), static_cast<size_t>(n));
      at += n;
    }
    if (hash.hex() != manifest.modelSha256)
      fail("'", file.path(),
           "' is not the model that was compiled (its "
           "SHA-256 differs): compile it again, or ",
           kRemedy);
  }

  void read(const Target &target) {
    const Manifest::Param &param = *target.param;
    if (!param.source)
      fail("the model has no bytes for parameter '", param.name,
           "': export it with its weights, or use --init=random");
    SourceType type = sourceType(param);
    if (param.source->length != param.elements() * type.bytes)
      fail("parameter '", param.name, "' has ", param.source->length,
           " bytes in '", param.source->file, "', its shape wants ",
           param.elements() * type.bytes);
    const File &file = open(param.source->file);
    if (param.source->offset > file.size() - param.source->length)
      fail("'", file.path(), "' is truncated: parameter '", param.name,
           "' ends at byte ", param.source->offset + param.source->length,
           ", the file at ", file.size(), "; ", kRemedy);
    if (param.source->transposed)
      return readTransposed(target, file, type);
    for (int64_t at = target.begin; at < target.end; at += kChunk) {
      int64_t n = std::min(kChunk, target.end - at);
      readRun(file, param, type, at, n);
      target.write(at, values.data(), n);
    }
  }

private:
  // `count` elements of the file's tensor from `at` on, into `values`.
  void readRun(const File &file, const Manifest::Param &param,
               const SourceType &type, int64_t at, int64_t count) {
    raw.resize(static_cast<size_t>(count * type.bytes));
    values.resize(static_cast<size_t>(count));
    file.read(raw.data(), param.source->offset + at * type.bytes,
              count * type.bytes);
    type.widen(values.data(), raw.data(), count);
  }

  // The file holds [columns, rows] of a parameter [rows, columns]: a panel of
  // rows at a time, one run of the file for each of its columns.
  void readTransposed(const Target &target, const File &file,
                      const SourceType &type) {
    const Manifest::Param &param = *target.param;
    int64_t rows = param.shape[0], columns = param.shape[1];
    int64_t panelRows = std::max<int64_t>(1, 4 * kChunk / columns);
    std::vector<float> panel;
    for (int64_t row = target.begin / columns; row * columns < target.end;
         row += panelRows) {
      int64_t n = std::min(panelRows, rows - row);
      panel.resize(static_cast<size_t>(n * columns));
      for (int64_t column = 0; column < columns; ++column) {
        readRun(file, param, type, column * rows + row, n);
        for (int64_t i = 0; i < n; ++i)
          panel[static_cast<size_t>(i * columns + column)] =
              values[static_cast<size_t>(i)];
      }
      int64_t begin = std::max(target.begin, row * columns);
      int64_t end = std::min(target.end, (row + n) * columns);
      target.write(begin, panel.data() + begin - row * columns, end - begin);
    }
  }

  // The model's own file may have another name now (--model FILE).
  const File &open(const std::string &name) {
    auto found = files.find(name);
    if (found != files.end())
      return found->second;
    File file = name == nameOf(manifest.modelPath)
                    ? File(path, kRemedy)
                    : File::beneath(folder, name, kRemedy);
    return files.emplace(name, std::move(file)).first->second;
  }

  const Manifest &manifest;
  std::string path, folder;
  std::map<std::string, File> files;
  std::vector<uint8_t> raw;
  std::vector<float> values;
};

enum class Draw { Normal, Ones, Zeros };

bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// By what frameworks call them: `ln_1.weight`, `input_layernorm.weight`,
// `model.norm.weight` scale a norm; every other vector is a bias.
Draw drawOf(const Manifest::Param &param) {
  if (param.shape.size() >= 2)
    return Draw::Normal;
  if (!endsWith(param.name, "weight"))
    return Draw::Zeros;
  std::string module = param.name.substr(0, param.name.size() - 6);
  for (char &c : module)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  size_t dot = module.find_last_of('.', module.size() - 2);
  std::string last = module.substr(dot == std::string::npos ? 0 : dot + 1);
  bool norm =
      last.find("norm") != std::string::npos || last.compare(0, 2, "ln") == 0;
  return norm ? Draw::Ones : Draw::Zeros;
}

// Box and Muller's formula on two numbers drawn from the element's index.
float normalAt(uint64_t key, int64_t index) {
  uint64_t bits = mixBits(key ^ mixBits(static_cast<uint64_t>(index)));
  double u = (static_cast<double>(bits >> 32) + 1) / 4294967297.0;
  double v = static_cast<double>(bits & 0xffffffff) / 4294967296.0;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) *
                            std::cos(2 * std::acos(-1.0) * v));
}

void draw(const Target &target, uint64_t seed) {
  constexpr float kStandardDeviation = 0.02f;
  Draw kind = drawOf(*target.param);
  uint64_t key = mixBits(seed);
  for (unsigned char c : target.param->name)
    key = mixBits(key ^ c);
  std::vector<float> values;
  for (int64_t at = target.begin; at < target.end; at += kChunk) {
    int64_t n = std::min(kChunk, target.end - at);
    values.assign(static_cast<size_t>(n), kind == Draw::Ones ? 1.0f : 0.0f);
    if (kind == Draw::Normal)
      for (int64_t i = 0; i < n; ++i)
        values[static_cast<size_t>(i)] =
            kStandardDeviation * normalAt(key, at + i);
    target.write(at, values.data(), n);
  }
}

} // namespace

void loadWeights(Engine &engine, const std::string &modelOverride,
                 bool checkHash) {
  ModelFiles files(engine.manifest, modelOverride);
  if (checkHash)
    files.checkHash();
  forOwned(engine, [&](const Target &target) { files.read(target); });
}

void drawWeights(Engine &engine, uint64_t seed) {
  forOwned(engine, [&](const Target &target) { draw(target, seed); });
}

} // namespace shardonnx::rt
