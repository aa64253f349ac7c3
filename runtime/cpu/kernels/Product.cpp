// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chunk by chunk, the pool packs both operands and then computes blocks of C,
// each of them by one thread from its first depth to its last. What is
// multiplied by few lines, as an activation by an adapter, is read where it
// lies: packing would take as long as the product. So are rows of A wherever
// the kernels say that they gain nothing by packing, and beside columns of A,
// which are packed, rows of B.

#include "Product.h"
#include "Matrix.h"
#include <numeric>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// The largest block of C that a task computes: with the panels of its rows for
// one block of depth it fits into a core's own cache, of 512 KiB or of more.
constexpr int64_t kBlockRows = 128, kBlockColumns = 192;
constexpr int64_t kWideCache = 1 << 20;

bool hasWideCache() {
  static const bool wide = sysconf(_SC_LEVEL2_CACHE_SIZE) >= kWideCache;
  return wide;
}

// Parts of a block that may be the last one of a thread.
constexpr int64_t kLastParts = 4;

// Whether a panel of B stays in a core's own cache where it lies: rows a stride
// of large powers of two apart take each other's places.
bool staysInCache(int64_t rows, int64_t stride) {
  static const int64_t ways = sysconf(_SC_LEVEL2_CACHE_ASSOC),
                       line = sysconf(_SC_LEVEL2_CACHE_LINESIZE),
                       bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (ways <= 0 || line <= 0 || bytes <= 0)
    return false;
  int64_t sets = bytes / (ways * line);
  int64_t apart = stride * int64_t(sizeof(float)) / line;
  return sets / std::gcd(apart, sets) * ways >= 2 * rows;
}

// Up to so many terms, C costs more than its sums do.
constexpr int64_t kFewTerms = 64, kLongRow = 768, kStripRows = 64;

// Up to so many rows of A, B is not worth packing.
constexpr int64_t kFewRows = 48;

// Lines that a task packs.
constexpr int64_t kPackRows = 64, kPackColumns = kChunkLines;

class ProductRun {
public:
  ProductRun(const Product &product, const ProductKernels &kernels,
             void *workspace)
      : p(product), kernels(kernels),
        plan(planProduct(p.m, p.n, p.k, p.cDtype)),
        memory(static_cast<char *>(workspace)) {
    auto mayLie = [&](const ProductOperand &operand) {
      return kernels.multiplyStrided &&
             floatBytes(operand.dtype) == kernels.elementBytes;
    };
    bool rows = mayLie(p.a) && p.a.depthStride == 1 &&
                p.a.lineStride % kernels.depthStep == 0 &&
                p.k % kernels.depthStep == 0;
    leftLies = rows && p.n <= kernels.columns;
    // A vector of B has no end in it, and no pairs of two rows. Where A is
    // packed, packing B as well is what waits for memory.
    int64_t deep = evenPart(plan.depth, kernels.depthBlock, kDepthStep);
    rightLies = !leftLies && mayLie(p.b) && p.b.lineStride == 1 &&
                kernels.depthStep == 1 && p.n % kernels.vector == 0 &&
                (p.m <= kFewRows || (!rows && kernels.rowsLie &&
                                     staysInCache(deep, p.b.depthStride)));
    leftLies |= rows && !rightLies && kernels.rowsLie;
    // Rows that are not packed take no room.
    chunkRows = leftLies && p.cDtype == SHX_F32 ? p.m : plan.rows;
  }

  void run() {
    for (column = 0; column < p.n; column += plan.columns)
      for (row = 0; row < p.m; row += chunkRows)
        for (depth = 0; depth < p.k; depth += plan.depth)
          visitChunk();
  }

private:
  void visitChunk() {
    rows = least(chunkRows, p.m - row);
    columns = least(plan.columns, p.n - column);
    depths = least(plan.depth, p.k - depth);
    step = evenPart(depths, kernels.depthBlock, kDepthStep);
    pack();
    chooseBlocks();
    visitBlocks();
  }

  // The last blocks go by parts of their rows, so that the threads end at
  // nearly the same time.
  void visitBlocks() const {
    int64_t across = ceilDiv(columns, blockColumns);
    int64_t blocks = across * ceilDiv(rows, blockRows);
    int64_t threads = freeThreads();
    int64_t cut = threads > 1 ? least(blocks, threads) : 0;
    int64_t part = wholeSteps(ceilDiv(blockRows, kLastParts), kernels.rows);
    int64_t parts = ceilDiv(blockRows, part), whole = blocks - cut;
    auto visit = [&](int64_t block, int64_t from, int64_t most) {
      int64_t top = block / across * blockRows + from;
      int64_t bottom = least(block / across * blockRows + blockRows, rows);
      if (top < bottom)
        visitBlock(top, block % across * blockColumns,
                   least(most, bottom - top));
    };
    parallelTasks(whole + cut * parts, [&](int64_t task) {
      if (task < whole)
        return visit(task, 0, blockRows);
      visit(whole + (task - whole) / parts, (task - whole) % parts * part,
            part);
    });
  }

  // Where the panels of a block of depth are: those of all lines follow each
  // other, so that a core reads the panels of its own lines in one go.
  int64_t panelBytes(int64_t first, int64_t panelLines) const {
    int64_t depth = wholeSteps(least(step, depths - first), kernels.depthStep);
    return depth * panelLines * kernels.elementBytes;
  }
  int64_t panelAt(int64_t first, int64_t line, int64_t lines,
                  int64_t panelLines) const {
    return first * wholeSteps(lines, panelLines) * kernels.elementBytes +
           line / panelLines * panelBytes(first, panelLines);
  }

  // B stays packed from one chunk of rows to the next.
  void pack() {
    bool stays = plan.depth >= p.k && row > 0;
    int64_t left = leftLies ? 0 : ceilDiv(rows, kPackRows);
    int64_t right = stays || rightLies ? 0 : ceilDiv(columns, kPackColumns);
    parallelTasks(left + right, [&](int64_t task) {
      if (task < left)
        packLines(kernels.packA, p.a, row, task * kPackRows, kPackRows, rows,
                  memory, kernels.rows);
      else
        packLines(kernels.packB, p.b, column, (task - left) * kPackColumns,
                  kPackColumns, columns, memory + plan.b, kernels.columns);
    });
  }

  // Lines [line, line + most) of `lines` of the chunk that begins at `chunk`.
  template <typename Pack>
  void packLines(Pack packPanels, ProductOperand operand, int64_t chunk,
                 int64_t line, int64_t most, int64_t lines, char *to,
                 int64_t panelLines) const {
    const void *data = operand.data;
    for (int64_t k = 0; k < depths; k += step) {
      operand.data = floatAt(operand.dtype, data,
                             (chunk + line) * operand.lineStride +
                                 (depth + k) * operand.depthStride);
      packPanels(operand, least(most, lines - line), least(step, depths - k),
                 to + panelAt(k, line, lines, panelLines),
                 panelBytes(k, panelLines));
    }
  }

  // Enough blocks to keep all threads at work to the end.
  void chooseBlocks() {
    // Sums of few terms take as long as C takes to come and go: by strips of
    // long rows, which the CPU fetches ahead.
    if (p.k <= kFewTerms && p.cDtype == SHX_F32 && columns > kLongRow) {
      blockRows = kStripRows;
      blockColumns = columns;
      return;
    }
    int64_t threads = freeThreads();
    auto few = [&] {
      return threads > 1 &&
             ceilDiv(rows, blockRows) * ceilDiv(columns, blockColumns) <
                 4 * threads;
    };
    // Sums that are narrowed have a block on the stack.
    int64_t times = p.cDtype == SHX_F32 && hasWideCache() ? 2 : 1;
    blockRows = times * kBlockRows;
    blockColumns = times * kBlockColumns;
    while (few() && blockRows > 32)
      blockRows /= 2;
    while (few() && blockColumns > 96)
      blockColumns /= 2;
  }

  void visitBlock(int64_t firstRow, int64_t firstColumn, int64_t height) const {
    int64_t width = least(blockColumns, columns - firstColumn);
    alignas(64) float block[kBlockRows * kBlockColumns];
    bool first = depth == 0, last = depth + depths == p.k;
    bool direct = p.cDtype == SHX_F32;
    void *c = floatAt(p.cDtype, p.c,
                      (row + firstRow) * p.cStride + column + firstColumn);
    float *sums = block;
    int64_t stride = width;
    if (direct) {
      sums = static_cast<float *>(c);
      stride = p.cStride;
    } else if (plan.depth < p.k) {
      stride = plan.columns;
      sums = reinterpret_cast<float *>(memory + plan.sums) + firstRow * stride +
             firstColumn;
    }
    if (first && p.accumulate && !direct)
      for (int64_t i = 0; i < height; ++i)
        rt::kernels().widen(p.cDtype, floatAt(p.cDtype, c, i * p.cStride),
                            sums + i * stride, width);
    multiplyBlock(firstRow, firstColumn, height, width, sums, stride,
                  !first || p.accumulate);
    if (last && !direct)
      for (int64_t i = 0; i < height; ++i)
        rt::kernels().narrow(p.cDtype, sums + i * stride,
                             floatAt(p.cDtype, c, i * p.cStride), width);
  }

  void multiplyBlock(int64_t firstRow, int64_t firstColumn, int64_t height,
                     int64_t width, float *sums, int64_t stride,
                     bool add) const {
    for (int64_t k = 0; k < depths; k += step) {
      int64_t deep = least(step, depths - k);
      const char *a = memory + panelAt(k, firstRow, rows, kernels.rows);
      for (int64_t j = 0; j < width; j += kernels.columns) {
        int64_t wide = least(kernels.columns, width - j);
        if (leftLies || rightLies)
          kernels.multiplyStrided(height, wide, deep,
                                  stridedAt(k, firstRow, firstColumn + j),
                                  sums + j, stride, add || k > 0);
        else
          kernels.multiply(height, wide, deep, a, panelBytes(k, kernels.rows),
                           packedColumns(k, firstColumn + j), sums + j, stride,
                           add || k > 0);
      }
    }
  }

  const char *packedColumns(int64_t k, int64_t first) const {
    return memory + plan.b + panelAt(k, first, columns, kernels.columns);
  }

  // Of a product that reads one operand where it lies.
  StridedOperands stridedAt(int64_t k, int64_t firstRow,
                            int64_t firstColumn) const {
    auto operandAt = [&](const ProductOperand &operand, int64_t line) {
      return static_cast<const float *>(floatAt(
          operand.dtype, operand.data,
          line * operand.lineStride + (depth + k) * operand.depthStride));
    };
    StridedOperands from{};
    if (leftLies) {
      from.a = operandAt(p.a, row + firstRow);
      from.aLine = p.a.lineStride / kernels.depthStep;
      from.aDepth = 1;
      from.aTile = kernels.rows * from.aLine;
    } else {
      from.a = reinterpret_cast<const float *>(
          memory + panelAt(k, firstRow, rows, kernels.rows));
      from.aLine = 1;
      from.aDepth = kernels.rows;
      from.aTile = panelBytes(k, kernels.rows) / int64_t(sizeof(float));
    }
    if (rightLies) {
      from.b = operandAt(p.b, column + firstColumn);
      from.bDepth = p.b.depthStride;
    } else {
      from.b = reinterpret_cast<const float *>(packedColumns(k, firstColumn));
      from.bDepth = kernels.columns;
    }
    return from;
  }

  const Product &p;
  const ProductKernels &kernels;
  const ProductPlan plan;
  char *memory;
  bool leftLies = false, rightLies = false;  // is not packed
  int64_t chunkRows;                         // of a whole chunk
  int64_t row = 0, column = 0, depth = 0;    // where the chunk begins
  int64_t rows = 0, columns = 0, depths = 0; // of the chunk
  int64_t step = 0; // of depth, which a tile multiplies in one go
  int64_t blockRows = 0, blockColumns = 0;
};

// A gradient of an adapter sums columns of A: its transpose has few rows, whose
// other operand is read where it lies, in whole vectors. The sums lie behind
// the panels of those rows, where panels of A would have been.
class TransposedRun {
public:
  TransposedRun(const Product &product, const ProductKernels &kernels,
                void *workspace)
      : p(product), kernels(kernels), memory(static_cast<char *>(workspace)) {}

  bool pays() const {
    return kernels.multiplyStrided && kernels.depthStep == 1 &&
           p.n <= kernels.columns && p.m > kernels.columns &&
           p.a.dtype == SHX_F32 && p.cDtype == SHX_F32 &&
           p.a.depthStride != 1 && p.m % kernels.vector == 0 && hasRoom();
  }

  void run() const {
    auto *c = static_cast<float *>(p.c);
    auto *sums = reinterpret_cast<float *>(memory + sumsAt());
    auto inParts = [&](auto transposeRows) {
      parallelRange(p.m, kPackRows, [&](int64_t begin, int64_t end) {
        transposeRows(c + begin * p.cStride, sums + begin, end - begin);
      });
    };
    if (p.accumulate)
      inParts([&](float *to, float *sum, int64_t rows) {
        rt::kernels().transpose(rows, p.n, to, p.cStride, sum, p.m);
      });
    Product turned{};
    turned.m = p.n;
    turned.n = p.m;
    turned.k = p.k;
    turned.a = p.b;
    turned.b = p.a;
    turned.c = sums;
    turned.cStride = p.m;
    turned.accumulate = p.accumulate;
    ProductRun(turned, kernels, memory).run();
    inParts([&](float *to, float *sum, int64_t rows) {
      rt::kernels().transpose(p.n, rows, sum, p.m, to, p.cStride);
    });
  }

private:
  int64_t sumsAt() const { return planProduct(p.n, p.m, p.k, SHX_F32).b; }
  bool hasRoom() const {
    return sumsAt() + p.m * p.n * int64_t(sizeof(float)) <=
           planProduct(p.m, p.n, p.k, p.cDtype).bytes;
  }

  const Product &p;
  const ProductKernels &kernels;
  char *memory;
};

// A product of no depth is zero.
void clear(const Product &p) {
  if (!p.accumulate)
    for (int64_t i = 0; i < p.m; ++i)
      __builtin_memset(floatAt(p.cDtype, p.c, i * p.cStride), 0,
                       size_t(p.n * floatBytes(p.cDtype)));
}

} // namespace

ProductOperand leftOperand(int32_t dtype, const void *data, int64_t stride,
                           bool transposed) {
  return {data, dtype, transposed ? 1 : stride, transposed ? stride : 1};
}

ProductOperand rightOperand(int32_t dtype, const void *data, int64_t stride,
                            bool transposed) {
  return leftOperand(dtype, data, stride, !transposed);
}

void multiply(const Product &p, void *workspace) {
  if (p.m <= 0 || p.n <= 0)
    return;
  if (p.k <= 0)
    return clear(p);
  auto fits = [&](int32_t dtype) {
    return dtype == SHX_BF16 || (p.mayRound && dtype == SHX_F32);
  };
  bool bf16 = p.a.dtype == SHX_BF16 || p.b.dtype == SHX_BF16;
  bool pairs = bf16 && fits(p.a.dtype) && fits(p.b.dtype);
  const Kernels &table = kernels();
  const ProductKernels &loops =
      pairs && table.bf16Product ? *table.bf16Product : *table.f32Product;
  TransposedRun transposed(p, loops, workspace);
  if (transposed.pays())
    return transposed.run();
  ProductRun(p, loops, workspace).run();
}

} // namespace shardonnx::rt
