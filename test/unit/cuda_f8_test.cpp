// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// shx_f8_cast and shx_f8_gemm on the (emulated) device: what is cast against
// roundings of doubles, what is multiplied against sums of what was cast.

#include "../../runtime/cuda/plan/GemmPlan.h"
#include "cuda_kernels_util.h"
#include "emulated.h"

using namespace shardonnx::test;
using namespace shardonnx::rt::cuda;

namespace {

struct Format {
  int32_t dtype;
  int mantissa, bias;
  double largest;

  double decode(uint8_t bits) const {
    int exponent = (bits & 0x7f) >> mantissa,
        count = bits & ((1 << mantissa) - 1);
    if (exponent > 0)
      count |= 1 << mantissa;
    double size = std::ldexp(count, std::max(exponent, 1) - bias - mantissa);
    return bits & 0x80 ? -size : size;
  }
  double round(double value) const {
    double size = std::min(std::fabs(value), largest);
    return std::copysign(roundTo(size, mantissa, 1 - bias), value);
  }
};
constexpr Format kE4M3 = {SHX_F8E4M3, 3, 7, 448},
                 kE5M2 = {SHX_F8E5M2, 2, 15, 57344};

// A matrix that lies in 8 bits on the device, with its steps.
class Matrix {
public:
  Matrix(const Format &format, int32_t dtype, int64_t rows, int64_t columns,
         bool rowSteps, std::mt19937 &random)
      : format(format), rows(rows), columns(columns), rowSteps(rowSteps),
        source(dtype, rows * columns), steps(SHX_F32, rowSteps ? rows : 1),
        upright(rows * columns), transposed(rows * columns) {
    source.fillRandom(random);
    for (int64_t i = 0; i < steps.size(); ++i)
      steps.set(i, std::ldexp(1.0, int(random() % 12) - 10));
    onSteps.upload(steps);
  }

  void cast(bool upright, bool transposed) {
    ShxF8Cast desc{};
    desc.rows = rows, desc.columns = columns;
    desc.ldx = columns, desc.ldRows = columns, desc.ldColumns = rows;
    desc.rowStep = rowSteps;
    desc.dtypeX = source.dtype, desc.dtype = format.dtype;
    DeviceBuffer x(source);
    device.call([&] {
      shx_f8_cast(&device.context(), &desc, x.data(), step(),
                  upright ? this->upright.data() : nullptr,
                  transposed ? this->transposed.data() : nullptr);
    });
  }
  double expected(int64_t row, int64_t column) const {
    return format.round(source.get(row * columns + column) / stepOf(row));
  }
  double stepOf(int64_t row) const { return steps.get(rowSteps ? row : 0); }
  const float *step() const { return static_cast<float *>(onSteps.data()); }
  std::vector<double> read(const DeviceBytes &bytes) const {
    std::vector<uint8_t> bits(size_t(bytes.size));
    bytes.download(bits.data());
    EXPECT_TRUE(bytes.intact());
    std::vector<double> values;
    for (uint8_t each : bits)
      values.push_back(format.decode(each));
    return values;
  }

  CudaDevice &device = CudaDevice::get(); // before its memory
  const Format &format;
  int64_t rows, columns;
  bool rowSteps;
  Buffer source, steps;
  DeviceBytes upright, transposed;
  DeviceBuffer onSteps{steps};
};

TEST(CudaF8, CastsAsItIsAndTransposed) {
  std::mt19937 random(1);
  for (const Format &format : {kE4M3, kE5M2})
    for (int32_t dtype : {SHX_F32, SHX_BF16})
      for (bool rowSteps : {false, true}) {
        Matrix x(format, dtype, 80, 144, rowSteps, random);
        x.cast(true, true);
        std::vector<double> upright = x.read(x.upright),
                            transposed = x.read(x.transposed);
        for (int64_t i = 0; i < x.rows; ++i)
          for (int64_t j = 0; j < x.columns; ++j) {
            ASSERT_EQ(upright[size_t(i * x.columns + j)], x.expected(i, j))
                << i << ", " << j;
            ASSERT_EQ(transposed[size_t(j * x.rows + i)], x.expected(i, j))
                << i << ", " << j;
          }
      }
}

// Relative to the sum of the terms' sizes. Of a sum of products of 8 bits
// Hopper's tensor cores keep 14 bits (DeepSeek-V3's report, section 3.5.2).
double fastSums() { return isEmulated() ? 1e-5 : 0x1p-13; }

TEST(CudaF8, MultipliesWithStepsAndAnAddend) {
  std::mt19937 random(2);
  constexpr int64_t m = 48, n = 32, k = 80;
  for (bool rowSteps : {false, true})
    for (int addend : {0, 1, 2}) { // none, a row, a matrix
      Matrix a(kE4M3, SHX_BF16, m, k, rowSteps, random),
          b(rowSteps ? kE4M3 : kE5M2, SHX_BF16, n, k, rowSteps, random);
      a.cast(true, false);
      b.cast(true, false);
      ShxGemm desc{};
      desc.m = m, desc.n = n, desc.k = k;
      desc.lda = desc.ldb = k, desc.ldc = n;
      desc.transB = 1;
      desc.dtypeA = a.format.dtype, desc.dtypeB = b.format.dtype;
      desc.dtypeC = SHX_BF16;
      desc.flags = SHX_GEMM_FAST_SUMS | (rowSteps ? SHX_GEMM_ROW_STEPS : 0);
      desc.epilogue = addend == 1 ? SHX_EPILOGUE_BIAS : SHX_EPILOGUE_NONE;
      Buffer added(SHX_BF16, addend == 1 ? n : m * n), c(SHX_BF16, m * n);
      added.fillRandom(random);
      DeviceBuffer onAdded(added), onC(c);
      DeviceBytes workspace(planGemm(desc).bytes);
      CudaDevice &device = CudaDevice::get();
      device.call([&] {
        shx_f8_gemm(&device.context(), &desc, a.upright.data(),
                    b.upright.data(), a.step(), b.step(), onC.data(),
                    addend ? onAdded.data() : nullptr, workspace.data());
      });
      EXPECT_TRUE(workspace.intact());
      Buffer result = onC.download();
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, size = 0;
          for (int64_t l = 0; l < k; ++l) {
            double term = a.expected(i, l) * b.expected(j, l);
            sum += term, size += std::fabs(term);
          }
          double steps = a.stepOf(i) * b.stepOf(j);
          sum *= steps, size *= steps;
          // Whether the library adds the addend or a kernel does, to what was
          // rounded already, is chosen by their times.
          double rounded = std::max(std::fabs(sum), 1e-3);
          if (addend) {
            sum += added.get(addend == 1 ? j : i * n + j);
            rounded += std::fabs(sum);
          }
          ASSERT_NEAR(result.get(i * n + j), sum,
                      precision(SHX_BF16) * rounded + fastSums() * size);
        }
    }
}

} // namespace
