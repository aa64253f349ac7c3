// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// cuDNN makes plans of our attention graphs for an H100 that is not there: for
// every shape that it is asked for, in the workspace that the compiler plans;
// and it refuses what we say that it refuses. The table that this prints is in
// docs/cuda.md. A plan takes seconds where the machine is busy, so that ctest
// makes only those of Shapes, Deterministic and Refused.

#include "../../runtime/cuda/attention/CudnnAttention.h"
#include "../../runtime/cuda/plan/AttentionPlan.h"
#include <cstdio>
#include <cstring>
#include <gtest/gtest.h>

using namespace shardonnx;
using namespace shardonnx::rt::cuda;

namespace {

constexpr const char *kH100 = R"({
  "cudaDeviceId": 0, "deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900,
  "driverVer": 13000, "totalGlobalMem": 85045166080,
  "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
  "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536,
  "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
  "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
  "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
  "l2CacheSize": 52428800})";

struct Case {
  const char *name;
  int64_t batch, heads, kvHeads, seqQ, seqK, headDim;
  bool causal = true;
  int64_t window = 0;
  bool deterministic = false, packed = false; // packed: q, k, v in one tensor
  int32_t dtype = SHX_BF16;
  int64_t documents = 0;
};

Case packedCase(const char *name, int64_t batch, int64_t heads, int64_t kvHeads,
                int64_t length, int64_t headDim, int64_t documents) {
  Case c{name, batch, heads, kvHeads, length, length, headDim};
  c.documents = documents;
  return c;
}

ShxAttention describe(const Case &c) {
  ShxAttention d{};
  d.batch = c.batch;
  d.heads = c.heads;
  d.kvHeads = c.kvHeads;
  d.seqQ = c.seqQ;
  d.seqK = c.seqK;
  d.headDim = c.headDim;
  auto fill = [&](int64_t (&stride)[3], int64_t row, int64_t rows) {
    stride[0] = rows * row;
    stride[1] = row;
    stride[2] = c.headDim;
  };
  int64_t qRow = c.heads * c.headDim, kRow = c.kvHeads * c.headDim;
  int64_t all = qRow + 2 * kRow;
  for (auto *stride : {&d.qStride, &d.dqStride})
    fill(*stride, c.packed ? all : qRow, c.seqQ);
  for (auto *stride : {&d.kStride, &d.vStride, &d.dkStride, &d.dvStride})
    fill(*stride, c.packed ? all : kRow, c.seqK);
  for (auto *stride : {&d.outStride, &d.doutStride})
    fill(*stride, qRow, c.seqQ);
  d.scale = 0.125f;
  d.causal = c.causal;
  d.dtype = c.dtype;
  d.window = c.window;
  d.flags = c.deterministic ? SHX_ATTENTION_DETERMINISTIC : 0;
  d.documents = c.documents;
  if (c.documents > 0)
    d.maskDtype = SHX_I32; // first keys
  return d;
}

// For the plan itself.
int64_t planned(const ShxAttention &d, bool grad) {
  return grad ? attentionGradWorkspaceBytes(d) - 2 * keysAsideBytes(d)
              : attentionWorkspaceBytes(d);
}

std::unique_ptr<CudnnPlan> planFor(const ShxAttention &d, bool grad,
                                   std::string &refusal) {
  return makeCudnnPlan(asPlannedByCudnn(d), grad, {nullptr, kH100, 90},
                       planned(d, grad), refusal);
}

class CudnnPlans : public testing::Test {
protected:
  void SetUp() override {
    if (!loadCudnn().empty())
      GTEST_SKIP() << loadCudnn();
    if (cudnnVersion() < 90800)
      GTEST_SKIP() << "cuDNN makes plans without a GPU from 9.8 on";
  }
};

void expectPlans(const Case &c) {
  SCOPED_TRACE(c.name);
  ShxAttention d = describe(c);
  std::printf("| %s | %lld × %lld/%lld × %lld, %lld × %lld |", c.name,
              (long long)c.batch, (long long)c.heads, (long long)c.kvHeads,
              (long long)c.headDim, (long long)c.seqQ, (long long)c.seqK);
  if (c.documents > 0)
    std::printf(" %lld |", (long long)c.documents);
  for (bool grad : {false, true}) {
    ASSERT_EQ(cudnnRefusal(d, c.documents > 0, grad), nullptr);
    std::string refusal;
    auto plan = planFor(d, grad, refusal);
    ASSERT_NE(plan, nullptr) << (grad ? "backward: " : "forward: ") << refusal;
    EXPECT_LE(plan->workspaceBytes(), planned(d, grad));
    // What is planned beyond it is spare bytes and alignment alone.
    EXPECT_GE(plan->workspaceBytes() + cudnnSpareBytes(d) +
                  cudnnDocumentBytes(d) + 4096,
              planned(d, grad));
    std::printf(" %lld | %s |", (long long)plan->workspaceBytes(),
                plan->name().c_str());
  }
  std::printf("\n");
}

TEST_F(CudnnPlans, TableOfModels) {
  for (const Case &c : {
           Case{"GPT-2 124M", 32, 12, 12, 1024, 1024, 64},
           Case{"GPT-2 124M, q·k·v packed", 32, 12, 12, 1024, 1024, 64, true, 0,
                false, true},
           Case{"GPT-2 1.5B", 16, 25, 25, 1024, 1024, 64},
           Case{"SmolLM3-3B", 1, 16, 4, 8192, 8192, 128},
           Case{"SmolLM3-3B", 4, 16, 4, 4096, 4096, 128},
           Case{"Llama-8B", 1, 32, 8, 4096, 4096, 128},
           Case{"Llama-8B", 1, 32, 8, 8192, 8192, 128},
           Case{"BERT, not causal", 32, 12, 12, 512, 512, 64, false},
       })
    expectPlans(c);
}

TEST_F(CudnnPlans, TableOfShapes) {
  for (const Case &c : {
           Case{"window 1024", 2, 32, 8, 4096, 4096, 128, true, 1024},
           Case{"window 1", 1, 3, 3, 300, 300, 64, true, 1},
           Case{"odd lengths", 2, 4, 2, 77, 77, 64},
           Case{"more keys", 2, 4, 2, 77, 131, 64},
           Case{"more keys, window", 1, 3, 3, 300, 400, 64, true, 100},
           Case{"more queries, not causal", 2, 4, 4, 131, 77, 64, false},
           Case{"one query", 1, 3, 1, 1, 400, 64},
           Case{"one key and value head", 2, 71, 1, 300, 300, 64},
           Case{"f16", 2, 8, 4, 512, 512, 64, true, 0, false, false, SHX_F16},
       })
    expectPlans(c);
}

TEST_F(CudnnPlans, TableOfHeadDims) {
  for (int64_t dim : {8, 32, 72, 80, 96, 160, 192, 256})
    expectPlans({"head dim", 2, 8, 4, 512, 512, dim});
}

TEST_F(CudnnPlans, TableOfDeterministic) {
  expectPlans({"deterministic", 4, 12, 12, 1024, 1024, 64, true, 0, true});
  expectPlans({"deterministic", 1, 16, 4, 1000, 1000, 128, true, 0, true});
  expectPlans({"deterministic", 1, 6, 2, 300, 400, 192, true, 100, true});
}

// Packed samples as ragged batches of at most so many documents.
TEST_F(CudnnPlans, TableOfDocuments) {
  for (int64_t documents : {1, 32, 1024})
    expectPlans(packedCase("Llama-8B", 1, 32, 8, 8192, 128, documents));
  Case packed = packedCase("Llama-8B, q·k·v packed", 1, 32, 8, 8192, 128, 32);
  packed.packed = true;
  expectPlans(packed);
  expectPlans(packedCase("SmolLM3-3B", 1, 16, 4, 8192, 128, 32));
  expectPlans(packedCase("SmolLM3-3B", 4, 16, 4, 4096, 128, 64));
  expectPlans(packedCase("GPT-2 124M", 32, 12, 12, 1024, 64, 256));
  packed = packedCase("GPT-2 124M, q·k·v packed", 32, 12, 12, 1024, 64, 256);
  packed.packed = true;
  expectPlans(packed);
  Case window = packedCase("window 1024", 2, 32, 8, 4096, 128, 32);
  window.window = 1024;
  expectPlans(window);
  for (int64_t dim : {16, 80, 96, 192, 256})
    expectPlans(packedCase("head dim", 3, 8, 4, 1000, dim, 16));
}

TEST_F(CudnnPlans, Documents) {
  Case packed = packedCase("q·k·v packed", 2, 6, 3, 128, 64, 9);
  packed.packed = true;
  expectPlans(packed);
  Case window = packedCase("window", 3, 4, 4, 77, 32, 100);
  window.window = 20;
  window.dtype = SHX_F16;
  expectPlans(window);
}

std::string bytesOf(const ShxAttention &desc) {
  return {reinterpret_cast<const char *>(&desc), sizeof(desc)};
}

// cuDNN's gradient is right where a microbatch is one sample: it is given no
// other.
TEST(CudnnDocuments, ArePlannedAsOneSample) {
  for (bool packed : {false, true}) {
    Case several = packedCase("several", 4, 6, 3, 128, 64, 9);
    Case one = packedCase("one", 1, 6, 3, 4 * 128, 64, 9);
    several.packed = one.packed = packed;
    ShxAttention planned = asPlannedByCudnn(describe(several));
    ShxAttention expected = asPlannedByCudnn(describe(one));
    EXPECT_EQ(bytesOf(planned), bytesOf(expected));
  }
  ShxAttention whole = describe({"whole", 4, 6, 3, 128, 128, 64});
  ShxAttention planned = asPlannedByCudnn(whole);
  EXPECT_EQ(bytesOf(planned), bytesOf(whole));
}

// Without a bound of tokens a workspace is for as many whole samples.
TEST_F(CudnnPlans, DocumentsOfOddHeadDims) {
  ShxAttention d = describe(packedCase("odd", 2, 4, 4, 256, 72, 16));
  EXPECT_NE(cudnnRefusal(d, true, true), nullptr);
  std::string refusal;
  auto plan =
      makeCudnnPlan(d, true, {nullptr, kH100, 90}, int64_t(1) << 40, refusal);
  ASSERT_NE(plan, nullptr) << refusal;
  EXPECT_GT(plan->workspaceBytes(), 16 * 256 * 4 * 72 * 4);
}

TEST_F(CudnnPlans, Shapes) {
  expectPlans({"q·k·v packed", 2, 12, 12, 128, 128, 64, true, 0, false, true});
  expectPlans({"more keys, window", 1, 6, 3, 77, 131, 128, true, 50});
}

TEST_F(CudnnPlans, Deterministic) {
  expectPlans({"deterministic", 1, 6, 2, 300, 400, 192, true, 100, true});
}

// What cudnnRefusal() lays at cuDNN's door. Where cuDNN learns it, the sentence
// there can go. (It has plans for larger head dims, but forward alone.)
TEST_F(CudnnPlans, Refused) {
  for (const Case &c : {
           Case{"head dim", 2, 4, 4, 128, 128, 20},
           Case{"head dim", 2, 4, 4, 128, 128, 264},
           Case{"more queries", 2, 4, 4, 131, 77, 64},
           Case{"one query, one key", 1, 1, 1, 1, 1, 64},
       }) {
    ShxAttention d = describe(c);
    EXPECT_NE(cudnnRefusal(d, false, true), nullptr) << c.name;
    std::string refusal;
    EXPECT_EQ(
        makeCudnnPlan(d, true, {nullptr, kH100, 90}, int64_t(1) << 40, refusal),
        nullptr)
        << c.name;
    EXPECT_NE(refusal, "") << c.name;
  }
}

TEST_F(CudnnPlans, TooLittleWorkspace) {
  ShxAttention d = describe({"small", 2, 8, 8, 512, 512, 64});
  std::string refusal;
  EXPECT_EQ(makeCudnnPlan(d, true, {nullptr, kH100, 90}, 1000, refusal),
            nullptr);
  EXPECT_NE(refusal, "");
}

// What needs no library to be known.
TEST(CudnnRefusal, Sentences) {
  Case small{"small", 2, 4, 4, 128, 128, 64};
  ShxAttention d = describe(small);
  EXPECT_EQ(cudnnRefusal(d, false, false), nullptr);
  EXPECT_STREQ(cudnnRefusal(d, true, false),
               "cuDNN does not promise zeros for a query whose keys are all "
               "masked");
  d.dtype = SHX_F32;
  EXPECT_STREQ(cudnnRefusal(d, false, false),
               "cuDNN's attention is for bf16 and f16 only");
  EXPECT_EQ(attentionGradWorkspaceBytes(d), 4096);
  d = describe({"one", 1, 1, 1, 1, 1, 64});
  EXPECT_EQ(cudnnRefusal(d, false, false), nullptr);
  d = describe(small);
  d.softcap = 30;
  EXPECT_NE(cudnnRefusal(d, false, false), nullptr);
  d = describe(small);
  d.causal = 0;
  d.window = 20;
  EXPECT_NE(cudnnRefusal(d, false, false), nullptr);
  d = describe(small);
  d.qStride[1] += 4;
  EXPECT_NE(cudnnRefusal(d, false, false), nullptr);
  d = describe(small);
  d.dvStride[2] += 4;
  EXPECT_EQ(cudnnRefusal(d, false, false), nullptr);
  EXPECT_NE(cudnnRefusal(d, false, true), nullptr);
  d = describe(packedCase("packed", 2, 4, 2, 128, 64, 8));
  EXPECT_EQ(cudnnRefusal(d, true, false), nullptr);
  EXPECT_EQ(cudnnRefusal(d, true, true), nullptr);
  d.flags = SHX_ATTENTION_DETERMINISTIC;
  EXPECT_EQ(cudnnRefusal(d, true, false), nullptr);
  EXPECT_STREQ(cudnnRefusal(d, true, true),
               "cuDNN's deterministic gradient would keep the scores of as "
               "many samples as there may be documents");
  d = describe(packedCase("packed", 2, 4, 2, 128, 72, 8));
  EXPECT_STREQ(cudnnRefusal(d, true, false),
               "cuDNN's workspace for documents is one for each, unless head "
               "dims are multiples of 16");
  d = describe(packedCase("packed", 2, 4, 2, 128, 64, 0));
  d.maskDtype = SHX_I32;
  EXPECT_STREQ(cudnnRefusal(d, true, false),
               "packed documents go to cuDNN only where --max-documents says "
               "how many, and their mask is causal");
  EXPECT_EQ(attentionWorkspaceBytes(d), 0);
  d = describe(packedCase("packed", 2, 4, 2, 128, 64, 8));
  d.seqQ /= 2;
  EXPECT_NE(cudnnRefusal(d, true, false), nullptr);
  d = describe(packedCase("packed", 2, 4, 2, 128, 64, 8));
  d.kStride[0] += 64; // samples apart
  EXPECT_STREQ(cudnnRefusal(d, true, false),
               "cuDNN wants the tokens of documents in one row, their heads "
               "side by side");
  d = describe(packedCase("packed", 1024, 32, 8, 8192, 128, 8));
  EXPECT_STREQ(cudnnRefusal(d, true, false),
               "cuDNN is told where documents begin in 32 bits");
  d = describe({"large", 32, 12, 12, 1024, 1024, 64, true, 0, true});
  EXPECT_EQ(cudnnRefusal(d, false, false), nullptr);
  EXPECT_NE(cudnnRefusal(d, false, true), nullptr);
}

} // namespace
