// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulated cuBLASLt against sums in double.

#include "Fixture.h"
#include <cmath>
#include <cublasLt.h>

#define CHECK_LT(call) ASSERT_EQ((call), CUBLAS_STATUS_SUCCESS)

using namespace shardonnx::emulator;

namespace {

class BlasTest : public DeviceTest {
protected:
  void SetUp() override {
    DeviceTest::SetUp();
    CHECK_LT(cublasLtCreate(&handle));
    CHECK_LT(
        cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CHECK_LT(cublasLtMatmulPreferenceCreate(&preference));
  }
  void TearDown() override {
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatmulDescDestroy(operation);
    for (cublasLtMatrixLayout_t layout : layouts)
      cublasLtMatrixLayoutDestroy(layout);
    cublasLtDestroy(handle);
    DeviceTest::TearDown();
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, T value) {
    CHECK_LT(cublasLtMatmulDescSetAttribute(operation, attribute, &value,
                                            sizeof value));
  }
  cublasLtMatrixLayout_t layout(cudaDataType type, uint64_t rows,
                                uint64_t columns, int64_t ld) {
    layouts.emplace_back();
    EXPECT_EQ(
        cublasLtMatrixLayoutCreate(&layouts.back(), type, rows, columns, ld),
        CUBLAS_STATUS_SUCCESS);
    return layouts.back();
  }
  void batch(cublasLtMatrixLayout_t of, int32_t count, int64_t stride) {
    CHECK_LT(cublasLtMatrixLayoutSetAttribute(
        of, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
    CHECK_LT(cublasLtMatrixLayoutSetAttribute(
        of, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
        sizeof stride));
  }
  cublasStatus_t matmul(CUdeviceptr a, cublasLtMatrixLayout_t la, CUdeviceptr b,
                        cublasLtMatrixLayout_t lb, CUdeviceptr d,
                        cublasLtMatrixLayout_t ld, float alpha = 1,
                        float beta = 0) {
    auto pointer = [](CUdeviceptr p) { return reinterpret_cast<void *>(p); };
    return cublasLtMatmul(handle, operation, &alpha, pointer(a), la, pointer(b),
                          lb, &beta, pointer(d), ld, pointer(d), ld, nullptr,
                          nullptr, 0, reinterpret_cast<cudaStream_t>(stream));
  }

  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  std::vector<cublasLtMatrixLayout_t> layouts;
};

TEST_F(BlasTest, BatchedTransposedWithScales) {
  constexpr int m = 37, n = 13, k = 29, batches = 3;
  std::vector<float> x = randomFloats(batches * m * k, 1),
                     y = randomFloats(batches * k * n, 2),
                     z = randomFloats(batches * m * n, 3);
  Buffer<float> a(x), b(y), d(z);
  set<int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  // A is k x m and transposed; B is k x n.
  auto la = layout(CUDA_R_32F, k, m, k), lb = layout(CUDA_R_32F, k, n, k),
       ld = layout(CUDA_R_32F, m, n, m);
  batch(la, batches, m * k);
  batch(lb, batches, k * n);
  batch(ld, batches, m * n);
  CHECK_LT(matmul(a.address, la, b.address, lb, d.address, ld, 0.5f, 2.0f));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> out = d.read();
  for (int s = 0; s < batches; ++s)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int q = 0; q < k; ++q)
          sum += double(x[s * m * k + i * k + q]) * y[s * k * n + j * k + q];
        int at = s * m * n + j * m + i;
        EXPECT_NEAR(out[at], 0.5 * sum + 2.0 * z[at], 1e-4);
      }
}

/// What a byte is in E4M3.
float ofE4M3(uint8_t bits) {
  int exponent = bits >> 3 & 15, mantissa = bits & 7;
  double size = exponent ? std::ldexp(8 + mantissa, exponent - 10)
                         : std::ldexp(mantissa, -9);
  return float(bits & 0x80 ? -size : size);
}

/// Numbers of both signs, without NaN.
std::vector<uint8_t> randomBytes(size_t count, unsigned seed) {
  std::vector<uint8_t> bytes;
  for (float x : randomFloats(count, seed))
    bytes.push_back(static_cast<uint8_t>(int(std::fabs(x) * 64) % 0x7f |
                                         (x < 0 ? 0x80 : 0)));
  return bytes;
}

// Column-major A is k x m and transposed, B k x n: k is the last axis of what
// is stored row-major.
TEST_F(BlasTest, EightBitsWithSteps) {
  constexpr int m = 32, n = 16, k = 48;
  std::vector<uint8_t> x = randomBytes(m * k, 1), y = randomBytes(n * k, 2);
  std::vector<float> stepsOfX(m), stepsOfY(n);
  for (int i = 0; i < m; ++i)
    stepsOfX[i] = std::ldexp(1.0f, i % 5 - 9);
  for (int j = 0; j < n; ++j)
    stepsOfY[j] = std::ldexp(1.0f, j % 3 - 4);
  Buffer<uint8_t> a(x), b(y);
  Buffer<float> d(m * n), left(stepsOfX), right(stepsOfY);
  auto la = layout(CUDA_R_8F_E4M3, k, m, k),
       lb = layout(CUDA_R_8F_E4M3, k, n, k), ld = layout(CUDA_R_32F, m, n, m);
  set<int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, left.address);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, right.address);
  for (bool rows : {false, true}) {
    if (rows)
      for (auto mode : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
                        CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
        set<int32_t>(mode, CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    CHECK_LT(matmul(a.address, la, b.address, lb, d.address, ld));
    CHECK_CU(cuStreamSynchronize(stream));
    std::vector<float> out = d.read();
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double sum = 0;
        for (int q = 0; q < k; ++q)
          sum += double(ofE4M3(x[i * k + q])) * ofE4M3(y[j * k + q]);
        sum *= double(stepsOfX[rows ? i : 0]) * stepsOfY[rows ? j : 0];
        EXPECT_NEAR(out[j * m + i], sum, 1e-4 + 1e-5 * std::fabs(sum));
      }
  }
}

TEST_F(BlasTest, EightBitsAreMultipliedInOneLayout) {
  Buffer<uint8_t> a(32 * 32), b(32 * 32);
  Buffer<float> d(32 * 32), step(std::vector<float>(8, 1));
  auto l8 = layout(CUDA_R_8F_E4M3, 32, 32, 32),
       wide = layout(CUDA_R_8F_E5M2, 32, 32, 32),
       ld = layout(CUDA_R_32F, 32, 32, 32);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, step.address);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, step.address);
  auto product = [&](cublasLtMatrixLayout_t la, cublasLtMatrixLayout_t lb,
                     CUdeviceptr from) {
    return matmul(from, la, b.address, lb, d.address, ld);
  };
  EXPECT_EQ(product(l8, l8, a.address), CUBLAS_STATUS_NOT_SUPPORTED); // NN
  set<int32_t>(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  EXPECT_EQ(product(l8, l8, a.address), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product(l8, wide, a.address), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product(wide, wide, a.address), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(product(l8, l8, a.address + 8), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(product(layout(CUDA_R_8F_E4M3, 24, 32, 24),
                    layout(CUDA_R_8F_E4M3, 24, 32, 24), a.address),
            CUBLAS_STATUS_NOT_SUPPORTED);
  // As an H100's library does, scales that lie on 4 or 8 bytes.
  for (size_t offset : {4, 8}) {
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, step.address + offset);
    EXPECT_EQ(product(l8, l8, a.address), CUBLAS_STATUS_NOT_SUPPORTED);
  }
  set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, step.address + 16);
  EXPECT_EQ(product(l8, l8, a.address), CUBLAS_STATUS_SUCCESS);
  set<CUdeviceptr>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 0);
  EXPECT_EQ(product(l8, l8, a.address), CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK_CU(cuStreamSynchronize(stream));
}

double geluOnHost(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST_F(BlasTest, GeluForwardAndBackward) {
  constexpr int m = 16, n = 24, k = 8;
  std::vector<float> x = randomFloats(m * k, 1), y = randomFloats(k * n, 2),
                     v = randomFloats(m, 3);
  Buffer<float> a(x), b(y), bias(v), aux(m * n), d(m * n), gradient(m);
  auto la = layout(CUDA_R_32F, m, k, m), lb = layout(CUDA_R_32F, k, n, k),
       ld = layout(CUDA_R_32F, m, n, m);
  set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.address);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux.address);
  set<int64_t>(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, m);
  CHECK_LT(matmul(a.address, la, b.address, lb, d.address, ld));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> before = aux.read(), out = d.read();
  std::vector<double> product(m * n);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double &sum = product[j * m + i];
      for (int q = 0; q < k; ++q)
        sum += double(x[q * m + i]) * y[j * k + q];
      EXPECT_NEAR(before[j * m + i], sum + v[i], 1e-5);
      EXPECT_NEAR(out[j * m + i], geluOnHost(sum + v[i]), 1e-5);
    }
  set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU_BGRAD);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, gradient.address);
  CHECK_LT(matmul(a.address, la, b.address, lb, d.address, ld));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> back = d.read(), sums = gradient.read();
  for (int i = 0; i < m; ++i) {
    double column = 0;
    for (int j = 0; j < n; ++j) {
      double p = before[j * m + i], h = 1e-5;
      double slope = (geluOnHost(p + h) - geluOnHost(p - h)) / (2 * h);
      EXPECT_NEAR(back[j * m + i], product[j * m + i] * slope, 1e-4);
      column += product[j * m + i] * slope;
    }
    EXPECT_NEAR(sums[i], column, 1e-3);
  }
}

TEST_F(BlasTest, BiasGradientsOfOperands) {
  constexpr int m = 8, n = 16, k = 24;
  std::vector<float> x = randomFloats(m * k, 1), y = randomFloats(k * n, 2);
  Buffer<float> a(x), b(y), d(m * n), ofA(m), ofB(n);
  auto la = layout(CUDA_R_32F, m, k, m), lb = layout(CUDA_R_32F, k, n, k),
       ld = layout(CUDA_R_32F, m, n, m);
  set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADA);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, ofA.address);
  CHECK_LT(matmul(a.address, la, b.address, lb, d.address, ld));
  set<uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, ofB.address);
  CHECK_LT(matmul(a.address, la, b.address, lb, d.address, ld));
  CHECK_CU(cuStreamSynchronize(stream));
  std::vector<float> sumsA = ofA.read(), sumsB = ofB.read();
  for (int i = 0; i < m; ++i) {
    double sum = 0;
    for (int q = 0; q < k; ++q)
      sum += x[q * m + i];
    EXPECT_NEAR(sumsA[i], sum, 1e-4);
  }
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int q = 0; q < k; ++q)
      sum += y[j * k + q];
    EXPECT_NEAR(sumsB[j], sum, 1e-4);
  }
}

TEST_F(BlasTest, Heuristics) {
  auto la = layout(CUDA_R_16BF, 64, 32, 64),
       lb = layout(CUDA_R_16BF, 32, 8, 32), ld = layout(CUDA_R_32F, 64, 8, 64),
       odd = layout(CUDA_R_16BF, 64, 32, 65);
  cublasLtMatmulHeuristicResult_t results[8];
  int found = 0;
  uint64_t workspace = 1 << 20;
  CHECK_LT(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, 8));
  CHECK_LT(cublasLtMatmulAlgoGetHeuristic(handle, operation, la, lb, ld, ld,
                                          preference, 8, results, &found));
  EXPECT_EQ(found, 3);
  std::vector<int32_t> ids;
  for (int i = 0; i < found; ++i) {
    ids.emplace_back();
    size_t written;
    CHECK_LT(cublasLtMatmulAlgoConfigGetAttribute(
        &results[i].algo, CUBLASLT_ALGO_CONFIG_ID, &ids.back(), 4, &written));
    cublasLtMatmulHeuristicResult_t checked;
    CHECK_LT(cublasLtMatmulAlgoCheck(handle, operation, la, lb, ld, ld,
                                     &results[i].algo, &checked));
    EXPECT_EQ(checked.workspaceSize, results[i].workspaceSize);
  }
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_NE(ids[1], ids[2]);
  CHECK_LT(cublasLtMatmulAlgoGetHeuristic(handle, operation, odd, lb, ld, ld,
                                          preference, 8, results, &found));
  EXPECT_EQ(found, 2);
}

TEST_F(BlasTest, Refusals) {
  Buffer<float> a(64), b(64), d(64);
  auto f32 = layout(CUDA_R_32F, 8, 8, 8), bf16 = layout(CUDA_R_16BF, 8, 8, 8),
       f16 = layout(CUDA_R_16F, 8, 8, 8), narrow = layout(CUDA_R_32F, 8, 8, 7);
  std::string text = complaint(
      [&] {
        EXPECT_EQ(matmul(a.address, f16, b.address, bf16, d.address, f32),
                  CUBLAS_STATUS_NOT_SUPPORTED);
        EXPECT_EQ(matmul(a.address, f32, b.address, f32, d.address, bf16),
                  CUBLAS_STATUS_NOT_SUPPORTED);
        EXPECT_EQ(matmul(a.address, narrow, b.address, f32, d.address, f32),
                  CUBLAS_STATUS_INVALID_VALUE);
        return CUDA_SUCCESS;
      },
      CUDA_SUCCESS);
  EXPECT_NE(text.find("A and B have different types"), std::string::npos);
}

TEST_F(BlasTest, OperandBeyondItsAllocation) {
  Buffer<float> a(64), b(63), d(64);
  auto l = layout(CUDA_R_32F, 8, 8, 8);
  std::string text = complaint(
      [&] {
        EXPECT_EQ(matmul(a.address, l, b.address, l, d.address, l),
                  CUBLAS_STATUS_SUCCESS);
        return CUDA_SUCCESS;
      },
      CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(text.find("cublasLtMatmul: B"), std::string::npos) << text;
}

TEST_F(BlasTest, Captured) {
  std::vector<float> ones(64, 1.0f);
  Buffer<float> a(ones), b(ones), d(64);
  auto l = layout(CUDA_R_32F, 8, 8, 8);
  CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CHECK_LT(matmul(a.address, l, b.address, l, d.address, l));
  CUgraph graph;
  CUgraphExec executable;
  CHECK_CU(cuStreamEndCapture(stream, &graph));
  CHECK_CU(cuGraphInstantiate(&executable, graph, 0));
  CHECK_CU(cuGraphDestroy(graph));
  CHECK_CU(cuGraphLaunch(executable, stream));
  CHECK_CU(cuStreamSynchronize(stream));
  for (float value : d.read())
    EXPECT_EQ(value, 8.0f);
  CHECK_CU(cuGraphExecDestroy(executable));
}

} // namespace
