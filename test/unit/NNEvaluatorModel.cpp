// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The evaluator's products, attention, norms and losses.

#include "NNEvaluator.h"
#include "shardonnx/Dialect/NN/IR/NNBuilder.h"
#include "shardonnx/Dialect/NN/IR/NNMath.h"
#include "shardonnx/runtime/Random.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

//===----------------------------------------------------------------------===//
// Products and lookups
//===----------------------------------------------------------------------===//

template <typename Product>
static void matmul(Product op, const Tensor &a, const Tensor &b,
                   Tensor &result) {
  int64_t k = a.shape[a.shape.size() - (op.getTransposeLhs() ? 2 : 1)];
  size_t rank = result.shape.size();
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> left(index), right(index);
    double sum = 0;
    for (int64_t i = 0; i < k; ++i) {
      left[rank - 2] = op.getTransposeLhs() ? i : index[rank - 2];
      left[rank - 1] = op.getTransposeLhs() ? index[rank - 2] : i;
      right[rank - 2] = op.getTransposeRhs() ? index[rank - 1] : i;
      right[rank - 1] = op.getTransposeRhs() ? i : index[rank - 1];
      sum += a.at(left) * b.at(right);
    }
    result.at(index) = sum;
  });
}

static double geluOf(double x, double &slope) {
  double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  double t = std::tanh(scale * (x + cubic * x * x * x));
  slope = (1 + t) / 2 + x / 2 * (1 - t * t) * scale * (1 + 3 * cubic * x * x);
  return x / 2 * (1 + t);
}

// `extra` is null where the op has none.
static void epilogue(nn::MatmulEpilogueOp op, const Tensor *side,
                     const Tensor &rhs, Tensor &result, Tensor *extra) {
  nn::Epilogue kind = op.getEpilogue();
  forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
    double &to = result.at(index), slope = 0;
    if (kind == nn::Epilogue::bias || kind == nn::Epilogue::gelu_bias)
      to += side->at(index.drop_front());
    if (kind == nn::Epilogue::gelu_bias) {
      extra->at(index) = to;
      to = geluOf(to, slope);
    } else if (kind == nn::Epilogue::dgelu) {
      geluOf(side->at(index), slope);
      to *= slope;
    }
  });
  if (kind == nn::Epilogue::bgrad)
    forEachIndex(rhs.shape, [&](ArrayRef<int64_t> index) {
      extra->at({index[op.getTransposeRhs() ? 0 : 1]}) += rhs.at(index);
    });
}

bool Evaluator::evaluateMatmul(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::MatmulOp op) {
        Tensor &result = make(op.getResult());
        matmul(op, get(op.getLhs()), get(op.getRhs()), result);
        return true;
      })
      .Case([&](nn::MatmulEpilogueOp op) {
        for (Value result : op->getResults())
          make(result);
        auto at = [&](Value value) {
          return value ? &values.find(value)->second : nullptr;
        };
        matmul(op, get(op.getLhs()), get(op.getRhs()), *at(op.getResult()));
        epilogue(op, at(op.getSide()), get(op.getRhs()), *at(op.getResult()),
                 at(op.getExtra()));
        return true;
      })
      .Case([&](nn::EmbeddingOp op) {
        Tensor &result = make(op.getResult());
        const Tensor &table = get(op.getTable()), &ids = get(op.getIds());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
          int64_t id = ids.at(index.drop_back());
          result.at(index) = table.at({id, index.back()});
        });
        return true;
      })
      .Case([&](nn::EmbeddingGradOp op) {
        Tensor &table = make(op.getTableGrad());
        const Tensor &g = get(op.getResultGrad()), &ids = get(op.getIds());
        forEachIndex(g.shape, [&](ArrayRef<int64_t> index) {
          int64_t id = ids.at(index.drop_back());
          table.at({id, index.back()}) += g.at(index);
        });
        return true;
      })
      .Default(false);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// The row of one query: its scores before and after the soft cap, its
/// probabilities, and their log-sum-exp.
struct AttentionRow {
  std::vector<double> capped, probability, slope;
  double lse;
};

template <typename Op> struct AttentionReference {
  mutable Op op;
  const Tensor &q, &k, &v;
  const Tensor *mask;

  int64_t kvHead(int64_t head) const { return head * k.shape[2] / q.shape[2]; }

  bool visible(int64_t b, int64_t h, int64_t i, int64_t j) const {
    int64_t last = i + k.shape[1] - q.shape[1], window = op.getWindow();
    if (op.getCausal() && j > last)
      return false;
    if (window > 0 && j <= last - window)
      return false;
    bool isBool = mask && nn::elementType(op.getMask()).isInteger(1);
    return !isBool || mask->at({b, h, i, j}) != 0;
  }

  AttentionRow row(int64_t b, int64_t h, int64_t i) const {
    int64_t keys = k.shape[1], dim = q.shape[3];
    double scale = op.getScale().convertToDouble(),
           cap = op.getSoftcap().convertToDouble();
    AttentionRow row;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < keys; ++j) {
      double score = 0, slope = 1;
      for (int64_t d = 0; d < dim; ++d)
        score += q.at({b, i, h, d}) * k.at({b, j, kvHead(h), d});
      score *= scale;
      if (cap > 0) {
        double t = std::tanh(score / cap);
        score = cap * t;
        slope = 1 - t * t;
      }
      if (mask && !nn::elementType(op.getMask()).isInteger(1))
        score += mask->at({b, h, i, j});
      if (!visible(b, h, i, j))
        score = -INFINITY;
      row.capped.push_back(score);
      row.slope.push_back(slope);
      max = std::max(max, score);
    }
    for (double score : row.capped)
      sum += std::exp(score - max);
    for (double score : row.capped)
      row.probability.push_back(std::exp(score - max) / sum);
    row.lse = max + std::log(sum);
    return row;
  }
};
} // namespace

static void attention(const AttentionReference<nn::AttentionOp> &ref,
                      Tensor &result, Tensor &lse) {
  forEachIndex(lse.shape, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], h = index[1], i = index[2];
    AttentionRow row = ref.row(b, h, i);
    lse.at(index) = row.lse;
    for (int64_t d = 0; d < result.shape[3]; ++d)
      for (size_t j = 0; j < row.probability.size(); ++j)
        result.at({b, i, h, d}) +=
            row.probability[j] * ref.v.at({b, int64_t(j), ref.kvHead(h), d});
  });
}

static void attentionGrad(const AttentionReference<nn::AttentionGradOp> &ref,
                          const Tensor &g, Tensor &dq, Tensor &dk, Tensor &dv) {
  double scale = ref.op.getScale().convertToDouble();
  SmallVector<int64_t> rows = {ref.q.shape[0], ref.q.shape[2], ref.q.shape[1]};
  forEachIndex(rows, [&](ArrayRef<int64_t> index) {
    int64_t b = index[0], h = index[1], i = index[2], kv = ref.kvHead(h);
    AttentionRow row = ref.row(b, h, i);
    std::vector<double> dp(row.probability.size(), 0);
    double mean = 0;
    for (size_t j = 0; j < dp.size(); ++j) {
      for (int64_t d = 0; d < dv.shape[3]; ++d) {
        dp[j] += g.at({b, i, h, d}) * ref.v.at({b, int64_t(j), kv, d});
        dv.at({b, int64_t(j), kv, d}) +=
            row.probability[j] * g.at({b, i, h, d});
      }
      mean += dp[j] * row.probability[j];
    }
    for (size_t j = 0; j < dp.size(); ++j) {
      double ds = scale * row.slope[j] * row.probability[j] * (dp[j] - mean);
      for (int64_t d = 0; d < dq.shape[3]; ++d) {
        dq.at({b, i, h, d}) += ds * ref.k.at({b, int64_t(j), kv, d});
        dk.at({b, int64_t(j), kv, d}) += ds * ref.q.at({b, i, h, d});
      }
    }
  });
}

static void rotary(nn::RotaryOp op, const Tensor &x, const Tensor &cos,
                   const Tensor &sin, Tensor &result) {
  result.data = x.data;
  int64_t pairs = cos.shape[1];
  forEachIndex({x.shape[0], x.shape[1], x.shape[2], pairs},
               [&](ArrayRef<int64_t> index) {
                 int64_t s = index[1], j = index[3];
                 SmallVector<int64_t> a(index), b(index);
                 a[3] = op.getInterleaved() ? 2 * j : j;
                 b[3] = op.getInterleaved() ? 2 * j + 1 : j + pairs;
                 double c = cos.at({s, j}),
                        r = op.getInverse() ? -sin.at({s, j}) : sin.at({s, j});
                 result.at(a) = x.at(a) * c - x.at(b) * r;
                 result.at(b) = x.at(b) * c + x.at(a) * r;
               });
}

bool Evaluator::evaluateAttention(Operation *op) {
  auto maskOf = [&](Value mask) { return mask ? &get(mask) : nullptr; };
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::AttentionOp op) {
        Tensor &result = make(op.getResult()), &lse = make(op.getLse());
        attention({op, get(op.getQuery()), get(op.getKey()), get(op.getValue()),
                   maskOf(op.getMask())},
                  result, lse);
        return true;
      })
      .Case([&](nn::AttentionGradOp op) {
        Tensor &dq = make(op.getQueryGrad()), &dk = make(op.getKeyGrad()),
               &dv = make(op.getValueGrad());
        attentionGrad({op, get(op.getQuery()), get(op.getKey()),
                       get(op.getValue()), maskOf(op.getMask())},
                      get(op.getResultGrad()), dq, dk, dv);
        return true;
      })
      .Case([&](nn::RotaryOp op) {
        Tensor &result = make(op.getResult());
        rotary(op, get(op.getOperand()), get(op.getCos()), get(op.getSin()),
               result);
        return true;
      })
      .Default(false);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// Calls `fn` with the row number and each row's elements.
static void forEachRow(const Tensor &x,
                       llvm::function_ref<void(size_t, ArrayRef<double>)> fn) {
  size_t width = x.shape.back();
  for (size_t row = 0; row * width < x.data.size(); ++row)
    fn(row, ArrayRef<double>(x.data).slice(row * width, width));
}

static double logSumExp(ArrayRef<double> row) {
  double max = *std::max_element(row.begin(), row.end()), sum = 0;
  for (double value : row)
    sum += std::exp(value - max);
  return max + std::log(sum);
}

/// Subtracts `mean` where the norm does, and scales; writes the statistics.
static void norm(const Tensor &x, const Tensor &weight, const Tensor *bias,
                 double epsilon, Tensor *mean, Tensor &rstd, Tensor &result) {
  forEachRow(x, [&](size_t row, ArrayRef<double> values) {
    double centre = 0, square = 0, width = values.size();
    if (mean) {
      for (double value : values)
        centre += value / width;
      mean->data[row] = centre;
    }
    for (double value : values)
      square += (value - centre) * (value - centre) / width;
    double scale = rstd.data[row] = 1 / std::sqrt(square + epsilon);
    for (size_t i = 0; i < values.size(); ++i)
      result.data[row * values.size() + i] =
          (values[i] - centre) * scale * weight.data[i] +
          (bias ? bias->data[i] : 0);
  });
}

/// Dropout by its definition, and its halves of keys and comparisons as the
/// decomposition has them: 32 bits are exact in a double.
bool Evaluator::evaluateRandom(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::DropoutOp op) {
        Tensor &result = make(op.getResult());
        const Tensor &x = get(op.getOperand()), &state = get(op.getRandom());
        double ratio = op.getRatio().convertToDouble();
        int64_t width = result.shape.size() == 1 ? 1 : result.shape.back();
        int64_t rows = int64_t(x.data.size()) / width;
        auto stream = uint64_t(state.data[op.getStream() + 1]);
        auto first = uint64_t(state.data[0]) * (rows / op.getSamples());
        for (size_t i = 0; i < x.data.size(); ++i) {
          uint64_t key = random::rowKey(stream, first + i / width);
          bool kept = random::elementBits(key, uint32_t(i % width)) >=
                      random::dropBelow(ratio);
          result.data[i] = kept ? x.data[i] / (1 - ratio) : 0;
        }
        return true;
      })
      .Case([&](nn::RandomKeyOp op) {
        Tensor &result = make(op.getResult());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
          auto row = uint64_t(get(op.getFirst()).at(index));
          for (auto [axis, size] : llvm::enumerate(op.getSizes()))
            row = (axis > 0 ? row * size : row) +
                  uint64_t(get(op.getIndices()[axis]).at(index));
          uint64_t key =
              random::rowKey(uint64_t(get(op.getStream()).at(index)), row);
          result.at(index) = uint32_t(op.getHalf() == 1 ? key >> 32 : key);
        });
        return true;
      })
      .Case([&](nn::RandomKeepOp op) {
        Tensor &result = make(op.getResult());
        forEachIndex(result.shape, [&](ArrayRef<int64_t> index) {
          uint64_t key = uint64_t(get(op.getHigh()).at(index)) << 32 |
                         uint64_t(get(op.getLow()).at(index));
          auto column = uint32_t(get(op.getColumn()).at(index));
          result.at(index) =
              random::elementBits(key, column) >= uint64_t(op.getThreshold());
        });
        return true;
      })
      .Default(false);
}

bool Evaluator::evaluateNorm(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::LayerNormOp op) {
        Tensor &result = make(op.getResult()), &mean = make(op.getMean()),
               &rstd = make(op.getRstd());
        norm(get(op.getOperand()), get(op.getWeight()),
             op.getBias() ? &get(op.getBias()) : nullptr,
             op.getEpsilon().convertToDouble(), &mean, rstd, result);
        return true;
      })
      .Case([&](nn::RmsNormOp op) {
        Tensor &result = make(op.getResult()), &rstd = make(op.getRstd());
        norm(get(op.getOperand()), get(op.getWeight()), nullptr,
             op.getEpsilon().convertToDouble(), nullptr, rstd, result);
        return true;
      })
      .Case<nn::SoftmaxOp, nn::LogSoftmaxOp>([&](auto op) {
        Tensor &result = make(op.getResult());
        bool log = isa<nn::LogSoftmaxOp>(op.getOperation());
        forEachRow(get(op.getOperand()),
                   [&](size_t row, ArrayRef<double> values) {
                     double lse = logSumExp(values);
                     for (auto [i, value] : llvm::enumerate(values))
                       result.data[row * values.size() + i] =
                           log ? value - lse : std::exp(value - lse);
                   });
        return true;
      })
      .Case([&](nn::LogSumExpOp op) {
        Tensor &result = make(op.getResult());
        forEachRow(get(op.getOperand()),
                   [&](size_t row, ArrayRef<double> values) {
                     result.data[row] = logSumExp(values);
                   });
        return true;
      })
      .Default(false);
}

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

/// The sum, and where asked for seed·(softmax - one-hot).
static double crossEntropy(const Tensor &logits, const Tensor &labels,
                           int64_t ignore, double seed, Tensor *grad) {
  double sum = 0;
  forEachRow(logits, [&](size_t row, ArrayRef<double> values) {
    auto label = static_cast<int64_t>(labels.data[row]);
    if (label == ignore)
      return;
    double lse = logSumExp(values);
    sum += lse - values[label];
    if (grad)
      for (auto [i, value] : llvm::enumerate(values))
        grad->data[row * values.size() + i] =
            seed * (std::exp(value - lse) - (int64_t(i) == label));
  });
  return sum;
}

/// operand·op(weight).
static Tensor linearLogits(const Tensor &x, const Tensor &w, bool transpose) {
  Tensor logits(ArrayRef<int64_t>{x.shape[0], w.shape[transpose ? 0 : 1]});
  forEachIndex(logits.shape, [&](ArrayRef<int64_t> index) {
    for (int64_t i = 0; i < x.shape[1]; ++i)
      logits.at(index) +=
          x.at({index[0], i}) *
          (transpose ? w.at({index[1], i}) : w.at({i, index[1]}));
  });
  return logits;
}

static void linearGrads(const Tensor &x, const Tensor &w, bool transpose,
                        const Tensor &g, Tensor &dx, Tensor &dw) {
  forEachIndex(g.shape, [&](ArrayRef<int64_t> index) {
    for (int64_t i = 0; i < x.shape[1]; ++i) {
      SmallVector<int64_t> at = {i, index[1]};
      if (transpose)
        std::swap(at[0], at[1]);
      dx.at({index[0], i}) += g.at(index) * w.at(at);
      dw.at(at) += g.at(index) * x.at({index[0], i});
    }
  });
}

bool Evaluator::evaluateLoss(Operation *op) {
  return TypeSwitch<Operation *, bool>(op)
      .Case([&](nn::CrossEntropyOp op) {
        make(op.getSum()).data[0] =
            crossEntropy(get(op.getLogits()), get(op.getLabels()),
                         op.getIgnoreIndex(), 0, nullptr);
        return true;
      })
      .Case([&](nn::CrossEntropyGradOp op) {
        Tensor &sum = make(op.getSum()), &grad = make(op.getLogitsGrad());
        sum.data[0] =
            crossEntropy(get(op.getLogits()), get(op.getLabels()),
                         op.getIgnoreIndex(), get(op.getSeed()).data[0], &grad);
        return true;
      })
      .Case([&](nn::LinearCrossEntropyOp op) {
        Tensor logits = linearLogits(get(op.getOperand()), get(op.getWeight()),
                                     op.getTransposeWeight());
        make(op.getSum()).data[0] = crossEntropy(
            logits, get(op.getLabels()), op.getIgnoreIndex(), 0, nullptr);
        return true;
      })
      .Case([&](nn::LinearCrossEntropyGradOp op) {
        Tensor &sum = make(op.getSum()), &dx = make(op.getOperandGrad()),
               &dw = make(op.getWeightGrad());
        Tensor logits = linearLogits(get(op.getOperand()), get(op.getWeight()),
                                     op.getTransposeWeight());
        Tensor g(logits.shape);
        sum.data[0] =
            crossEntropy(logits, get(op.getLabels()), op.getIgnoreIndex(),
                         get(op.getSeed()).data[0], &g);
        linearGrads(get(op.getOperand()), get(op.getWeight()),
                    op.getTransposeWeight(), g, dx, dw);
        return true;
      })
      .Case([&](nn::MseOp op) {
        double sum = 0;
        for (auto [a, b] :
             llvm::zip(get(op.getPrediction()).data, get(op.getTarget()).data))
          sum += (a - b) * (a - b);
        make(op.getSum()).data[0] = sum;
        return true;
      })
      .Default(false);
}
