// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The multiplication itself, in f32, with its epilogue.

#include "Descriptors.h"
#include "driver/Hooks.h"
#include "machine/Float8.h"
#include "machine/Handlers.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

using namespace shardonnx::emulator;

namespace {

/// A batch of column-major matrices on the device.
struct Matrix {
  const Layout &layout;
  char *bytes = nullptr;

  /// False if it is not inside one allocation, or other work uses it.
  bool locate(uint64_t address, bool writes, const char *name) {
    const Layout &l = layout;
    uint64_t size = bytesOf(l.type), rows = l.rows * size;
    uint64_t elements = (l.columns - 1) * static_cast<uint64_t>(l.ld) + l.rows;
    if (l.batch > 1)
      elements +=
          static_cast<uint64_t>(l.stride) * static_cast<uint64_t>(l.batch - 1);
    bytes = static_cast<char *>(
        shardonnxEmulatorTranslate(address, elements * size, name));
    if (!bytes)
      return false;
    // Column by column: what lies between them may be another's.
    for (int32_t batch = 0; batch < l.batch; ++batch)
      for (uint64_t n = 0; n < l.columns; ++n) {
        uint64_t offset = static_cast<uint64_t>(column(n, batch) - bytes);
        if (!shardonnxEmulatorAccess(address + offset, rows, writes, name))
          return false;
      }
    return true;
  }
  char *column(uint64_t n, int32_t batch) const {
    int64_t first = layout.stride * batch + static_cast<int64_t>(n) * layout.ld;
    return bytes + first * static_cast<int64_t>(bytesOf(layout.type));
  }
};

float loadElement(const char *from, uint32_t type, size_t index) {
  if (type == CUDA_R_32F) {
    float value;
    std::memcpy(&value, from + index * 4, 4);
    return value;
  }
  if (isF8(type))
    return (type == CUDA_R_8F_E4M3 ? kE4M3 : kE5M2)
        .toFloat(static_cast<uint8_t>(from[index]));
  uint16_t bits;
  std::memcpy(&bits, from + index * 2, 2);
  return type == CUDA_R_16F ? toFloat(Half{bits}) : toFloat(BFloat{bits});
}

void storeElement(char *to, uint32_t type, size_t index, float value) {
  if (type == CUDA_R_32F) {
    std::memcpy(to + index * 4, &value, 4);
    return;
  }
  uint16_t bits =
      type == CUDA_R_16F ? toHalf(value).bits : toBFloat(value).bits;
  std::memcpy(to + index * 2, &bits, 2);
}

float roundToTensorFloat(float value) {
  uint32_t bits = bitcast<uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u)
    return value;
  return bitcast<float>((bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu);
}

/// op(X) of one batch as f32: result[k * m + i] for A, [n * k + i] for B; both
/// are what the matrix itself is, or its transpose.
std::vector<float> unpack(const Matrix &x, bool transposed, int32_t batch,
                          bool tensorFloat) {
  uint64_t rows = x.layout.rows, columns = x.layout.columns;
  std::vector<float> result(rows * columns);
  for (uint64_t c = 0; c < columns; ++c) {
    const char *from = x.column(c, batch);
    for (uint64_t r = 0; r < rows; ++r) {
      float value = loadElement(from, x.layout.type, r);
      if (tensorFloat)
        value = roundToTensorFloat(value);
      result[transposed ? r * columns + c : c * rows + r] = value;
    }
  }
  return result;
}

constexpr uint64_t kRowBlock = 32, kColumnBlock = 4;

/// sums[j][i] = sum over k of a[k][i] b[j][k] for a block of rows and columns.
void multiplyBlock(const float *a, const float *b, uint64_t m, uint64_t k,
                   uint64_t rows, uint64_t columns,
                   float (&sums)[kColumnBlock][kRowBlock]) {
  std::memset(sums, 0, sizeof sums);
  if (rows == kRowBlock && columns == kColumnBlock) {
    for (uint64_t x = 0; x < k; ++x)
      for (uint64_t j = 0; j < kColumnBlock; ++j)
        for (uint64_t i = 0; i < kRowBlock; ++i)
          sums[j][i] = std::fma(a[x * m + i], b[j * k + x], sums[j][i]);
    return;
  }
  for (uint64_t x = 0; x < k; ++x)
    for (uint64_t j = 0; j < columns; ++j)
      for (uint64_t i = 0; i < rows; ++i)
        sums[j][i] = std::fma(a[x * m + i], b[j * k + x], sums[j][i]);
}

float gelu(float x) {
  float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1 + std::tanh(inner));
}

float geluGradient(float x) {
  const float c = 0.7978845608028654f;
  float t = std::tanh(c * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) +
         0.5f * x * (1 - t * t) * c * (1 + 3 * 0.044715f * x * x);
}

class Run {
public:
  explicit Run(const Multiplication &m)
      : m(m), o(m.operation), a{m.a}, b{m.b}, c{m.c}, d{m.d} {}

  bool run() {
    if (!locate())
      return false;
    // What lies there is lost, as with the real one.
    if (size_t bytes = workspaceOf(m.algorithm, m.d)) {
      void *room = shardonnxEmulatorAccess(m.workspace, bytes, 1,
                                           "cublasLtMatmul: workspace");
      if (!room)
        return false;
      std::memset(room, 0xff, bytes);
    }
    for (int32_t batch = 0; batch < m.d.batch; ++batch)
      runBatch(batch);
    return true;
  }

private:
  bool locate() {
    if (!a.locate(m.pa, false, "cublasLtMatmul: A") ||
        !b.locate(m.pb, false, "cublasLtMatmul: B") ||
        !d.locate(m.pd, true, "cublasLtMatmul: D") ||
        (m.beta != 0 && !c.locate(m.pc, false, "cublasLtMatmul: C")))
      return false;
    if (hasBias(o.epilogue) || hasBiasGradient(o.epilogue)) {
      uint64_t count =
          o.epilogue == CUBLASLT_EPILOGUE_BGRADB ? m.d.columns : m.d.rows;
      count += static_cast<uint64_t>(o.biasStride * (m.d.batch - 1));
      bias = static_cast<char *>(shardonnxEmulatorAccess(
          reinterpret_cast<CUdeviceptr>(o.bias), count * bytesOf(m.d.type),
          hasBiasGradient(o.epilogue), "cublasLtMatmul: bias"));
      if (!bias)
        return false;
    }
    if (isF8(m.a.type)) {
      bool rows = o.stepModeA == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
      stepStride = rows;
      stepsA = steps(o.stepA, rows ? m.d.rows : 1, "cublasLtMatmul: A's scale");
      stepsB =
          steps(o.stepB, rows ? m.d.columns : 1, "cublasLtMatmul: B's scale");
      if (!stepsA || !stepsB)
        return false;
    }
    if (hasAux(o.epilogue)) {
      uint64_t count =
          (m.d.columns - 1) * static_cast<uint64_t>(o.auxLd) + m.d.rows;
      aux = static_cast<char *>(shardonnxEmulatorAccess(
          reinterpret_cast<CUdeviceptr>(o.aux), count * bytesOf(m.d.type),
          isGelu(o.epilogue), "cublasLtMatmul: aux"));
      if (!aux)
        return false;
    }
    return true;
  }

  static const float *steps(const float *at, uint64_t count, const char *name) {
    return static_cast<const float *>(shardonnxEmulatorAccess(
        reinterpret_cast<CUdeviceptr>(at), count * sizeof(float), 0, name));
  }

  void runBatch(int32_t batch) {
    bool tensorFloat = o.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    bool transA = o.transA != CUBLAS_OP_N, transB = o.transB != CUBLAS_OP_N;
    uint64_t rows = m.d.rows, columns = m.d.columns;
    uint64_t k = transA ? m.a.rows : m.a.columns;
    std::vector<float> left = unpack(a, transA, batch, tensorFloat);
    std::vector<float> right = unpack(b, transB, batch, tensorFloat);
    gradient.assign(
        hasBiasGradient(o.epilogue) && o.epilogue & 16 ? rows * columns : 0,
        0.0f);
    uint64_t panels = (columns + kColumnBlock - 1) / kColumnBlock;
    std::function<void(uint64_t)> panel = [&](uint64_t p) {
      float sums[kColumnBlock][kRowBlock];
      uint64_t first = p * kColumnBlock;
      uint64_t width = std::min(kColumnBlock, columns - first);
      for (uint64_t i = 0; i < rows; i += kRowBlock) {
        uint64_t height = std::min(kRowBlock, rows - i);
        multiplyBlock(left.data() + i, right.data() + first * k, rows, k,
                      height, width, sums);
        for (uint64_t j = 0; j < width; ++j)
          finish(batch, i, first + j, height, sums[j]);
      }
    };
    shardonnxEmulatorParallel(
        panels,
        [](void *f, uint64_t p) {
          (*static_cast<std::function<void(uint64_t)> *>(f))(p);
        },
        &panel);
    reduceGradient(left, right, k);
  }

  /// Scales, adds C, applies the epilogue, stores.
  void finish(int32_t batch, uint64_t row, uint64_t column, uint64_t height,
              float *sums) {
    uint32_t type = m.d.type;
    for (uint64_t i = 0; i < height; ++i) {
      uint64_t r = row + i;
      float value = m.alpha * sums[i];
      if (stepsA)
        value *= stepsA[r * stepStride] * stepsB[column * stepStride];
      if (m.beta != 0)
        value += m.beta * loadElement(c.column(column, batch), type, r);
      if (hasBias(o.epilogue))
        value += loadElement(bias, type,
                             r + static_cast<uint64_t>(o.biasStride * batch));
      uint64_t at = column * static_cast<uint64_t>(o.auxLd) + r;
      if (isGelu(o.epilogue)) {
        if (hasAux(o.epilogue))
          storeElement(aux, type, at, value);
        value = gelu(value);
      } else if (hasAux(o.epilogue)) {
        value *= geluGradient(loadElement(aux, type, at));
      } else if (o.epilogue & CUBLASLT_EPILOGUE_RELU) {
        value = std::max(value, 0.0f);
      }
      if (!gradient.empty())
        gradient[column * m.d.rows + r] = value;
      storeElement(d.column(column, batch), type, r, value);
    }
  }

  void reduceGradient(const std::vector<float> &left,
                      const std::vector<float> &right, uint64_t k) {
    if (!hasBiasGradient(o.epilogue))
      return;
    bool ofB = o.epilogue == CUBLASLT_EPILOGUE_BGRADB;
    bool ofA = o.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    uint64_t rows = m.d.rows, count = ofB ? m.d.columns : rows;
    for (uint64_t i = 0; i < count; ++i) {
      float sum = 0;
      if (ofB)
        for (uint64_t x = 0; x < k; ++x)
          sum += right[i * k + x];
      else
        for (uint64_t x = 0; x < (ofA ? k : m.d.columns); ++x)
          sum += ofA ? left[x * rows + i] : gradient[x * rows + i];
      storeElement(bias, m.d.type, i, sum);
    }
  }

  const Multiplication &m;
  const Operation &o;
  Matrix a, b, c, d;
  char *bias = nullptr, *aux = nullptr;
  const float *stepsA = nullptr, *stepsB = nullptr;
  uint64_t stepStride = 0;
  std::vector<float> gradient;
};

} // namespace

bool shardonnx::emulator::multiply(const Multiplication &m) {
  return Run(m).run();
}
