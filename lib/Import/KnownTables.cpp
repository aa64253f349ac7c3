// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See KnownTables.h. Of weights that are large, a first part is read, which
// tells: files of zeros stand for terabytes of them.

#include "KnownTables.h"

#include "InitializerTable.h"
#include "Types.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace shardonnx {
namespace {

/// Elements that are read of an array to see what it is.
constexpr int64_t kFirst = 1 << 14;

/// What hides a score: as small as this, or smaller. It is -1e4 in bf16.
constexpr float kHiding = -9984;

/// The bytes of elements as numbers.
std::vector<float> numbersOf(StringRef bytes, Type element) {
  std::vector<float> numbers;
  size_t width = element.getIntOrFloatBitWidth() / 8;
  const llvm::fltSemantics &kind = cast<FloatType>(element).getFloatSemantics();
  for (; bytes.size() >= width; bytes = bytes.drop_front(width)) {
    uint64_t bits = 0;
    std::memcpy(&bits, bytes.data(), width);
    float number;
    if (element.isF32()) {
      std::memcpy(&number, bytes.data(), sizeof number);
    } else {
      llvm::APFloat value(kind, llvm::APInt(unsigned(width) * 8, bits));
      bool inexact;
      value.convert(llvm::APFloat::IEEEsingle(),
                    llvm::APFloat::rmNearestTiesToEven, &inexact);
      number = value.convertToFloat();
    }
    numbers.push_back(number);
  }
  return numbers;
}

/// `count` elements from number `from` on; nothing where they cannot be read.
std::vector<float> read(const Initializer &init, StringRef modelPath,
                        int64_t from, int64_t count) {
  Type element = init.type.getElementType();
  if (!isa<FloatType>(element) || init.length == 0)
    return {};
  uint64_t width = element.getIntOrFloatBitWidth() / 8;
  Initializer part = init;
  part.offset += uint64_t(from) * width;
  InputBytes bytes = readFirstBytes(part, modelPath, uint64_t(count) * width);
  if (!bytes || (*bytes)->getBufferSize() != uint64_t(count) * width)
    return {};
  return numbersOf((*bytes)->getBuffer(), element);
}

/// The sizes that are not 1.
SmallVector<int64_t> wideAxes(const Initializer &init) {
  SmallVector<int64_t> sizes(init.type.getShape());
  llvm::erase(sizes, 1);
  return llvm::is_contained(sizes, 0) ? SmallVector<int64_t>() : sizes;
}

/// Half a unit in the last place of 1, and some.
double roundingOf(Type element) {
  return element.isBF16() ? 8e-3 : element.isF16() ? 1e-3 : 3e-6;
}

/// Which of the numbers of a mask there are.
struct MaskParts {
  bool zeros = false, ones = false, hiding = false, others = false;

  void add(ArrayRef<float> numbers) {
    for (float number : numbers) {
      zeros |= number == 0;
      ones |= number == 1;
      hiding |= number <= kHiding;
      others |= number != 0 && number != 1 && !(number <= kHiding);
    }
  }
  bool isMask() const { return zeros && ones != hiding && !others; }
};

} // namespace

bool isMask(const Initializer &init, StringRef modelPath) {
  if (wideAxes(init).size() < 2)
    return false;
  MaskParts parts;
  int64_t count = init.type.getNumElements();
  // It has both in its first part, if it is one.
  for (int64_t from = 0; from < count; from += kFirst) {
    std::vector<float> numbers =
        read(init, modelPath, from, std::min(kFirst, count - from));
    parts.add(numbers);
    if (numbers.empty() || !parts.isMask())
      return false;
  }
  return parts.isMask();
}

namespace {

/// The rows of a table, numbers of which a column is tested by.
class Table {
public:
  Table(std::vector<float> numbers, int64_t width)
      : numbers(std::move(numbers)), width(width),
        rows(int64_t(this->numbers.size()) / width) {
    for (int64_t row = 0; row < rows; ++row)
      empty.push_back(
          llvm::all_of(ArrayRef<float>(this->numbers).slice(row * width, width),
                       [](float number) { return number == 0; }));
  }

  bool isWaves(double rounding) const;

private:
  double at(int64_t row, int64_t column) const {
    return numbers[row * width + column];
  }
  /// Rows whose neighbours count as they do.
  bool counts(int64_t row) const {
    return !empty[row - 1] && !empty[row] && !empty[row + 1];
  }
  /// Whether x[t-1] + x[t+1] = 2 cos(w) x[t] in a column, as of sin(w t + p);
  /// `amplitude` where w is large enough to say it, else 0.
  bool isWave(int64_t column, double error, double &amplitude) const;

  std::vector<float> numbers;
  int64_t width, rows;
  std::vector<bool> empty;
};

} // namespace

bool Table::isWave(int64_t column, double error, double &amplitude) const {
  double products = 0, squares = 0;
  for (int64_t t = 1; t + 1 < rows; ++t)
    if (counts(t)) {
      products += at(t, column) * (at(t - 1, column) + at(t + 1, column));
      squares += at(t, column) * at(t, column);
    }
  double twice = squares > 0 ? products / squares : 2;
  amplitude = 0;
  if (!(std::abs(twice) < 2 + error))
    return false;
  double sum = 0;
  int64_t count = 0;
  for (int64_t t = 1; t + 1 < rows; ++t) {
    if (!counts(t))
      continue;
    double x = at(t, column), next = at(t + 1, column);
    if (!(std::abs(at(t - 1, column) + next - twice * x) < error))
      return false;
    sum += x * x + next * next - twice * x * next;
    ++count;
  }
  if (std::abs(twice) < 1.99)
    amplitude = std::sqrt(sum / double(count) / (1 - twice * twice / 4));
  return count >= 4;
}

/// A column or more is fast enough to have an amplitude, which all keep to.
bool Table::isWaves(double rounding) const {
  double largest = 0;
  for (float number : numbers)
    largest = std::max(largest, double(std::abs(number)));
  if (!(largest > 0) || !std::isfinite(largest))
    return false;
  double least = largest * 2, most = 0;
  unsigned fast = 0;
  for (int64_t column = 0; column < width; ++column) {
    double amplitude;
    if (!isWave(column, 8 * rounding * largest, amplitude))
      return false;
    if (amplitude == 0)
      continue;
    ++fast;
    least = std::min(least, amplitude);
    most = std::max(most, amplitude);
  }
  return fast > 0 && most - least < 0.01 * most + 40 * rounding * largest &&
         largest < 1.02 * most;
}

bool isWaves(const Initializer &init, StringRef modelPath) {
  SmallVector<int64_t> sizes = wideAxes(init);
  if (sizes.size() < 2 || !isa<FloatType>(init.type.getElementType()))
    return false;
  int64_t width = init.type.getNumElements() / sizes.front();
  // One that is wider is none of positions.
  if (sizes.front() < 6 || width > 1 << 16)
    return false;
  // A few rows, which deny it of what is drawn, before more.
  return llvm::all_of(ArrayRef<int64_t>{8, 48}, [&](int64_t most) {
    int64_t rows = std::min(sizes.front(), most);
    std::vector<float> numbers = read(init, modelPath, 0, rows * width);
    return !numbers.empty() &&
           Table(std::move(numbers), width)
               .isWaves(roundingOf(init.type.getElementType()));
  });
}

namespace {

/// ALiBi's factor of a head, as its authors' code makes it where the number of
/// heads is no power of two, too.
double slopeOf(int64_t head, int64_t heads) {
  int64_t power = int64_t(llvm::bit_floor(uint64_t(heads)));
  return head < power ? std::exp2(-8.0 * double(head + 1) / double(power))
                      : std::exp2(-8.0 * double(2 * (head - power) + 1) /
                                  double(2 * power));
}

/// Of one sign.
bool areSlopes(ArrayRef<double> numbers, double rounding) {
  double sign = numbers.front() < 0 ? -1 : 1;
  for (auto [i, number] : llvm::enumerate(numbers)) {
    double slope = slopeOf(int64_t(i), int64_t(numbers.size()));
    if (!(std::abs(sign * number - slope) <= rounding * slope))
      return false;
  }
  return numbers.size() > 1;
}

/// The first numbers from 0 or 1 on, of as many as are no chance.
bool areCounted(ArrayRef<float> numbers) {
  float first = numbers.front();
  for (auto [i, number] : llvm::enumerate(numbers))
    if (number != first + float(i))
      return false;
  return (first == 0 || first == 1) && numbers.size() >= 8;
}

/// Rows of j - i, i - j, or one of them without its sign.
bool areDistances(ArrayRef<float> numbers, int64_t width) {
  bool plain[2] = {true, true}, positive[2] = {true, true};
  for (auto [i, number] : llvm::enumerate(numbers)) {
    float distance = float(int64_t(i) % width) - float(int64_t(i) / width);
    for (int k = 0; k < 2; ++k) {
      float sign = k ? -1 : 1;
      plain[k] &= number == sign * distance;
      positive[k] &= number == sign * std::abs(distance);
    }
  }
  return plain[0] || plain[1] || positive[0] || positive[1];
}

/// The step between elements of a row; nothing where it is not one.
std::optional<double> stepOf(ArrayRef<float> row, double rounding) {
  double step = double(row[row.size() - 1]) - double(row[0]);
  step /= double(row.size() - 1);
  for (auto [i, number] : llvm::enumerate(row))
    if (!(std::abs(double(number) - double(row[0]) - double(i) * step) <=
          rounding * (1 + std::abs(step) * double(row.size()))))
      return std::nullopt;
  return step;
}

} // namespace

bool isPositions(const Initializer &init, StringRef modelPath) {
  SmallVector<int64_t> sizes = wideAxes(init);
  if (sizes.empty() || !isa<FloatType>(init.type.getElementType()))
    return false;
  double rounding = roundingOf(init.type.getElementType());
  int64_t count = init.type.getNumElements(), last = sizes.back(),
          heads = sizes.front();
  constexpr int64_t kHeads = 1024;
  if (sizes.size() == 1) {
    // As position_ids are; a vector may be a parameter that starts so.
    bool isRow = init.type.getRank() == 2 && init.type.getDimSize(0) == 1;
    std::vector<float> numbers =
        read(init, modelPath, 0, std::min(count, kFirst));
    return !numbers.empty() &&
           ((isRow && areCounted(numbers)) ||
            (count <= kHeads &&
             areSlopes(llvm::to_vector_of<double>(numbers), rounding)));
  }
  if (last < 8)
    return false;
  if (sizes.size() == 2 && heads >= 8) {
    std::vector<float> numbers =
        read(init, modelPath, 0, std::min(count, kFirst));
    if (!numbers.empty() && areDistances(numbers, last))
      return true;
  }
  if (heads > kHeads || !init.type.getElementType().isF32())
    return false;
  // The last row of each head, which a causal mask hides nothing of.
  SmallVector<double> steps;
  for (int64_t head = 0; head < heads; ++head) {
    int64_t length = std::min<int64_t>(last, 64);
    std::vector<float> row =
        read(init, modelPath, (head + 1) * (count / heads) - last, length);
    std::optional<double> step =
        row.empty() ? std::nullopt : stepOf(row, rounding);
    if (!step)
      return false;
    steps.push_back(*step);
  }
  return areSlopes(steps, 64 * rounding);
}

} // namespace shardonnx
