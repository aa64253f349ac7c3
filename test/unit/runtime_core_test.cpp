// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hashes, halves, sums over ranks, environments, records of TensorBoard and the
// scale of losses.

#include "../../runtime/comm/RankInfo.h"
#include "../../runtime/cpu/ReduceKernels.h"
#include "../../runtime/support/Error.h"
#include "../../runtime/support/Half.h"
#include "../../runtime/training/LossScale.h"
#include "../../runtime/training/TensorBoard.h"
#include "runtime/SmallModel.h"
#include "runtime/TestFiles.h"
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

TEST_F(Environment, HalfOfTorchrunsIsRefused) {
  set("WORLD_SIZE", "1"); // as containers have it
  EXPECT_EQ(rankFromEnvironment().worldSize, 1);
  set("WORLD_SIZE", "2");
  EXPECT_THROW(rankFromEnvironment(), Error);
  set("WORLD_SIZE", "");
  set("RANK", "1");
  EXPECT_THROW(rankFromEnvironment(), Error);
  set("OMPI_COMM_WORLD_RANK", "0");
  set("OMPI_COMM_WORLD_SIZE", "4"); // another launcher's is whole
  EXPECT_EQ(rankFromEnvironment().worldSize, 4);
}

TEST_F(Environment, HalfOfOpenMPIsIsRefused) {
  set("OMPI_COMM_WORLD_SIZE", "2");
  EXPECT_THROW(rankFromEnvironment(), Error);
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

} // namespace
