// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Initial weights: drawn or read, the same at every number of ranks.

#include "../../runtime/core/Engine.h"
#include "../../runtime/support/Error.h"
#include "../../runtime/training/Weights.h"
#include "runtime/SmallModel.h"
#include "runtime/TestFiles.h"
#include "shardonnx/runtime/Sha256.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

// Keeps what it is given of one unit, as one rank of several.
class MasterKeeper : public Engine {
public:
  MasterKeeper(const Manifest &m, int rank, int ranks)
      : Engine(m), self(rank), count(ranks), masters(owned(0, true).size()) {}
  int rank() const override { return self; }
  int ranks() const override { return count; }
  Interval owned(size_t unit, bool trainable) const override {
    const Manifest::Unit &u = manifest.units[unit];
    return ownedInterval(trainable ? u.length : u.frozenLength,
                         rank() / tensor(), ranks() / tensor());
  }
  void write(size_t, StateArray, int64_t begin, const float *values,
             int64_t n) override {
    std::copy(values, values + n,
              masters.begin() + begin - owned(0, true).begin);
  }
  void writeStored(size_t, StateArray, int64_t, const uint8_t *,
                   int64_t) override {}
  void readReduced(size_t, int64_t, float *, int64_t) override {}
  void read(size_t, StateArray, const Interval &, const Sink &) override {}
  void setDecay(const std::function<bool(const std::string &)> &) override {}
  void start() override {}
  uint8_t *const *inputs() override { return nullptr; }
  void beginStep(const Scalars &) override {}
  void microbatch(bool, bool) override {}
  void update() override {}
  void endStep() override {}
  std::optional<StepResult> result(bool) override { return {}; }
  void evalMicrobatch() override {}
  Evaluation evaluation(double) override { return {}; }
  MemoryUse memory(int64_t, bool) override { return {}; }
  void finish() override {}
  void beginTrace() override {}
  void endTrace() override {}

private:
  int self, count;

public:
  std::vector<float> masters;
};

// The unit as all ranks own it.
std::vector<float> collect(const Manifest &m, int ranks, uint64_t seed,
                           const std::string &model) {
  std::vector<float> whole(1024);
  for (int r = 0; r < ranks; ++r) {
    MasterKeeper engine(m, r, ranks);
    if (model.empty())
      drawWeights(engine, seed);
    else
      loadWeights(engine, model, /*seed=*/0, true);
    std::copy(engine.masters.begin(), engine.masters.end(),
              whole.begin() + engine.owned(0, true).begin);
  }
  return whole;
}

TEST(Weights, AreDrawnTheSameAtEveryWorldSize) {
  Manifest m = smallModel();
  std::vector<float> one = collect(m, 1, 5, "");
  for (int ranks : {2, 3, 4, 7})
    EXPECT_EQ(collect(m, ranks, 5, ""), one);
  EXPECT_NE(collect(m, 1, 6, ""), one);
  double squares = 0;
  for (int i = 0; i < 500; ++i)
    squares += one[i] * one[i];
  EXPECT_NEAR(std::sqrt(squares / 500), 0.02, 0.003);
  EXPECT_EQ(one[512], 1.0f);
  EXPECT_EQ(one[611], 1.0f);
  EXPECT_EQ(one[768], 0.0f);
}

TEST(Weights, AreDrawnTheSameByAnyNumberOfThreads) {
  Manifest m = smallModel();
  m.units[0].length = 100000;
  m.units[0].params = {{"fc.weight", "", 0, {1000, 100}, true, {}}};
  MasterKeeper one(m, 0, 1);
  drawWeights(one, 5);
  for (int threads : {2, 3, 16}) {
    MasterKeeper several(m, 0, 1);
    drawWeights(several, 5, threads);
    EXPECT_EQ(several.masters, one.masters) << threads;
  }
}

std::string say(const Manifest &m, const std::string &model) {
  try {
    collect(m, 2, 0, model);
  } catch (const Error &e) {
    return e.what();
  }
  return "";
}

TEST(Weights, AreReadSliceBySlice) {
  Folder folder;
  Manifest m = smallModel();
  std::vector<float> values(700);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i) + 1;
  std::string model = folder.write("moved.onnx", bytesOf(values));
  for (int ranks : {1, 2, 3, 5}) {
    std::vector<float> whole = collect(m, ranks, 0, model);
    for (size_t i = 0; i < 500; ++i)
      EXPECT_EQ(whole[i], values[i]);
    for (size_t i = 0; i < 100; ++i) {
      EXPECT_EQ(whole[512 + i], values[500 + i]);
      EXPECT_EQ(whole[768 + i], values[600 + i]);
    }
  }
  Sha256 hash;
  hash.update(values.data(), values.size() * 4);
  m.modelSha256 = hash.hex();
  EXPECT_EQ(say(m, model), "");
}

// The model of which each of two ranks has a part: half of sections of 16 and 8
// columns, or of 12 and 8 rows.
Manifest splitModel(bool byRows) {
  Manifest m = smallModel();
  m.mesh.set(MeshAxis::Tensor, 2);
  Manifest::Param &weight = m.units[0].params[0];
  weight.shape =
      byRows ? std::vector<int64_t>{10, 24} : std::vector<int64_t>{20, 12};
  weight.split = byRows ? Split{0, {12, 8}} : Split{1, {16, 8}};
  weight.source->length = 1920;
  return m;
}

// Its weight, put together from what both ranks have.
std::vector<float> joinParts(const Manifest &m, bool byRows,
                             const std::string &model) {
  std::vector<float> whole(480);
  for (int rank : {0, 1}) {
    MasterKeeper engine(m, rank, 2);
    if (model.empty())
      drawWeights(engine, 5);
    else
      loadWeights(engine, model, /*seed=*/0, true);
    for (int64_t row = 0; row < m.units[0].params[0].shape[0]; ++row)
      for (int64_t column = 0; column < m.units[0].params[0].shape[1];
           ++column) {
        int64_t r = row, c = column;
        if (byRows)
          r = row < 6 ? rank * 6 + row : 12 + rank * 4 + row - 6;
        else
          c = column < 8 ? rank * 8 + column : 16 + rank * 4 + column - 8;
        whole[static_cast<size_t>(r * 24 + c)] =
            engine.masters[static_cast<size_t>(
                row * m.units[0].params[0].shape[1] + column)];
      }
  }
  return whole;
}

TEST(Weights, ArePartsOfTheWhole) {
  Manifest one = smallModel();
  one.units[0].params[0].shape = {20, 24};
  std::vector<float> drawn = collect(one, 1, 5, "");
  drawn.resize(480);
  Folder folder;
  std::vector<float> values(700);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i) + 1;
  std::string model = folder.write("moved.onnx", bytesOf(values));
  std::vector<float> read(values.begin(), values.begin() + 480), turned(480);
  for (size_t i = 0; i < 480; ++i)
    turned[i % 20 * 24 + i / 20] = read[i];
  for (bool byRows : {false, true}) {
    Manifest m = splitModel(byRows);
    EXPECT_EQ(joinParts(m, byRows, ""), drawn) << byRows;
    EXPECT_EQ(joinParts(m, byRows, model), read) << byRows;
    m.units[0].params[0].source->transposed = true;
    EXPECT_EQ(joinParts(m, byRows, model), turned) << byRows;
  }
}

TEST(Weights, OfExternalDataSomeBlocksAreHashed) {
  auto hashOf = [](const std::vector<uint8_t> &bytes, int64_t every) {
    return hashExternalFile(int64_t(bytes.size()), every,
                            [&](void *to, int64_t at, int64_t count) {
                              EXPECT_LE(at + count, int64_t(bytes.size()));
                              std::memcpy(to, bytes.data() + at, size_t(count));
                              return true;
                            });
  };
  std::vector<uint8_t> bytes(100'000);
  Sha256 all;
  all.update(bytes.data(), bytes.size());
  EXPECT_EQ(hashOf(bytes, 0), all.hex());
  std::string before = hashOf(bytes, 20480);
  for (auto [at, noticed] : {std::pair{0, true},
                             {4095, true},
                             {4096, false},
                             {20480, true},
                             {95'000, false},
                             {95'904, true},
                             {99'999, true}}) {
    std::vector<uint8_t> changed = bytes;
    changed[size_t(at)] = 1;
    EXPECT_EQ(hashOf(changed, 20480) != before, noticed) << at;
    EXPECT_NE(hashOf(changed, 0), hashOf(bytes, 0)) << at;
  }
  auto unreadable = [](void *, int64_t, int64_t) { return false; };
  EXPECT_EQ(hashExternalFile(1, 0, unreadable), "");
  EXPECT_EQ(hashedEvery(256 << 20), 0);
  EXPECT_EQ(hashedEvery(int64_t(16) << 30), 4 << 20);
}

TEST(Weights, BadModelsAreNamed) {
  Folder folder;
  Manifest m = smallModel();
  std::string model = folder.write("m.onnx", std::string(2799, 'x'));
  EXPECT_NE(say(m, model).find("truncated: parameter 'fc.bias'"),
            std::string::npos);
  EXPECT_NE(say(m, folder / "none").find("--model FILE"), std::string::npos);
  m.modelSha256 = std::string(64, '0');
  EXPECT_NE(say(m, model).find("not the model that was compiled"),
            std::string::npos);
  m.modelSha256.clear();
  m.units[0].params[0].source->file = "../m.onnx";
  EXPECT_NE(say(m, model).find("leads out of the folder"), std::string::npos);
  m.units[0].params[0].source->file = "/etc/passwd";
  EXPECT_NE(say(m, model).find("leads out"), std::string::npos);
  m.units[0].params[0].source->file = "missing.data";
  EXPECT_NE(say(m, model).find("missing.data"), std::string::npos);
  m.units[0].params[0].source = std::nullopt;
  EXPECT_NE(say(m, model).find("--init=random"), std::string::npos);
}

} // namespace
