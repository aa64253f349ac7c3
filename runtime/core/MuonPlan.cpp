// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See MuonPlan.h.

#include "shardonnx/runtime/MuonPlan.h"
#include "../cuda/plan/NewtonSchulzPlan.h"
#include "shardonnx/runtime/DevicePlan.h"
#include "shardonnx/runtime/NewtonSchulzPlan.h"
#include <algorithm>
#include <cmath>
#include <utility>

namespace shardonnx {
namespace {

constexpr size_t kPlaces = kMuonWindow;

double flopsOf(const MuonPlan::Matrix &matrix) {
  return newtonSchulzFlops(matrix.rows(), matrix.columns());
}

// Ranks of all parts, by place and then by part.
class Loads {
public:
  Loads(int owners, int parts)
      : parts(parts), loads(static_cast<size_t>(owners * parts)) {}
  // A split matrix goes to one rank; any other to those at one place in the
  // groups of all parts, which have the same of those that are not split.
  void assign(MuonPlan::Matrix &matrix) {
    double work = flopsOf(matrix);
    auto least = std::min_element(loads.begin(), loads.end());
    auto rank = static_cast<int>(least - loads.begin());
    if (matrix.param->split) {
      *least += work;
      matrix.owner = rank / parts;
      matrix.joinedAt = rank % parts;
      return;
    }
    matrix.owner = leastPlace();
    auto first = loads.begin() + matrix.owner * parts;
    for (auto load = first; load < first + parts; ++load)
      *load += work;
  }

private:
  // By what its busiest rank has to do.
  int leastPlace() const {
    auto busiest = [&](int place) {
      auto first = loads.begin() + place * parts;
      return *std::max_element(first, first + parts);
    };
    int least = 0;
    for (int p = 1; p < static_cast<int>(loads.size()) / parts; ++p)
      if (busiest(p) < busiest(least))
        least = p;
    return least;
  }

  int parts;
  std::vector<double> loads;
};

// The unit's matrices, the most work first.
std::vector<MuonPlan::Matrix> matricesOf(const Manifest::Unit &unit) {
  std::vector<MuonPlan::Matrix> matrices;
  for (const Manifest::Param &param : unit.params)
    if (unit.isMatrix(param))
      matrices.push_back({&param, 0});
  std::stable_sort(
      matrices.begin(), matrices.end(),
      [](const auto &a, const auto &b) { return flopsOf(a) > flopsOf(b); });
  return matrices;
}

// Where each place begins in the window, which is as long as it must be.
void placeDirections(const Manifest &manifest,
                     const std::vector<size_t> &withMatrices, MuonPlan &plan) {
  for (size_t place = 0; place < kPlaces; ++place) {
    int64_t bytes = 0;
    size_t last = 0;
    for (size_t i = place; i < withMatrices.size(); i += kPlaces) {
      last = withMatrices[i];
      MuonPlan::Unit &unit = plan.units[last];
      unit.offset = plan.windowBytes;
      unit.before = i < kPlaces ? last : withMatrices[i - kPlaces];
      bytes = std::max(
          bytes, alignTo(manifest.units[last].matrixLength * kDirectionBytes,
                         kBufferAlignmentBytes));
    }
    if (place < withMatrices.size()) // around, from the step before
      plan.units[withMatrices[place]].before = last;
    plan.windowBytes += bytes;
  }
}

} // namespace

float MuonPlan::Matrix::factor(AdjustLR adjust) const {
  auto m = static_cast<double>(rows()), n = static_cast<double>(columns());
  double factor = adjust == AdjustLR::Original
                      ? std::sqrt(std::max(1.0, m / n))
                      : 0.2 * std::sqrt(std::max(m, n));
  return static_cast<float>(factor);
}

bool MuonPlan::Matrix::staysIn(const Interval &owned) const {
  int64_t at = (param->offset - owned.begin) * kDirectionBytes;
  return within(owned).size() == param->elements() &&
         at % kDeviceAlignmentBytes == 0;
}

MuonPlan planMuon(const Manifest &manifest, int owners) {
  MuonPlan plan;
  Loads loads(owners, static_cast<int>(manifest.mesh.tensor()));
  int64_t joinedBytes = 0;
  std::vector<size_t> withMatrices;
  for (const Manifest::Unit &unit : manifest.units) {
    MuonPlan::Unit &planned = plan.units.emplace_back();
    planned.matrices = matricesOf(unit);
    for (MuonPlan::Matrix &matrix : planned.matrices) {
      loads.assign(matrix);
      if (matrix.joinedAt)
        joinedBytes = std::max(joinedBytes, matrix.bytes());
      plan.workspaceBytes =
          std::max(plan.workspaceBytes,
                   planNewtonSchulz(matrix.rows(), matrix.columns()).bytes);
    }
    if (unit.matrixLength > 0)
      withMatrices.push_back(plan.units.size() - 1);
  }
  plan.joined = alignTo(plan.workspaceBytes, kBufferAlignmentBytes);
  if (joinedBytes > 0)
    plan.workspaceBytes = plan.joined + joinedBytes;
  placeDirections(manifest, withMatrices, plan);
  return plan;
}

// What a place needs of a unit: the largest slice, and the most that one rank
// owns and has not in its slice, or of whose parts it joins.
static std::pair<int64_t, int64_t> bytesOf(const MuonPlan::Unit &planned,
                                           const Manifest::Unit &unit,
                                           const Topology &topology) {
  int64_t slice = 0, matrices = 0;
  for (int rank = 0; rank < topology.groupSize(); ++rank) {
    Interval owned = topology.ownedAt(unit.sharded, unit.length, rank);
    int64_t end = std::min(owned.end, unit.matrixLength);
    slice = std::max(slice, (end - owned.begin) * kDirectionBytes);
    int64_t ofPlace = 0;
    std::vector<int64_t> ofPart(static_cast<size_t>(topology.tensor));
    for (const MuonPlan::Matrix &matrix : planned.matrices) {
      if (matrix.owner != rank)
        continue;
      int64_t part = alignTo(matrix.partBytes(), kDeviceAlignmentBytes);
      ofPlace += matrix.staysIn(owned) ? 0 : part;
      if (matrix.joinedAt)
        ofPart[static_cast<size_t>(*matrix.joinedAt)] += part * topology.tensor;
    }
    matrices = std::max(
        matrices, ofPlace + *std::max_element(ofPart.begin(), ofPart.end()));
  }
  return {alignTo(slice, kDeviceAlignmentBytes), matrices};
}

DeviceMuonPlan planDeviceMuon(const Manifest &manifest,
                              const Topology &topology) {
  MuonPlan owners = planMuon(manifest, topology.groupSize());
  DeviceMuonPlan plan;
  plan.units.resize(manifest.units.size());
  std::vector<int64_t> places(kPlaces);
  std::vector<size_t> placeOf(manifest.units.size());
  size_t count = 0;
  int64_t joinedBytes = 0;
  for (size_t u = 0; u < manifest.units.size(); ++u) {
    const MuonPlan::Unit &planned = owners.units[u];
    if (planned.matrices.empty())
      continue;
    auto [slice, matrices] = bytesOf(planned, manifest.units[u], topology);
    plan.units[u].matrices = slice;
    placeOf[u] = count++ % kPlaces;
    int64_t &place = places[placeOf[u]];
    place = std::max(place, slice + matrices);
    for (const MuonPlan::Matrix &matrix : planned.matrices) {
      plan.workspaceBytes = std::max(
          plan.workspaceBytes,
          rt::cuda::planNewtonSchulz(matrix.rows(), matrix.columns()).bytes);
      if (matrix.joinedAt)
        joinedBytes = std::max(joinedBytes,
                               alignTo(matrix.bytes(), kDeviceAlignmentBytes));
    }
  }
  size_t matrices = 0;
  for (const MuonPlan::Unit &unit : owners.units)
    matrices += unit.matrices.size();
  plan.joined = alignTo(plan.workspaceBytes, kDeviceAlignmentBytes);
  if (joinedBytes > 0)
    plan.workspaceBytes = plan.joined + joinedBytes;
  plan.factors = plan.workspaceBytes;
  plan.workspaceBytes +=
      alignTo(int64_t(matrices * sizeof(float)), kDeviceAlignmentBytes);
  std::vector<int64_t> begins;
  for (int64_t place : places) {
    begins.push_back(plan.windowBytes);
    plan.windowBytes += place;
  }
  for (size_t u = 0; u < manifest.units.size(); ++u) {
    plan.units[u].slice = begins[placeOf[u]];
    plan.units[u].matrices += begins[placeOf[u]];
  }
  return plan;
}

} // namespace shardonnx
