// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Weights.h.

#include "Weights.h"
#include "../core/RowLengths.h"
#include "../core/SampleOrder.h"
#include "../support/Error.h"
#include "../support/File.h"
#include "StateDict.h"
#include "TensorReader.h"
#include "shardonnx/runtime/EndsWith.h"
#include "shardonnx/runtime/Sha256.h"
#include <cctype>
#include <cmath>
#include <future>
#include <map>
#include <thread>

namespace shardonnx::rt {
namespace {

constexpr const char *kRemedy =
    "give --model FILE (where the ONNX file is now, its external data beside "
    "it), or --init=random";
constexpr int64_t kChunk = 1 << 20; // elements drawn at a time
constexpr int64_t kWorth = 1 << 14; // of a thread of its own

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}
std::string nameOf(const std::string &path) {
  return path.substr(path.rfind('/') + 1);
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
    if (hashOf(file, /*every=*/0) != manifest.modelSha256)
      fail("'", file.path(),
           "' is not the model that was compiled (its "
           "SHA-256 differs): compile it again, or ",
           kRemedy);
    for (const ExternalFile &external : manifest.external.files)
      check(external);
  }

  void read(const OwnedRange &target) {
    const Manifest::Param &param = *target.param;
    if (param.draw)
      return; // drawn before
    if (!param.source)
      fail("the model has no bytes for parameter '", param.name,
           "': export it with its weights, or use --init=random");
    if (param.source->length == 0) // a bias of zeros, which the file dropped
      return fill(target, param.source->addend);
    int64_t bytes = param.wholeElements() *
                    TensorReader::elementBytes(param.source->dtype, param.name);
    if (param.source->length != bytes)
      fail("parameter '", param.name, "' has ", param.source->length,
           " bytes in '", param.source->file, "', its shape wants ", bytes);
    const File &file = open(param.source->file);
    if (param.source->offset > file.size() - param.source->length)
      fail("'", file.path(), "' is truncated: parameter '", param.name,
           "' ends at byte ", param.source->offset + param.source->length,
           ", the file at ", file.size(), "; ", kRemedy);
    reader.read(target, {&file, param.source->offset, param.source->dtype,
                         param.source->transposed, param.source->addend});
  }

private:
  static std::string hashOf(const File &file, int64_t every) {
    return hashExternalFile(file.size(), every,
                            [&](void *to, int64_t at, int64_t count) {
                              file.read(to, at, count);
                              return true;
                            });
  }

  // A copy has a time of its own; the file that the compiler read has not.
  void check(const ExternalFile &external) {
    const File &file = open(external.name);
    int64_t every = manifest.external.hashedEvery;
    auto refuse = [&](const std::string &what) {
      fail("'", file.path(),
           "' does not hold the weights of the model that "
           "was compiled (",
           what, "): compile it again, or ", kRemedy);
    };
    if (file.size() != external.bytes)
      refuse(concat("it has ", file.size(), " bytes, not ", external.bytes));
    if (hashOf(file, every) != external.sha256)
      refuse(every ? "the SHA-256 of some blocks of it differs"
                   : "its SHA-256 differs");
    if (every && path == manifest.modelPath &&
        file.modified() != external.modified)
      printWarning(concat("'", file.path(),
                          "' was written after the model was "
                          "compiled: its length and ",
                          kHashedBlock, " bytes of every ", every,
                          " are as they were, "
                          "nothing is known of the rest"));
  }

  static void fill(const OwnedRange &target, float value) {
    std::vector<float> values(
        static_cast<size_t>(std::min(kChunk, target.end - target.begin)),
        value);
    for (int64_t at = target.begin; at < target.end; at += kChunk)
      target.write(at, values.data(), std::min(kChunk, target.end - at));
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
  TensorReader reader;
};

enum class Draw { Normal, Uniform, Ones, Zeros };

// By what frameworks call them: `ln_1.weight`, `input_layernorm.weight`,
// `model.norm.weight` scale a norm; every other vector is a bias.
Draw drawOf(const Manifest::Param &param) {
  if (param.draw)
    return *param.draw == DrawKind::Zeros ? Draw::Zeros : Draw::Uniform;
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
float normalAt(uint64_t bits) {
  double u = (static_cast<double>(bits >> 32) + 1) / 4294967297.0;
  double v = static_cast<double>(bits & 0xffffffff) / 4294967296.0;
  return static_cast<float>(std::sqrt(-2 * std::log(u)) *
                            std::cos(2 * std::acos(-1.0) * v));
}

// Within [-1, 1).
float uniformAt(uint64_t bits) {
  return static_cast<float>(static_cast<double>(bits >> 11) / 4503599627370496 -
                            1);
}

// What the elements of a parameter are drawn from.
struct Distribution {
  Draw kind;
  float scale; // standard deviation, or bound
  uint64_t key;

  float at(int64_t index) const {
    uint64_t bits = mixBits(key ^ mixBits(static_cast<uint64_t>(index)));
    return scale * (kind == Draw::Normal ? normalAt(bits) : uniformAt(bits));
  }
  void fill(float *values, int64_t count, int64_t first) const {
    for (int64_t i = 0; i < count; ++i)
      values[i] = at(first + i);
  }
};

Distribution distributionOf(const Manifest::Param &param, uint64_t seed) {
  constexpr float kStandardDeviation = 0.02f;
  Distribution made = {drawOf(param), kStandardDeviation, mixBits(seed)};
  // torch.nn.init.kaiming_uniform_ with a = sqrt(5), as PEFT draws A.
  if (made.kind == Draw::Uniform)
    made.scale = 1 / std::sqrt(static_cast<float>(param.wholeShape().back()));
  for (unsigned char c : param.name)
    made.key = mixBits(made.key ^ c);
  return made;
}

// A large model's numbers would take one core minutes.
void fillOn(std::vector<float> &values, const Distribution &from, int64_t first,
            int threads) {
  auto count = static_cast<int64_t>(values.size());
  int64_t share = std::max((count + threads - 1) / threads, kWorth);
  std::vector<std::thread> others;
  for (int64_t at = share; at < count; at += share)
    others.emplace_back([&values, &from, first, at, share, count] {
      from.fill(values.data() + at, std::min(share, count - at), first + at);
    });
  from.fill(values.data(), std::min(share, count), first);
  for (std::thread &other : others)
    other.join();
}

// A run of elements: where they go in the range, and which of the whole
// parameter they are.
struct Piece {
  int64_t to, first, count;
};

std::vector<Piece> piecesOf(const OwnedRange &target) {
  std::vector<Piece> pieces;
  target.part().forRuns(
      target.begin, target.end, [&](int64_t to, int64_t first, int64_t count) {
        for (int64_t at = 0; at < count; at += kChunk)
          pieces.push_back({to + at, first + at, std::min(kChunk, count - at)});
      });
  return pieces;
}

// While one piece is written, which a single thread does, the next is drawn.
void draw(const OwnedRange &target, uint64_t seed, int threads) {
  Distribution from = distributionOf(*target.param, seed);
  std::vector<Piece> pieces = piecesOf(target);
  std::vector<float> now, next;
  auto drawPiece = [&](std::vector<float> &values, const Piece &piece) {
    values.assign(static_cast<size_t>(piece.count),
                  from.kind == Draw::Ones ? 1.0f : 0.0f);
    if (from.kind == Draw::Normal || from.kind == Draw::Uniform)
      fillOn(values, from, piece.first, threads);
  };
  if (!pieces.empty())
    drawPiece(now, pieces.front());
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::future<void> drawn;
    if (i + 1 < pieces.size()) {
      const Piece &ahead = pieces[i + 1];
      bool aside = threads > 1 && ahead.count > kWorth;
      drawn = std::async(aside ? std::launch::async : std::launch::deferred,
                         drawPiece, std::ref(next), std::cref(ahead));
    }
    target.write(pieces[i].to, now.data(), pieces[i].count);
    if (drawn.valid())
      drawn.get();
    now.swap(next);
  }
}

// What no file has.
void drawMissing(Engine &engine, uint64_t seed) {
  forOwned(engine, [&](const OwnedRange &target) {
    if (target.param->draw && *target.param->draw != DrawKind::RowLengths)
      draw(target, seed, /*threads=*/1);
  });
}

} // namespace

void loadWeights(Engine &engine, const std::string &modelOverride,
                 uint64_t seed, bool checkHash) {
  drawMissing(engine, seed);
  if (std::string dict = findStateDict(modelOverride); !dict.empty())
    return loadStateDict(engine, dict, /*warns=*/checkHash);
  ModelFiles files(engine.manifest, modelOverride);
  if (checkHash)
    files.checkHash();
  auto read = [&](const OwnedRange &target) { files.read(target); };
  forOwned(engine, read);
  writeRowLengths(engine, read);
}

void drawWeights(Engine &engine, uint64_t seed, int threads) {
  auto fill = [&](const OwnedRange &target) { draw(target, seed, threads); };
  forOwned(engine, fill);
  writeRowLengths(engine, fill);
}

} // namespace shardonnx::rt
