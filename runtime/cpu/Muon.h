// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Muon's matrices (--optimizer=muon). Momentum is owned by slices, as every
// state is; a step of a matrix needs the whole of it, at one owner.

#ifndef SHARDONNX_RUNTIME_CPU_MUON_H
#define SHARDONNX_RUNTIME_CPU_MUON_H

#include "shardonnx/runtime/ABI.h"
#include "shardonnx/runtime/Choices.h"
#include "shardonnx/runtime/MuonPlan.h"
#include <deque>
#include <vector>

namespace shardonnx::rt {

struct Context;
struct UnitState;

class Muon {
public:
  Muon(Context &context, AdjustLR adjust);

  /// Takes the gradients of the unit's matrices into their momentum.
  void start(size_t unit, ShxKernel kernel);
  /// Waits until all of them are orthogonal, making those so meanwhile that
  /// this rank owns, of later units too; then moves the masters.
  void finish(size_t unit, ShxKernel kernel);

private:
  struct Task {
    size_t unit;
    const MuonPlan::Matrix *matrix;
    bool isLast; // of the unit's that this rank owns
  };
  bool writes(const UnitState &u, const MuonPlan::Matrix &matrix) const;
  void addTasks(size_t unit);
  void runTask();
  /// Of a matrix that is split over the tensor axis, whose parts come together
  /// here.
  void orthogonalizeJoined(const UnitState &u, const MuonPlan::Matrix &matrix);
  void takeMomentum(const UnitState &u, const Interval &cut, bool writes,
                    ShxKernel kernel);

  Context &context;
  const MuonPlan &plan;
  std::vector<std::vector<float>> factors; // on the learning rate: [unit] each
  std::deque<Task> tasks;
};

} // namespace shardonnx::rt

#endif // SHARDONNX_RUNTIME_CPU_MUON_H
