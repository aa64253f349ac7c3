// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The evaluator's ops that choose elements.

#include "NNEvaluator.h"
#include "shardonnx/Dialect/NN/IR/NNIndex.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

/// Where the position's element lies in the data.
template <typename Op>
static SmallVector<int64_t> placeOf(Op op, const Tensor &indices,
                                    ArrayRef<int64_t> data,
                                    ArrayRef<int64_t> position) {
  SmallVector<int64_t> place(data.size()), at(indices.shape.size());
  for (auto [k, i] : llvm::enumerate(position)) {
    if (op.getDataAxes()[k] >= 0)
      place[op.getDataAxes()[k]] = i;
    if (op.getIndexAxes()[k] >= 0)
      at[op.getIndexAxes()[k]] = i;
  }
  for (auto [c, axis] : llvm::enumerate(op.getIndexedAxes())) {
    at.back() = int64_t(c);
    int64_t index = int64_t(indices.at(at));
    place[axis] = index < 0 ? index + data[axis] : index;
  }
  return place;
}

static double combine(nn::Scatter reduction, double a, double b) {
  switch (reduction) {
  case nn::Scatter::none:
    return b;
  case nn::Scatter::add:
    return a + b;
  case nn::Scatter::mul:
    return a * b;
  case nn::Scatter::min:
    return std::min(a, b);
  case nn::Scatter::max:
    return std::max(a, b);
  }
  llvm_unreachable("five reductions");
}

/// Calls fn(index of the tensor, index of its windows) for every element.
template <typename Op, typename Fn>
static void forEachWindowed(Op op, ArrayRef<int64_t> windows, Fn fn) {
  size_t rank = windows.size() - op.getAxes().size();
  forEachIndex(windows, [&](ArrayRef<int64_t> at) {
    SmallVector<int64_t> index(at.take_front(rank));
    for (auto [w, axis] : llvm::enumerate(op.getAxes()))
      index[axis] = index[axis] * op.getStrides()[w] +
                    at[rank + w] * op.getDilations()[w];
    fn(index, at);
  });
}

bool Evaluator::evaluateIndex(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::GatherOp op) {
        Tensor &result = make(op.getResult());
        const Tensor &data = get(op.getData());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> at) {
          result.at(at) =
              data.at(placeOf(op, get(op.getIndices()), data.shape, at));
        });
        return true;
      })
      .Case([&](nn::ScatterOp op) {
        Tensor &result = make(op.getResult());
        if (op.getData())
          result.data = get(op.getData()).data;
        const Tensor &updates = get(op.getUpdates());
        forEachIndex(updates.shape, [&](ArrayRef<int64_t> at) {
          double &place =
              result.at(placeOf(op, get(op.getIndices()), result.shape, at));
          place = combine(op.getReduction(), place, updates.at(at));
        });
        return true;
      })
      .Case([&](nn::TopKOp op) {
        Tensor &values = make(op.getValues()), &indices = make(op.getIndices());
        const Tensor &x = get(op.getOperand());
        SmallVector<int64_t> lines(x.shape);
        lines[op.getAxis()] = 1;
        forEachIndex(lines, [&](ArrayRef<int64_t> line) {
          SmallVector<int64_t> at(line), to(line);
          auto element = [&](int64_t i) {
            at[op.getAxis()] = i;
            return x.at(at);
          };
          auto order =
              llvm::to_vector(llvm::seq<int64_t>(0, x.shape[op.getAxis()]));
          if (op.getLastFirst())
            std::reverse(order.begin(), order.end());
          llvm::stable_sort(order, [&](int64_t a, int64_t b) {
            return op.getSmallest() ? element(a) < element(b)
                                    : element(a) > element(b);
          });
          for (int64_t i = 0; i < int64_t(op.getK()); ++i) {
            to[op.getAxis()] = i;
            values.at(to) = element(order[i]);
            indices.at(to) = double(order[i]);
          }
        });
        return true;
      })
      .Case([&](nn::WindowsOp op) {
        Tensor &result = make(op.getResult());
        forEachWindowed(op, result.shape, [&](auto index, auto at) {
          result.at(at) = get(op.getOperand()).at(index);
        });
        return true;
      })
      .Case([&](nn::OverlapAddOp op) {
        Tensor &result = make(op.getResult());
        const Tensor &x = get(op.getOperand());
        forEachWindowed(op, x.shape, [&](auto index, auto at) {
          result.at(index) += x.at(at);
        });
        return true;
      })
      .Case([&](nn::GroupedMatmulOp op) {
        Tensor &result = make(op.getResult());
        const Tensor &rows = get(op.getRows()), &m = get(op.getMatrices());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> at) {
          int64_t group = int64_t(get(op.getIndices()).at(at[0]));
          for (int64_t k = 0; k < rows.shape[1]; ++k)
            result.at(at) += rows.at({at[0], k}) *
                             (op.getTransposed() ? m.at({group, at[1], k})
                                                 : m.at({group, k, at[1]}));
        });
        return true;
      })
      .Case([&](nn::GroupedMatmulGradOp op) {
        Tensor &result = make(op.getResult());
        const Tensor &lhs = get(op.getLhs()), &rhs = get(op.getRhs());
        for (int64_t i = 0; i < lhs.shape[0]; ++i)
          for (int64_t a = 0; a < lhs.shape[1]; ++a)
            for (int64_t b = 0; b < rhs.shape[1]; ++b)
              result.at({int64_t(get(op.getIndices()).at(i)), a, b}) +=
                  lhs.at({i, a}) * rhs.at({i, b});
        return true;
      })
      .Default(false);
}
