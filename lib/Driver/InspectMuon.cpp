// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Of inspect: which rank makes which of Muon's matrices orthogonal.

#include "InspectReport.h"
#include "shardonnx/runtime/MuonPlan.h"
#include "shardonnx/runtime/NewtonSchulzPlan.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace shardonnx;

void shardonnx::printMuon(const Manifest &m, const InspectView &view,
                          llvm::raw_ostream &out) {
  if (!m.hasMatrices())
    return;
  int places = view.topology.groupHere(), tensor = view.topology.tensor;
  size_t owners = size_t(places) * size_t(tensor);
  std::vector<size_t> counts(owners);
  std::vector<double> flops(owners);
  double total = 0;
  size_t count = 0;
  for (const MuonPlan::Unit &unit : planMuon(m, places).units)
    for (const MuonPlan::Matrix &matrix : unit.matrices) {
      double work = newtonSchulzFlops(matrix.rows(), matrix.columns());
      for (int part : llvm::seq(tensor)) {
        if (!matrix.isOwnedBy(matrix.owner, part))
          continue;
        size_t owner = size_t(matrix.owner) * size_t(tensor) + size_t(part);
        flops[owner] += work;
        total += work;
        ++counts[owner];
      }
      ++count;
    }
  out << "\nMuon: " << count << " matrices, " << llvm::format("%.3g", total)
      << " FLOPs a step to make them orthogonal, each by one rank"
      << (places * tensor < view.topology.ranks ? " of a group" : "") << '\n';
  constexpr size_t kShown = 8;
  for (size_t owner = 0; owner < std::min(owners, kShown); ++owner)
    out << "  rank " << owner << ": " << counts[owner] << ", "
        << llvm::format("%.1f %%", 100 * flops[owner] / total) << '\n';
  if (owners > kShown)
    out << "  and " << owners - kShown << " more\n";
}

std::vector<int> shardonnx::muonOwners(const Manifest &m,
                                       const Manifest::Unit &unit,
                                       const Topology &topology) {
  std::vector<int> owners(unit.params.size(), -1);
  MuonPlan plan = planMuon(m, topology.groupHere());
  for (const MuonPlan::Matrix &matrix :
       plan.units[size_t(&unit - m.units.data())].matrices)
    owners[size_t(matrix.param - unit.params.data())] =
        matrix.owner * topology.tensor + matrix.joinedAt.value_or(0);
  return owners;
}
