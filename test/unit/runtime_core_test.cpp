// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions, hashes, weights, environments and the memory plan.

#include "../../runtime/comm/Cores.h"
#include "../../runtime/comm/CpuQuota.h"
#include "../../runtime/comm/RankInfo.h"
#include "../../runtime/core/Engine.h"
#include "../../runtime/core/Topology.h"
#include "../../runtime/cpu/ReduceKernels.h"
#include "../../runtime/cpu/WaitPolicy.h"
#include "../../runtime/support/Error.h"
#include "../../runtime/support/Half.h"
#include "../../runtime/training/LossScale.h"
#include "../../runtime/training/TensorBoard.h"
#include "../../runtime/training/Weights.h"
#include "runtime/TestFiles.h"
#include "shardonnx/runtime/MemoryPlan.h"
#include "shardonnx/runtime/Printable.h"
#include "shardonnx/runtime/Sha256.h"
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <new>
#include <thread>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

// RFC 4231's cases 2 and 6.
TEST(Sha256, HmacIsTheStandards) {
  auto hex = [](const Sha256::Digest &digest) {
    std::string text;
    for (uint8_t byte : digest)
      for (int shift : {4, 0})
        text += "0123456789abcdef"[byte >> shift & 15];
    return text;
  };
  EXPECT_EQ(hex(hmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(hmacSha256(std::string(131, '\xaa'),
                     "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

// Whatever a thread of ours throws ends the process with one line.
TEST(Error, NoThreadEndsWithoutOne) {
  auto throwInThread = [](void (*thrower)()) {
    endOnUncaught();
    std::thread(thrower).join();
  };
  EXPECT_EXIT(throwInThread([] { throw std::bad_alloc(); }),
              testing::ExitedWithCode(1),
              "^[^\n]*: error: there is not enough memory\n$");
  EXPECT_EXIT(throwInThread([] { fail("a reason"); }),
              testing::ExitedWithCode(1), "^[^\n]*: error: a reason\n$");
  EXPECT_EXIT(throwInThread([] { throw 1; }), testing::ExitedWithCode(1),
              "^[^\n]*: error: something was thrown[^\n]*\n$");
}

TEST(Printable, ShowsNoControls) {
  EXPECT_EQ(printable("h.0\tweight\n"), "h.0 weight ");
  EXPECT_EQ(printable("a\nb", /*keepLines=*/true), "a\nb");
  EXPECT_EQ(printable("\x1b[31mred\x7f"), "\\x1b[31mred\\x7f");
  EXPECT_EQ(printable("Größe → 数"), "Größe → 数");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");          // CSI of C1
  EXPECT_EQ(printable("\xe2\x80\xae"), "\\xe2\\x80\\xae"); // right to left
  for (const char *broken :
       {"\xff", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    EXPECT_EQ(printable(broken).find("\\x"), 0u) << printable(broken);
}

TEST(CpuQuota, ReadsWhatContainersSay) {
  EXPECT_EQ(coresOfQuota("150000 100000"), 1.5);
  EXPECT_EQ(coresOfQuota("max 100000"), std::nullopt);
  EXPECT_EQ(coresOfQuota("-1 100000"), std::nullopt); // version 1: no limit
  EXPECT_EQ(coresOfQuota(" "), std::nullopt);
}

TEST(Cores, ReadsLists) {
  EXPECT_EQ(parseCores("0-3,8,10-11\n"), (Cores{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parseCores("7"), (Cores{7}));
  EXPECT_EQ(parseCores("\n"), Cores{}); // a node of memory alone
  for (const char *damaged : {"x", "0-", "-1", "0;1", "0-99999999999", "1,x"})
    EXPECT_EQ(parseCores(damaged), Cores{}) << damaged;
}

TEST(Cores, RanksStayOnTheirNodes) {
  Cores all = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<Cores> two = {{0, 1, 4, 5}, {2, 3, 6, 7}};
  std::vector<Cores> four = {{0, 1}, {2, 3}, {4, 5}, {6, 7}};
  EXPECT_EQ(coresOfRank(all, two, 0, 2, 4), two[0]);
  EXPECT_EQ(coresOfRank(all, two, 1, 2, 4), two[1]);
  EXPECT_EQ(coresOfRank(all, two, 1, 4, 2), two[0]); // two ranks a node
  EXPECT_EQ(coresOfRank(all, two, 2, 4, 2), two[1]);
  EXPECT_EQ(coresOfRank(all, four, 1, 2, 4), (Cores{4, 5, 6, 7}));
  // Only what the process may use; the other node has none of it.
  EXPECT_EQ(coresOfRank({1, 2, 4}, two, 0, 2, 1), (Cores{1, 4}));
  EXPECT_EQ(coresOfRank({0, 1, 4}, two, 0, 2, 1), (Cores{0, 1, 4}));
  // One rank, one node, or too few cores on it for the threads.
  EXPECT_EQ(coresOfRank(all, two, 0, 1, 8), all);
  EXPECT_EQ(coresOfRank(all, {all}, 0, 2, 4), all);
  EXPECT_EQ(coresOfRank(all, {}, 0, 2, 4), all);
  EXPECT_EQ(coresOfRank(all, two, 0, 3, 3), all);
  EXPECT_EQ(coresOfRank(all, two, 2, 3, 3), two[1]);
  EXPECT_EQ(coresOfRank(all, two, 5, 16, 1), all); // more ranks than cores
}

TEST(Cores, FindsNodesInOrder) {
  test::Folder folder;
  for (auto [name, list] : {std::pair("node10", "2-3\n"),
                            {"node2", "0-1\n"},
                            {"node3", "\n"},
                            {"power", "9\n"}}) {
    std::filesystem::create_directory(folder / name);
    folder.write(std::string(name) + "/cpulist", list);
  }
  EXPECT_EQ(memoryNodes(folder.path), (std::vector<Cores>{{0, 1}, {2, 3}}));
  EXPECT_TRUE(memoryNodes(folder / "none").empty());
}

// Two threads, looked at every 0.25 s, of which `waited` seconds without a
// core.
class Threads {
public:
  bool spinAfter(double waited) {
    now += 0.25;
    times.ran += 0.5 - waited;
    times.waited += waited;
    EXPECT_TRUE(policy.isDue(now));
    return policy.decide(now, times);
  }
  /// The seconds until it tries again.
  double secondsOfYielding(double waited) {
    double begin = now;
    while (!spinAfter(waited))
      EXPECT_LT(now - begin, 60) << "never tried again";
    return now - begin;
  }

private:
  WaitPolicy policy;
  ThreadTimes times;
  double now = 100;
};

TEST(WaitPolicy, YieldsWhereCoresAreWanted) {
  Threads threads;
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(threads.spinAfter(0.01));
  EXPECT_FALSE(threads.spinAfter(0.2));
  // It tries again, and where that fails waits longer each time.
  EXPECT_NEAR(threads.secondsOfYielding(0.2), 2.5, 0.3);
  EXPECT_FALSE(threads.spinAfter(0.2));
  EXPECT_NEAR(threads.secondsOfYielding(0.2), 5, 0.3);
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(threads.spinAfter(0.2));
    EXPECT_LT(threads.secondsOfYielding(0.2), 31);
  }
  // The cores are free again.
  for (int i = 0; i < 20; ++i)
    EXPECT_TRUE(threads.spinAfter(0.01));
  EXPECT_FALSE(threads.spinAfter(0.2));
  EXPECT_NEAR(threads.secondsOfYielding(0.2), 2.5, 0.3);
}

// A thread that ended took its times along.
TEST(WaitPolicy, LooksAtGrowingTimesOnly) {
  WaitPolicy policy;
  EXPECT_TRUE(policy.decide(1, {5, 5}));
  EXPECT_FALSE(policy.isDue(1.1));
  EXPECT_TRUE(policy.decide(2, {3, 6}));
  EXPECT_FALSE(policy.decide(3, {4, 7}));
}

TEST(WaitPolicy, TriesTakeNoGreaterShareOfLongSteps) {
  WaitPolicy policy;
  int spinning = 0;
  for (int step = 1; step <= 100; ++step) // of 4 s
    spinning += policy.decide(4 * step, {4.0 * step, 4.0 * step});
  EXPECT_LE(spinning, 11);
}

TEST(WaitPolicy, TheSystemTellsTheTimes) {
  std::optional<ThreadTimes> before = threadTimes();
  if (!before)
    GTEST_SKIP() << "no /proc/self/task/*/schedstat";
  volatile double sum = 0;
  for (int i = 0; i < 20'000'000; ++i)
    sum = sum + i;
  EXPECT_GT(threadTimes()->ran, before->ran);
}

TEST(ReduceKernels, AddInTheOrderOfRanks) {
  constexpr int64_t kCount = 300001;
  std::vector<std::vector<float>> gradients(3, std::vector<float>(kCount));
  for (int64_t i = 0; i < kCount; ++i)
    for (size_t r = 0; r < 3; ++r)
      gradients[r][i] = std::sin(float(i) * float(r + 1)) * 1e3f;
  const void *sources[] = {gradients[0].data(), gradients[1].data(),
                           gradients[2].data()};
  for (bool parallel : {false, true}) {
    std::vector<float> sum(kCount, 5.0f);
    sumSlices(sum.data(), sources, 3, kCount, SHX_F32, false, parallel);
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(sum[i], (gradients[0][i] + gradients[1][i]) + gradients[2][i]);
    std::vector<float> before = sum;
    sumSlices(sum.data(), sources, 3, kCount, SHX_F32, true, parallel);
    // As one rank adds up the same microbatches.
    for (int64_t i = 0; i < kCount; ++i)
      ASSERT_EQ(sum[i], ((before[i] + gradients[0][i]) + gradients[1][i]) +
                            gradients[2][i]);
    // With squares, the bits are those of two passes.
    auto chunks = static_cast<size_t>(normChunks(kCount));
    std::vector<double> taken(chunks, -1), expected(chunks, -2);
    sumSlicesAndSquares(before.data(), sources, 3, kCount, SHX_F32, true,
                        taken.data(), parallel);
    EXPECT_EQ(before, sum);
    squareSums(sum.data(), kCount, expected.data(), parallel);
    EXPECT_EQ(taken, expected);
  }
}

TEST(ReduceKernels, WidenHalves) {
  std::vector<BFloat16> bf16;
  std::vector<Float16> f16;
  for (int i = 0; i < 1000; ++i) {
    bf16.push_back(fromFloat<BFloat16>(float(i) * 0.37f));
    f16.push_back(fromFloat<Float16>(float(i) * 0.37f));
  }
  std::vector<float> sum(1000);
  const void *b[] = {bf16.data(), bf16.data()};
  sumSlices(sum.data(), b, 2, 1000, SHX_BF16, false);
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_EQ(sum[i], 2 * toFloat(bf16[i]));
  const void *h[] = {f16.data(), f16.data()};
  sumSlices(sum.data(), h, 2, 1000, SHX_F16, false);
  for (size_t i = 0; i < 1000; ++i)
    EXPECT_EQ(sum[i], 2 * toFloat(f16[i]));
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(fromFloat<BFloat16>(1.0f).bits, 0x3f80);
  EXPECT_EQ(fromFloat<BFloat16>(1.00390625f).bits, 0x3f80); // a tie, to even
  EXPECT_EQ(fromFloat<BFloat16>(1.01171875f).bits, 0x3f82);
  EXPECT_TRUE(std::isnan(toFloat(fromFloat<BFloat16>(std::nanf("")))));
  EXPECT_TRUE(std::isinf(toFloat(fromFloat<BFloat16>(INFINITY))));
  EXPECT_EQ(toFloat(fromFloat<Float16>(0.5f)), 0.5f);
}

TEST(Sha256, MatchesTheStandardsExamples) {
  Sha256 empty;
  EXPECT_EQ(empty.hex(), "e3b0c44298fc1c149afbf4c8996fb924"
                         "27ae41e4649b934ca495991b7852b855");
  Sha256 abc;
  abc.update("a", 1);
  abc.update("bc", 2);
  EXPECT_EQ(abc.hex(), "ba7816bf8f01cfea414140de5dae2223"
                       "b00361a396177a9cb410ff61f20015ad");
  for (bool byInstructions : {true, false}) {
    Sha256 many(byInstructions);
    std::string part(1000, 'a');
    for (int i = 0; i < 1000; ++i)
      many.update(part.data(), part.size());
    EXPECT_EQ(many.hex(), "cdc76e5c9914fb9281a1c7e284d73e67"
                          "f1809a48a497200e046d39ccc7112cd0");
  }
}

Manifest smallModel() {
  Manifest m;
  m.batch = 1;
  m.modelPath = "m.onnx";
  m.privateSpace.bytes = 1 << 20;
  m.gradientSpace.bytes = 1024 * 4;
  Manifest::Unit unit;
  unit.name = "u";
  unit.gatherInPlace = true;
  unit.length = 1024;
  auto source = [](int64_t offset, int64_t length) {
    return Manifest::Source{"m.onnx", "f32", offset, length};
  };
  unit.params = {{"fc.weight", "", 0, {20, 25}, true, source(0, 2000)},
                 {"ln_1.weight", "", 512, {100}, true, source(2000, 400)},
                 {"fc.bias", "", 768, {100}, true, source(2400, 400)}};
  m.units = {unit};
  return m;
}

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
  EXPECT_NE(say(m, model).find("leads out of the model's folder"),
            std::string::npos);
  m.units[0].params[0].source->file = "/etc/passwd";
  EXPECT_NE(say(m, model).find("leads out"), std::string::npos);
  m.units[0].params[0].source->file = "missing.data";
  EXPECT_NE(say(m, model).find("missing.data"), std::string::npos);
  m.units[0].params[0].source = std::nullopt;
  EXPECT_NE(say(m, model).find("--init=random"), std::string::npos);
}

class Environment : public testing::Test {
protected:
  void set(const char *name, const char *value) {
    ::setenv(name, value, 1);
    names.push_back(name);
  }
  ~Environment() override {
    for (const char *name : names)
      ::unsetenv(name);
  }
  std::vector<const char *> names;
};

// The check value of RFC 3720's CRC, and a file whose records follow each other
// to its end, with what was written at the known places of the message.
TEST(TensorBoard, WritesRecords) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  Folder folder;
  TensorBoard board(folder / "events");
  StepRecord record;
  record.step = 300;
  record.loss = 2.5;
  board.write(record);
  board.close();
  std::string name;
  for (const auto &entry :
       std::filesystem::directory_iterator(folder / "events"))
    name = entry.path();
  EXPECT_NE(name.find("/events.out.tfevents."), name.npos);
  std::string bytes = readFile(name);
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    ASSERT_LE(at + 16, bytes.size());
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    uint32_t crc = 0, masked = crc32c(bytes.substr(at, sizeof(length)));
    std::memcpy(&crc, bytes.data() + at + 8, sizeof(crc));
    EXPECT_EQ(crc, (masked >> 15 | masked << 17) + 0xa282ead8u);
    events.push_back(bytes.substr(at + 12, length));
    at += length + 16;
  }
  ASSERT_EQ(events.size(), 2u);
  EXPECT_NE(events[0].find("\x1a\x0d"
                           "brain.Event:2"),
            std::string::npos);
  // step = 300 as a varint; loss's value: tag (1), simple_value 2.5 (2).
  EXPECT_EQ(events[1].substr(9, 3), "\x10\xac\x02");
  EXPECT_NE(events[1].find(std::string("\x0a\x0a"
                                       "train/loss\x15\0\0\x20\x40",
                                       17)),
            std::string::npos);
}

TEST_F(Environment, LaunchersInTheirOrder) {
  EXPECT_EQ(rankFromEnvironment().worldSize, 1);
  set("SLURM_PROCID", "1");
  set("SLURM_STEP_ID", "0");
  set("SLURM_NTASKS", "2");
  EXPECT_EQ(rankFromEnvironment().launcher, "srun");
  EXPECT_EQ(rankFromEnvironment().rank, 1);
  set("PMI_RANK", "2");
  set("PMI_SIZE", "3");
  EXPECT_EQ(rankFromEnvironment().worldSize, 3);
  set("OMPI_COMM_WORLD_RANK", "3");
  set("OMPI_COMM_WORLD_SIZE", "4");
  EXPECT_EQ(rankFromEnvironment().worldSize, 4);
  set("RANK", "4");
  set("WORLD_SIZE", "5");
  EXPECT_EQ(rankFromEnvironment().launcher, "torchrun");
  EXPECT_EQ(rankFromEnvironment().worldSize, 5);
}

TEST_F(Environment, NonsenseIsRefused) {
  set("RANK", "4");
  set("WORLD_SIZE", "4");
  EXPECT_THROW(rankFromEnvironment(), Error);
  set("RANK", "x");
  EXPECT_THROW(rankFromEnvironment(), Error);
  set("RANK", "0");
  set("LOCAL_RANK", "2");
  set("LOCAL_WORLD_SIZE", "2"); // two machines
  EXPECT_THROW(rankFromEnvironment(), Error);
  set("LOCAL_RANK", "1");
  EXPECT_TRUE(rankFromEnvironment().severalMachines());
  set("MASTER_PORT", "0");
  EXPECT_THROW(rankFromEnvironment(), Error);
}

int64_t item(const Manifest &m, const Topology &topology,
             const std::string &name) {
  for (const MemoryItem &item : planMemory(m, topology, 1))
    if (item.name == name)
      return item.bytes;
  return -1;
}

TEST(LossScale, FollowsGradScaler) {
  Manifest m = smallModel();
  Options o;
  TrainState state;
  EXPECT_FALSE(LossScale(o, m).isDynamic());
  LossScale(o, m).begin(state);
  EXPECT_EQ(state.lossScale, 1);
  m.units[0].paramType = SHX_F16;
  LossScale scale(o, m);
  EXPECT_TRUE(scale.isDynamic());
  scale.begin(state);
  EXPECT_EQ(state.lossScale, 65536);
  scale.update(state, /*skipped=*/true);
  EXPECT_EQ(state.lossScale, 32768);
  for (int step = 0; step < 1999; ++step)
    scale.update(state, false);
  EXPECT_EQ(state.lossScale, 32768);
  scale.update(state, false);
  EXPECT_EQ(state.lossScale, 65536);
  EXPECT_EQ(state.cleanSteps, 0);
  scale.update(state, false);
  state.step = 2002; // a run that goes on
  scale.begin(state);
  EXPECT_EQ(state.lossScale, 65536);
  EXPECT_EQ(state.cleanSteps, 1);
  o.lossScale = 128;
  LossScale fixed(o, m);
  fixed.begin(state);
  fixed.update(state, true);
  EXPECT_EQ(state.lossScale, 128);
  EXPECT_FALSE(fixed.mayBeTooLarge(state));
}

TEST(Topology, GroupsAreConsecutiveRanks) {
  Topology t(6, 2);
  EXPECT_EQ(t.groupSize(), 3);
  EXPECT_EQ(t.groupRank(4), 1);
  EXPECT_EQ(t.replica(4), 1);
  EXPECT_EQ(t.owned(true, 1024, 4).begin, sliceLength(1024, 3));
  EXPECT_EQ(t.owned(false, 1024, 4).size(), 1024);
}

TEST(Topology, TensorGroupsAreNeighbours) {
  Topology t(12, 2, /*ranksHere=*/0, kSliceAlignment, /*tensor=*/2);
  EXPECT_EQ(t.groupSize(), 3);
  EXPECT_EQ(t.tensorRank(9), 1);
  EXPECT_EQ(t.dataRank(9), 4);
  EXPECT_EQ(t.groupRank(9), 1);
  EXPECT_EQ(t.replica(9), 1);
  EXPECT_EQ(t.group(9), 3);
  EXPECT_EQ(t.rankAt(1, 1, 3), 9);
  EXPECT_EQ(t.owned(true, 1024, 9).begin, t.owned(true, 1024, 8).begin);
}

TEST(Topology, MeshesTakeTheRanksTheyName) {
  Manifest m = smallModel();
  Options o;
  m.strategy = Strategy::HybridShard;
  m.mesh.set(MeshAxis::Tensor, 2);
  EXPECT_EQ(topologyOf(m, o, 6, 6).groupSize(), 3);
  EXPECT_THROW(topologyOf(m, o, 5, 5), Error);
  EXPECT_THROW(topologyOf(m, o, 4, 2), Error); // two machines
  m.mesh.set(MeshAxis::Replicate, 3);
  EXPECT_EQ(topologyOf(m, o, 6, 6).replicas, 3);
  EXPECT_THROW(topologyOf(m, o, 8, 8), Error);
  m.mesh.set(MeshAxis::Shard, 2);
  EXPECT_EQ(topologyOf(m, o, 12, 12).groupSize(), 2);
  EXPECT_THROW(topologyOf(m, o, 24, 24), Error);
  o.replicas = 2;
  EXPECT_THROW(topologyOf(m, o, 12, 12), Error);
}

TEST(Topology, ReplicasAreForHybridStrategies) {
  Manifest m = smallModel();
  Options o;
  m.strategy = Strategy::FullShard;
  EXPECT_EQ(topologyOf(m, o, 4, 2).replicas, 1);
  o.replicas = 1;
  EXPECT_EQ(topologyOf(m, o, 4, 2).replicas, 1);
  o.replicas = 2;
  EXPECT_THROW(topologyOf(m, o, 4, 2), Error);
  m.strategy = Strategy::HybridShard;
  EXPECT_EQ(topologyOf(m, o, 4, 4).replicas, 2);
  EXPECT_THROW(topologyOf(m, o, 3, 3), Error);
  o.replicas = 0; // one a machine
  EXPECT_EQ(topologyOf(m, o, 6, 2).replicas, 3);
  EXPECT_EQ(topologyOf(m, o, 5, 2).replicas, 1);
}

TEST(MemoryPlan, CountsWhatEachRankHas) {
  Manifest m = smallModel();
  EXPECT_EQ(item(m, 1, "master weights"), 4096);
  EXPECT_EQ(item(m, 2, "master weights"), 2048);
  EXPECT_EQ(item(m, 2, "optimizer state"), 4096);
  EXPECT_EQ(item(m, 3, "reduced gradients"), sliceLength(1024, 3) * 4);
  EXPECT_EQ(item(m, 2, "full gradients"), 4096);
  EXPECT_EQ(item(m, 2, "activations and workspaces"), 1 << 20);
  m.units[0].sharded = false;
  EXPECT_EQ(item(m, 2, "master weights"), 4096);
  EXPECT_EQ(item(m, 2, "reduced gradients"), 2048);
}

TEST(MemoryPlan, CountsReplicasAndEachUnitsDtype) {
  Manifest m = smallModel();
  // Two bf16 units of 1024 that take turns, behind one that is in place.
  for (int64_t begin : {4096, 5120}) {
    Manifest::Unit unit = m.units[0];
    unit.gatherInPlace = false;
    unit.paramType = SHX_BF16;
    unit.paramOffsetBytes = begin;
    m.units.push_back(unit);
  }
  m.gatherSpace.bytes = 7168;
  EXPECT_EQ(item(m, 1, "gathered parameters"), 3072);
  EXPECT_EQ(item(m, 2, "gathered parameters"), 1536);
  EXPECT_EQ(item(m, 2, "master weights"), 3 * 2048);
  // Beside the masters, what products read of them.
  EXPECT_EQ(item(m, 2, "low-precision parameters"), 2 * 1024);
  Topology hybrid(4, 2);
  EXPECT_EQ(item(m, hybrid, "gathered parameters"), 1536);
  EXPECT_EQ(item(m, hybrid, "master weights"), 3 * 2048);
  EXPECT_EQ(item(m, hybrid, "reduced gradients"), 3 * 2048);
}

// Each rank of a tensor group has a part, which the others of its group share.
TEST(MemoryPlan, CountsTheRanksOfAPart) {
  Manifest m = smallModel();
  m.mesh.set(MeshAxis::Tensor, 2);
  m.meshBytes = 4096;
  Topology mesh(4, 1, 0, kSliceAlignment, 2);
  EXPECT_EQ(item(m, mesh, "master weights"), 2048);
  EXPECT_EQ(item(m, mesh, "axes of the mesh"), 4096);
  m.units[0].sharded = false;
  EXPECT_EQ(item(m, mesh, "reduced gradients"), 2048);
}

// Where the update writes the gathered unit, it has no other place.
TEST(MemoryPlan, CountsWhatIsReadInPlaceOnce) {
  Manifest m = smallModel();
  m.units[0].paramType = SHX_BF16;
  m.units[0].frozenLength = 256;
  m.units[0].frozenOffsetBytes = 2048;
  m.gatherSpace.bytes = 2560;
  EXPECT_EQ(item(m, 2, "gathered parameters"), 0);
  EXPECT_EQ(item(m, 2, "low-precision parameters"), 1024);
  EXPECT_EQ(item(m, 2, "frozen weights"), 256);
  // Not so where other machines own a part.
  Topology machines(4, 1, 2);
  EXPECT_EQ(item(m, machines, "gathered parameters"), 1280);
  EXPECT_EQ(item(m, machines, "low-precision parameters"), 512);
}

TEST(MemoryPlan, GradientsMayBeTheirSum) {
  Manifest m = smallModel();
  EXPECT_TRUE(gradientsAreTheirSum(m, 1, 1));
  EXPECT_FALSE(gradientsAreTheirSum(m, 1, 2));
  EXPECT_FALSE(gradientsAreTheirSum(m, 2, 1));
  m.unshardedAccumulation = true;
  EXPECT_TRUE(gradientsAreTheirSum(m, 1, 2));
  m.units[0].reduceType = SHX_BF16;
  EXPECT_FALSE(gradientsAreTheirSum(m, 1, 2));
}

TEST(MemoryPlan, GradientsMayLieAmongActivations) {
  Manifest m = smallModel();
  EXPECT_FALSE(gradientsLieAmongActivations(m, 1, 1)); // they have no place
  EXPECT_EQ(item(m, 1, "reduced gradients"), 4096);
  m.units[0].gradPlaceBytes = (1 << 20) - 1024;
  EXPECT_TRUE(gradientsLieAmongActivations(m, 1, 1));
  EXPECT_FALSE(gradientsLieAmongActivations(m, 1, 2));
  EXPECT_FALSE(gradientsLieAmongActivations(m, 2, 1));
  EXPECT_EQ(item(m, 1, "reduced gradients"), 0);
  EXPECT_EQ(item(m, 1, "activations and gradients"), (1 << 20) + 3072);
  EXPECT_EQ(item(m, 2, "reduced gradients"), 2048);
  EXPECT_EQ(item(m, 2, "activations and workspaces"), 1 << 20);
}

TEST(Manifest, DamageIsTold) {
  std::string error;
  EXPECT_FALSE(parseManifest("{", error));
  EXPECT_NE(error.find("manifest"), std::string::npos);
  EXPECT_FALSE(parseManifest("{\"abi\": 99}", error));
  EXPECT_NE(error.find("compile it again"), std::string::npos);
}

// A manifest that can be read, with one number replaced.
std::string errorOfManifest(const std::string &from, const std::string &to) {
  std::string json = R"({"abi": 14, "hash": "", "model": {"path": "m.onnx"},
    "batch": 1, "seq": 4, "inputs": [],
    "loss": {"kind": "mse", "denominator": "labels", "denominator_shift": 0,
             "denominator_per_microbatch": 4},
    "param_dtype": "f32", "reduce_dtype": "f32",
    "units": [{"name": "u", "layout": "sharded", "length": 256,
               "gather_in_place": true,
               "param_offset_bytes": 0, "grad_offset_bytes": 0,
               "frozen_length": 0, "frozen_offset_bytes": 1024, "params": []}],
    "spaces": {"private": {"bytes": 0, "lower_bound_bytes": 0},
               "gather": {"bytes": 0, "lower_bound_bytes": 0},
               "gradients": {"bytes": 1024, "lower_bound_bytes": 0}}})";
  size_t at = json.find(from);
  json.replace(at, from.size(), to);
  std::string error;
  parseManifest(json, error);
  return error;
}

TEST(Manifest, SizesAreBounded) {
  EXPECT_EQ(errorOfManifest("\"seq\"", "\"seq\""), "");
  for (std::string key : {"denominator_shift", "denominator_per_microbatch",
                          "seq", "frozen_length", "frozen_offset_bytes"})
    for (std::string value : {"-64", "4611686018427387904"}) {
      std::string name = "\"" + key + "\": ";
      std::string error = errorOfManifest(name, name + value + ", \"x\": ");
      EXPECT_NE(error.find("'" + key + "' is out of range"), std::string::npos)
          << key << " " << value << ": " << error;
    }
}

} // namespace
