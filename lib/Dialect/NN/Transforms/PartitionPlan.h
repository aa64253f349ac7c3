// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which products of a graph the ranks of an axis compute in parts, and how
// every value then lies: what nn-partition decides before it changes anything.

#ifndef SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_PARTITIONPLAN_H
#define SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_PARTITIONPLAN_H

#include "TensorPlan.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Dialect/NN/IR/Sharding.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace shardonnx::nn {

/// A linear layer may be split by columns: each rank computes some of what it
/// gives. The split goes with the values, op by op as their rules say, until a
/// product sums along it: there each rank has a summand. At first every linear
/// layer is split; where an op can only be computed whole, those that led there
/// are not, and the search begins anew.
///
/// A vocabulary is split too, where all that reads it can be: a lookup of
/// tokens then is such a sum, and the loss of a head is computed by all ranks
/// together.
///
/// Of such a sum each rank keeps its tokens, and computes what follows for
/// these alone (Korthikanti et al. 2022) as far as the ops' rules say; where an
/// op or a linear layer reads all tokens, they are gathered.
class PartitionPlan {
public:
  PartitionPlan(mlir::Block &block, int64_t parts, const TensorPlan &asked);

  /// Decides all; always ends.
  void search();

  /// What an op was asked and has answered; null where all is whole.
  const ShardingQuery *queryOf(mlir::Operation *op) const;
  Sharding shardingOf(mlir::Value value) const;
  /// Whether what is split are tokens, which any reader can gather.
  bool sharesTokens(mlir::Value value) const;
  /// Ops for which tokens are gathered, and why.
  const llvm::MapVector<mlir::Operation *, std::string> &getGathering() const {
    return gathering;
  }
  /// Of a linear layer that reads what is whole.
  bool splitsColumns(MatmulOp product) const;
  /// Linear layers that stay whole, and why.
  const llvm::MapVector<mlir::Operation *, std::string> &getWhole() const {
    return whole;
  }
  /// Whether a parameter was asked to be whole.
  bool replicates(ParameterOp parameter) const {
    auto style = asked.find(parameter.getSymName());
    return style != asked.end() && style->second == ParallelStyle::Replicate;
  }
  /// Why a parameter is not split as it was asked to be; empty: all are.
  std::string unmet() const;
  /// Lookups of tokens, and losses that are a product's.
  static bool readsVocabulary(mlir::Operation *op);
  /// Whether each rank has some words of what the op reads.
  bool sharesWords(mlir::Operation *op) const;

private:
  using Seeds = llvm::SmallSetVector<mlir::Operation *, 4>;
  struct Lie {
    Sharding sharding;
    Seeds seeds; // the products whose columns or sums it comes from
    bool tokens = false;
  };

  /// The parameter that is split first.
  struct Seed {
    unsigned operand;
    Sharding sharding;
  };

  std::optional<ParallelStyle> styleOf(mlir::Operation *op) const;
  std::optional<Seed> seedOf(mlir::Operation *op) const;
  llvm::StringRef refusalOf(mlir::Operation *op) const;
  bool takesUneven(mlir::Operation *op, const Seed &seed) const;
  void findSeeds();
  bool dropHalfReads();
  void keepWhole(mlir::Operation *seed, std::string why);
  bool propagate();
  bool visit(mlir::Operation *op);
  bool visitTokens(mlir::Operation *op, llvm::ArrayRef<Sharding> operands,
                   const Seeds &led);
  bool isBehind(mlir::Operation *op, mlir::Operation *sum) const;
  void shareSum(mlir::Operation *product);
  bool ask(ShardingQuery &query, mlir::Operation *op);
  void record(mlir::Operation *op, ShardingQuery query, const Seeds &led,
              bool tokens);
  bool giveUp(const Seeds &led, const ShardingQuery &query,
              mlir::Operation *op);
  bool refine(Sharding &seed, llvm::ArrayRef<double> fractions, bool tokens);

  mlir::Block &block;
  const int64_t parts;
  const TensorPlan &asked;
  llvm::MapVector<mlir::Operation *, Seed> seeds;
  llvm::MapVector<mlir::Operation *, std::string> whole;
  /// How each sum is split, or whole.
  llvm::MapVector<mlir::Operation *, Sharding> sums;
  llvm::MapVector<mlir::Operation *, std::string> gathering;
  llvm::DenseMap<mlir::Value, Lie> lies;
  llvm::DenseMap<mlir::Operation *, ShardingQuery> queries;
};

} // namespace shardonnx::nn

#endif // SHARDONNX_LIB_DIALECT_NN_TRANSFORMS_PARTITIONPLAN_H
