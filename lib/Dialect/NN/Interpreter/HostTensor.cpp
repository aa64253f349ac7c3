// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strided views and broadcast computation on tensors of known value.

#include "shardonnx/Dialect/NN/Interpreter/HostTensor.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <utility>

using namespace mlir;

namespace shardonnx::nn {

/// What one tensor may take while it is computed here.
static constexpr int64_t maxCodes = int64_t(1) << 28;
static constexpr int64_t maxValues = int64_t(1) << 25;

/// At most INT64_MAX.
static int64_t product(ArrayRef<int64_t> dims) {
  int64_t result = 1;
  for (int64_t dim : dims)
    if (llvm::MulOverflow(result, dim, result))
      return llvm::is_contained(dims, 0) ? 0 : INT64_MAX;
  return result;
}

static HostTensor::Dims rowMajor(ArrayRef<int64_t> shape) {
  HostTensor::Dims strides(shape.size(), 0);
  int64_t step = 1;
  for (int64_t i = static_cast<int64_t>(shape.size()) - 1; i >= 0; --i) {
    strides[i] = shape[i] == 1 ? 0 : step;
    step = product({step, shape[i]});
  }
  return strides;
}

/// Calls `body` with the position of every element in row-major order.
template <typename Body>
static void forEachPosition(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                            int64_t offset, Body body) {
  int64_t count = product(shape);
  HostTensor::Dims index(shape.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    body(offset);
    for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0;
         --axis) {
      offset += strides[axis];
      if (++index[axis] < shape[axis])
        break;
      offset -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

double roundTo(double value, Type type) {
  if (type.isF32())
    return static_cast<float>(value);
  auto floatType = cast<FloatType>(type);
  if (type.isF64())
    return value;
  llvm::APFloat exact(value);
  bool lost = false;
  exact.convert(floatType.getFloatSemantics(),
                llvm::APFloat::rmNearestTiesToEven, &lost);
  exact.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
                &lost);
  return exact.convertToDouble();
}

int64_t wrapTo(int64_t value, Type type) {
  unsigned width = type.getIntOrFloatBitWidth();
  if (width >= 64)
    return value;
  llvm::APInt bits(64, static_cast<uint64_t>(value));
  if (width == 1 || type.isUnsignedInteger())
    return static_cast<int64_t>(bits.trunc(width).getZExtValue());
  return bits.trunc(width).getSExtValue();
}

std::optional<HostTensor::Dims>
HostTensor::broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  HostTensor::Dims result(a);
  size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    int64_t &dim = result[shift + i];
    if (dim == 1)
      dim = b[i];
    else if (b[i] != 1 && b[i] != dim)
      return std::nullopt;
  }
  return result;
}

HostTensor HostTensor::splat(ArrayRef<int64_t> shape, Type elementType,
                             Scalar value) {
  HostTensor result;
  result.elementType = elementType;
  result.shape.assign(shape.begin(), shape.end());
  result.strides.assign(shape.size(), 0);
  result.codes = std::make_shared<std::vector<uint8_t>>(1, 0);
  result.palette = {value};
  return result;
}

HostTensor HostTensor::dense(ArrayRef<int64_t> shape, Type elementType,
                             std::vector<Scalar> values) {
  HostTensor result;
  result.elementType = elementType;
  result.shape.assign(shape.begin(), shape.end());
  result.strides = rowMajor(shape);
  result.values = std::make_shared<std::vector<Scalar>>(std::move(values));
  return result;
}

HostTensor HostTensor::ints(ArrayRef<int64_t> shape, ArrayRef<int64_t> values,
                            Type elementType) {
  std::vector<Scalar> scalars(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    scalars[i].i = values[i];
  return dense(shape, elementType, std::move(scalars));
}

static Scalar scalarOf(const llvm::APFloat &value) {
  llvm::APFloat wide = value;
  bool lost = false;
  wide.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven,
               &lost);
  Scalar scalar;
  scalar.f = wide.convertToDouble();
  return scalar;
}

static Scalar scalarOf(const llvm::APInt &value, bool isUnsigned) {
  Scalar scalar;
  scalar.i = isUnsigned ? static_cast<int64_t>(value.getZExtValue())
                        : value.getSExtValue();
  return scalar;
}

HostTensor HostTensor::fromAttr(DenseElementsAttr attr) {
  auto type = cast<RankedTensorType>(attr.getType());
  Type element = type.getElementType();
  bool isFloat = isa<FloatType>(element);
  bool isUnsigned = element.isInteger(1) || element.isUnsignedInteger();
  if (attr.isSplat() && type.getNumElements() > 0)
    return splat(type.getShape(), element,
                 isFloat
                     ? scalarOf(attr.getSplatValue<llvm::APFloat>())
                     : scalarOf(attr.getSplatValue<llvm::APInt>(), isUnsigned));
  std::vector<Scalar> values;
  values.reserve(type.getNumElements());
  if (isFloat)
    for (const llvm::APFloat &value : attr.getValues<llvm::APFloat>())
      values.push_back(scalarOf(value));
  else
    for (const llvm::APInt &value : attr.getValues<llvm::APInt>())
      values.push_back(scalarOf(value, isUnsigned));
  return dense(type.getShape(), element, std::move(values));
}

HostTensor HostTensor::fromBytes(RankedTensorType type, ArrayRef<char> bytes) {
  if (type.getElementType().isInteger(1)) {
    HostTensor result;
    result.elementType = type.getElementType();
    result.shape.assign(type.getShape().begin(), type.getShape().end());
    result.strides = rowMajor(type.getShape());
    std::vector<uint8_t> codes(bytes.size());
    for (size_t i = 0; i < bytes.size(); ++i)
      codes[i] = bytes[i] != 0;
    result.codes = std::make_shared<std::vector<uint8_t>>(std::move(codes));
    result.palette.resize(2);
    result.palette[0].i = 0;
    result.palette[1].i = 1;
    return result;
  }
  return fromAttr(DenseElementsAttr::getFromRawBuffer(type, bytes));
}

int64_t HostTensor::getNumElements() const { return product(shape); }

bool HostTensor::isSplat() const {
  for (unsigned axis = 0; axis < shape.size(); ++axis)
    if (varies(axis) || shape[axis] == 0)
      return false;
  return true;
}

Scalar HostTensor::at(ArrayRef<int64_t> index) const {
  int64_t position = offset;
  for (size_t i = 0; i < index.size(); ++i)
    position += index[i] * strides[i];
  return load(position);
}

std::vector<Scalar> HostTensor::flatten() const {
  std::vector<Scalar> result;
  result.reserve(getNumElements());
  forEachPosition(shape, strides, offset,
                  [&](int64_t position) { result.push_back(load(position)); });
  return result;
}

SmallVector<int64_t> HostTensor::flattenInts() const {
  SmallVector<int64_t> result;
  for (Scalar scalar : flatten())
    result.push_back(scalar.i);
  return result;
}

HostTensor HostTensor::compact() const {
  HostTensor result = *this;
  for (unsigned axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > 1 && !varies(axis))
      result.shape[axis] = 1;
  return result;
}

DenseElementsAttr HostTensor::toAttr() const {
  RankedTensorType type = getType();
  std::vector<Scalar> scalars =
      isSplat() ? std::vector<Scalar>{front()} : flatten();
  if (elementType.isF32()) {
    // Values are rounded already.
    std::vector<float> floats;
    floats.reserve(scalars.size());
    for (Scalar scalar : scalars)
      floats.push_back(static_cast<float>(scalar.f));
    return DenseElementsAttr::get(type, ArrayRef<float>(floats));
  }
  if (auto floatType = dyn_cast<FloatType>(elementType)) {
    SmallVector<llvm::APFloat> floats;
    floats.reserve(scalars.size());
    for (Scalar scalar : scalars) {
      llvm::APFloat value(scalar.f);
      bool lost = false;
      value.convert(floatType.getFloatSemantics(),
                    llvm::APFloat::rmNearestTiesToEven, &lost);
      floats.push_back(value);
    }
    return DenseElementsAttr::get(type, floats);
  }
  SmallVector<llvm::APInt> integers;
  integers.reserve(scalars.size());
  unsigned width = elementType.getIntOrFloatBitWidth();
  for (Scalar scalar : scalars)
    integers.push_back(
        llvm::APInt(64, static_cast<uint64_t>(scalar.i)).trunc(width));
  return DenseElementsAttr::get(type, integers);
}

HostTensor HostTensor::transpose(ArrayRef<int64_t> permutation) const {
  HostTensor result = *this;
  for (size_t i = 0; i < permutation.size(); ++i) {
    result.shape[i] = shape[permutation[i]];
    result.strides[i] = strides[permutation[i]];
  }
  return result;
}

HostTensor HostTensor::broadcast(ArrayRef<int64_t> newShape) const {
  HostTensor result = *this;
  size_t shift = newShape.size() - shape.size();
  result.shape.assign(newShape.begin(), newShape.end());
  result.strides.assign(newShape.size(), 0);
  for (size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == newShape[shift + i])
      result.strides[shift + i] = strides[i];
  return result;
}

HostTensor HostTensor::slice(unsigned axis, int64_t start, int64_t step,
                             int64_t size) const {
  HostTensor result = *this;
  if (size > 0)
    result.offset += start * strides[axis];
  result.strides[axis] = size > 1 ? strides[axis] * step : 0;
  result.shape[axis] = size;
  return result;
}

HostTensor HostTensor::windows(ArrayRef<int64_t> axes, ArrayRef<int64_t> sizes,
                               ArrayRef<int64_t> steps,
                               ArrayRef<int64_t> dilations) const {
  HostTensor result = *this;
  for (auto [axis, size, step, dilation] :
       llvm::zip(axes, sizes, steps, dilations)) {
    result.shape[axis] = (shape[axis] - dilation * (size - 1) - 1) / step + 1;
    result.strides[axis] = result.shape[axis] > 1 ? strides[axis] * step : 0;
    result.shape.push_back(size);
    result.strides.push_back(size > 1 ? strides[axis] * dilation : 0);
  }
  return result;
}

static HostTensor::Dims withoutOnes(ArrayRef<int64_t> dims) {
  HostTensor::Dims kept;
  llvm::copy_if(dims, std::back_inserter(kept),
                [](int64_t dim) { return dim != 1; });
  return kept;
}

// Without axes of size 1 the shape must be the same for a view to do.
int64_t HostTensor::reshapeCost(ArrayRef<int64_t> newShape) const {
  if (isSplat() || withoutOnes(shape) == withoutOnes(newShape))
    return 0;
  return codes ? getNumElements()
               : product({getNumElements(), int64_t(sizeof(Scalar))});
}

HostTensor HostTensor::reshape(ArrayRef<int64_t> newShape) const {
  if (isSplat())
    return splat(newShape, elementType, front());
  if (withoutOnes(shape) == withoutOnes(newShape)) {
    HostTensor result = *this;
    result.shape.assign(newShape.begin(), newShape.end());
    result.strides.assign(newShape.size(), 0);
    size_t from = 0;
    for (size_t i = 0; i < newShape.size(); ++i) {
      if (newShape[i] == 1)
        continue;
      while (shape[from] == 1)
        ++from;
      result.strides[i] = strides[from++];
    }
    return result;
  }
  if (!codes)
    return dense(newShape, elementType, flatten());
  std::vector<uint8_t> copy;
  copy.reserve(getNumElements());
  forEachPosition(shape, strides, offset, [&](int64_t position) {
    copy.push_back((*codes)[position]);
  });
  HostTensor result = *this;
  result.offset = 0;
  result.shape.assign(newShape.begin(), newShape.end());
  result.strides = rowMajor(newShape);
  result.codes = std::make_shared<std::vector<uint8_t>>(std::move(copy));
  return result;
}

//===----------------------------------------------------------------------===//
// Diagonals
//===----------------------------------------------------------------------===//

/// Element (r, c) lies on diagonal r + columns - 1 - c.
HostTensor HostTensor::foldDiagonals(unsigned row, unsigned column) const {
  HostTensor result = *this;
  int64_t columns = shape[column];
  result.offset += (columns - 1) * strides[column];
  result.shape[row] += columns - 1;
  result.shape[column] = 1;
  result.strides[column] = 0;
  return result;
}

HostTensor HostTensor::unfoldDiagonals(unsigned row, unsigned column,
                                       int64_t rows, int64_t columns) const {
  HostTensor result = *this;
  result.offset += (columns - 1) * strides[row];
  result.shape[row] = rows;
  result.shape[column] = columns;
  result.strides[column] = -strides[row];
  return result;
}

/// Two axes such that every view either is stored by their diagonals or does
/// not vary along them.
static std::optional<std::pair<unsigned, unsigned>>
commonDiagonal(ArrayRef<HostTensor> views) {
  for (const HostTensor &view : views)
    for (unsigned row = 0; row < view.getRank(); ++row)
      for (unsigned column = row + 1; column < view.getRank(); ++column)
        if (view.varies(row) && view.varies(column) &&
            llvm::all_of(views, [&](const HostTensor &other) {
              return other.isDiagonal(row, column) ||
                     (!other.varies(row) && !other.varies(column));
            }))
          return std::pair(row, column);
  return std::nullopt;
}

/// The one axis along which an integer tensor grows, and its step.
static std::optional<std::pair<unsigned, int64_t>>
evenSteps(const HostTensor &tensor) {
  std::optional<unsigned> axis;
  for (unsigned i = 0; i < tensor.getRank(); ++i)
    if (tensor.getShape()[i] == 0)
      return std::nullopt;
    else if (tensor.varies(i) && std::exchange(axis, i))
      return std::nullopt;
  if (!axis)
    return std::nullopt;
  SmallVector<int64_t> items = tensor.compact().flattenInts();
  // Far from overflow, so that differences compare as their operands do.
  constexpr int64_t limit = int64_t(1) << 61;
  for (size_t i = 0; i < items.size(); ++i)
    if (items[i] < -limit || items[i] > limit ||
        (i > 1 && items[i] - items[i - 1] != items[1] - items[0]))
      return std::nullopt;
  return std::pair(*axis, items[1] - items[0]);
}

std::optional<HostTensor> HostTensor::indexDifference(const HostTensor &a,
                                                      const HostTensor &b) {
  auto shape = broadcastShapes(a.shape, b.shape);
  if (!shape || !a.elementType.isInteger(64) || !b.elementType.isInteger(64))
    return std::nullopt;
  HostTensor left = a.broadcast(*shape), right = b.broadcast(*shape);
  auto fromLeft = evenSteps(left), fromRight = evenSteps(right);
  if (!fromLeft || !fromRight || fromLeft->first == fromRight->first ||
      fromLeft->second != fromRight->second)
    return std::nullopt;
  unsigned row = fromLeft->first, column = fromRight->first;
  int64_t step = fromLeft->second, columns = (*shape)[column];
  Dims stored(shape->size(), 1);
  stored[row] = (*shape)[row] + columns - 1;
  std::vector<Scalar> values(stored[row]);
  int64_t start = left.front().i - right.front().i - (columns - 1) * step;
  for (size_t i = 0; i < values.size(); ++i)
    values[i].i = start + static_cast<int64_t>(i) * step;
  HostTensor result = dense(stored, a.elementType, std::move(values))
                          .unfoldDiagonals(row, column, (*shape)[row], columns);
  result.shape = *shape;
  return result;
}

//===----------------------------------------------------------------------===//
// Elementwise computation
//===----------------------------------------------------------------------===//

std::optional<HostTensor>
HostTensor::map(ArrayRef<HostTensor> operands, Type elementType,
                llvm::function_ref<Scalar(ArrayRef<Scalar>)> function) {
  Dims shape;
  for (const HostTensor &operand : operands) {
    std::optional<Dims> both = broadcastShapes(shape, operand.shape);
    if (!both)
      return std::nullopt;
    shape = *both;
  }
  SmallVector<HostTensor> views;
  for (const HostTensor &operand : operands)
    views.push_back(operand.broadcast(shape));
  SmallVector<Scalar> arguments(views.size());
  if (product(shape) == 0)
    return dense(shape, elementType, {});

  // Of few distinct values: computing each of them once is enough.
  int single = -1;
  unsigned many = 0;
  for (auto [i, view] : llvm::enumerate(views))
    if (!view.isSplat()) {
      single = static_cast<int>(i);
      ++many;
    }
  if (many == 0)
    single = 0;
  if (many <= 1 && !views.empty() && views[single].codes) {
    HostTensor result = views[single];
    result.elementType = elementType;
    for (Scalar &entry : result.palette) {
      for (auto [i, view] : llvm::enumerate(views))
        arguments[i] = static_cast<int>(i) == single ? entry : view.front();
      entry = function(arguments);
    }
    return result;
  }

  if (auto diagonal = commonDiagonal(views)) {
    auto [row, column] = *diagonal;
    for (HostTensor &view : views)
      view = view.foldDiagonals(row, column);
    std::optional<HostTensor> result = map(views, elementType, function);
    if (!result)
      return std::nullopt;
    return result->unfoldDiagonals(row, column, shape[row], shape[column]);
  }

  // Axes along which no operand varies are not stored.
  HostTensor result;
  result.elementType = elementType;
  result.shape = shape;
  Dims stored(shape);
  for (unsigned axis = 0; axis < shape.size(); ++axis)
    if (llvm::none_of(views, [&](HostTensor &v) { return v.varies(axis); }))
      stored[axis] = 1;
  result.strides = rowMajor(stored);
  int64_t count = product(stored);
  bool asCodes = elementType.isInteger(1);
  if (count > (asCodes ? maxCodes : maxValues))
    return std::nullopt;
  std::vector<uint8_t> codes(asCodes ? count : 0);
  std::vector<Scalar> values(asCodes ? 0 : count);

  SmallVector<int64_t> positions;
  for (const HostTensor &view : views)
    positions.push_back(view.offset);
  Dims index(shape.size(), 0);
  for (int64_t n = 0; n < count; ++n) {
    for (size_t i = 0; i < views.size(); ++i)
      arguments[i] = views[i].load(positions[i]);
    Scalar value = function(arguments);
    if (asCodes)
      codes[n] = value.i != 0;
    else
      values[n] = value;
    for (int64_t axis = static_cast<int64_t>(shape.size()) - 1; axis >= 0;
         --axis) {
      bool wraps = ++index[axis] >= stored[axis];
      for (size_t i = 0; i < views.size(); ++i)
        positions[i] +=
            views[i].strides[axis] * (wraps ? 1 - stored[axis] : int64_t(1));
      if (!wraps)
        break;
      index[axis] = 0;
    }
  }
  if (asCodes) {
    result.codes = std::make_shared<std::vector<uint8_t>>(std::move(codes));
    result.palette.resize(2);
    result.palette[0].i = 0;
    result.palette[1].i = 1;
  } else {
    result.values = std::make_shared<std::vector<Scalar>>(std::move(values));
  }
  return result;
}

// Axes in `axes` from the outermost in memory to the innermost, so that a
// large tensor is read in its order. `first` is where the element lies that
// `position`'s should be equal to.
bool HostTensor::isUniformAlong(unsigned axis, ArrayRef<unsigned> axes,
                                int64_t position, int64_t first) const {
  if (axes.empty())
    return load(position).i == load(first).i;
  unsigned outer = axes.front();
  int64_t step = strides[outer], firstStep = outer == axis ? 0 : step;
  for (int64_t i = 0; i < shape[outer]; ++i)
    if (!isUniformAlong(axis, axes.drop_front(), position + i * step,
                        first + i * firstStep))
      return false;
  return true;
}

HostTensor HostTensor::collapseUniformAxes() const {
  HostTensor result = *this;
  if (product(shape) == 0)
    return result;
  for (unsigned axis = 0; axis < shape.size(); ++axis) {
    if (!result.varies(axis))
      continue;
    SmallVector<unsigned> axes;
    for (unsigned other = 0; other < shape.size(); ++other)
      if (result.varies(other))
        axes.push_back(other);
    llvm::stable_sort(axes, [&](unsigned a, unsigned b) {
      return std::abs(result.strides[a]) > std::abs(result.strides[b]);
    });
    if (result.isUniformAlong(axis, axes, offset, offset))
      result.strides[axis] = 0;
  }
  return result;
}

} // namespace shardonnx::nn
