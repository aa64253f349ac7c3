// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Muon.h.

#include "Muon.h"
#include "../core/ParamPart.h"
#include "Update.h"
#include "kernels/NewtonSchulz.h"
#include "kernels/Pool.h"
#include <algorithm>
#include <utility>

namespace shardonnx::rt {
namespace {

// What a part of the owned slice has of a matrix.
Interval within(const UnitState &u, const Interval &part,
                const MuonPlan::Matrix &matrix) {
  int64_t begin = u.owned.begin;
  Interval cut = matrix.within({begin + part.begin, begin + part.end});
  return {cut.begin - begin, cut.end - begin};
}

uint16_t *directionsAt(const UnitState &u, const Interval &cut) {
  return u.directions + u.owned.begin + cut.begin;
}

// Calls visit(element of the whole, element of the part in its group's
// directions, count) for all parts of a split matrix.
template <typename Visit>
void forPartsOf(const UnitState &u, const MuonPlan::Matrix &matrix,
                Visit visit) {
  const Manifest::Param &param = *matrix.param;
  auto count = static_cast<int64_t>(u.partDirections.size());
  parallelTasks(count, [&](int64_t part) {
    uint16_t *directions =
        u.partDirections[static_cast<size_t>(part)] + param.offset;
    ParamPart(param, part, count)
        .forRuns(0, param.elements(),
                 [&](int64_t at, int64_t whole, int64_t length) {
                   visit(whole, directions + at, length);
                 });
  });
}

} // namespace

Muon::Muon(Context &context, AdjustLR adjust)
    : context(context), plan(context.state->muon) {
  for (const MuonPlan::Unit &unit : plan.units) {
    std::vector<float> &ofUnit = factors.emplace_back();
    for (const MuonPlan::Matrix &matrix : unit.matrices)
      ofUnit.push_back(matrix.factor(adjust));
  }
}

// Every rank has all of a replicated unit: one of them writes.
bool Muon::writes(const UnitState &u, const MuonPlan::Matrix &matrix) const {
  return u.unit->sharded || matrix.owner == context.state->muonOwner();
}

void Muon::takeMomentum(const UnitState &u, const Interval &cut, bool writes,
                        ShxKernel kernel) {
  auto *scratch = reinterpret_cast<uint16_t *>(context.state->muonWorkspace());
  int64_t step = writes ? cut.size() : plan.workspaceBytes / kDirectionBytes;
  for (int64_t at = cut.begin; at < cut.end; at += step) {
    Interval part{at, std::min(at + step, cut.end)};
    OptimizerBuffers buffers = u.optimizerBuffers(part);
    buffers.params =
        reinterpret_cast<uint8_t *>(writes ? directionsAt(u, part) : scratch);
    runOptimizer(context, u, buffers, /*decay=*/true, kernel, "momentum");
  }
}

void Muon::start(size_t unit, ShxKernel kernel) {
  const UnitState &u = context.state->units[unit];
  context.communicator->awaitDirections(unit);
  forParts(context, unit, [&](const Interval &part) {
    for (const MuonPlan::Matrix &matrix : plan.units[unit].matrices)
      if (Interval cut = within(u, part, matrix); cut.size() > 0)
        takeMomentum(u, cut, writes(u, matrix), kernel);
  });
  context.communicator->publishDirections(unit);
  addTasks(unit);
}

void Muon::addTasks(size_t unit) {
  bool any = false;
  for (const MuonPlan::Matrix &matrix : plan.units[unit].matrices)
    if (context.state->ownsMatrix(matrix)) {
      tasks.push_back({unit, &matrix, false});
      any = true;
    }
  if (any)
    tasks.back().isLast = true;
  else
    context.communicator->publishOrthogonal(unit);
}

void Muon::runTask() {
  Task task = tasks.front();
  tasks.pop_front();
  const UnitState &u = context.state->units[task.unit];
  {
    TraceScope scope(&context, "newton_schulz");
    if (task.matrix->joinedAt)
      orthogonalizeJoined(u, *task.matrix);
    else
      orthogonalize(u.directions + task.matrix->param->offset,
                    task.matrix->rows(), task.matrix->columns(),
                    context.state->muonWorkspace());
  }
  if (task.isLast)
    context.communicator->publishOrthogonal(task.unit);
}

void Muon::orthogonalizeJoined(const UnitState &u,
                               const MuonPlan::Matrix &matrix) {
  uint8_t *workspace = context.state->muonWorkspace();
  auto *whole = reinterpret_cast<uint16_t *>(workspace + plan.joined);
  forPartsOf(u, matrix, [&](int64_t at, const uint16_t *part, int64_t count) {
    std::copy_n(part, count, whole + at);
  });
  orthogonalize(whole, matrix.rows(), matrix.columns(), workspace);
  forPartsOf(u, matrix, [&](int64_t at, uint16_t *part, int64_t count) {
    std::copy_n(whole + at, count, part);
  });
}

void Muon::finish(size_t unit, ShxKernel kernel) {
  const UnitState &u = context.state->units[unit];
  Communicator &communicator = *context.communicator;
  auto hasTask = [&] {
    return !tasks.empty() &&
           communicator.areDirectionsWritten(tasks.front().unit);
  };
  while (!communicator.areOrthogonal(unit)) {
    if (hasTask())
      runTask();
    else
      communicator.awaitMatrices(
          unit, [&] { return hasTask() || communicator.areOrthogonal(unit); });
  }
  communicator.updateBegin(unit);
  forParts(context, unit, [&](const Interval &part) {
    const std::vector<MuonPlan::Matrix> &matrices = plan.units[unit].matrices;
    for (size_t i = 0; i < matrices.size(); ++i)
      u.forPieces(within(u, part, matrices[i]), [&](const Interval &cut,
                                                    const Piece &piece) {
        OptimizerBuffers buffers = u.optimizerBuffers(cut);
        buffers.gradient = reinterpret_cast<float *>(directionsAt(u, cut));
        buffers.scales[0] = &factors[unit][i];
        runOptimizer(context, u, buffers, piece.decay, kernel, "muon");
      });
  });
}

} // namespace shardonnx::rt
