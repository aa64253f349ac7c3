// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NCCL's communicators of a run: one for each set of ranks that does something
// together, on each queue that does it.

#ifndef SHARDONNX_RUNTIME_CUDA_COMMUNICATORS_H
#define SHARDONNX_RUNTIME_CUDA_COMMUNICATORS_H

#include "Nccl.h"
#include "shardonnx/runtime/DevicePlan.h"
#include <map>
#include <memory>

namespace shardonnx::rt::cuda {

/// Null where a set is one rank: it has nobody to talk to.
class Communicators {
public:
  Communicators(const Manifest &manifest, const Topology &topology,
                const NcclSetup &setup);

  /// The shard group's, on the gather queue and on the reduce queue.
  NcclCommunicator *gather() const { return gatherGroup.get(); }
  NcclCommunicator *reduce() const { return reduceGroup.get(); }
  /// Of those who own the same slices, on the replica queue.
  NcclCommunicator *replicas() const { return replicaGroup.get(); }
  /// Of all ranks: on the reduce queue, with replicas on theirs.
  NcclCommunicator *world() const {
    return allRanks ? allRanks.get() : reduceGroup.get();
  }
  /// Of those that have the same part of what is split over a tensor axis, on
  /// the same queue.
  NcclCommunicator *alike() const {
    return splitRanks ? alikeRanks.get() : world();
  }
  /// Of the ranks of an axis of the mesh, on the queue of axes.
  const NcclCommunicator &axis(MeshAxis axis) const {
    return axis == MeshAxis::Tensor ? *tensorAxis : *contextAxis;
  }
  /// Of the ranks that gather a unit again for backward, on the gather queue.
  NcclCommunicator *regather(int group) const { return groups.at(group).get(); }

  std::vector<NcclCommunicator *> all() const;
  /// Those that touch gathered parameters or full gradients.
  std::vector<ncclComm_t> touchingUnits() const;

private:
  bool splitRanks; // there is a tensor axis
  std::unique_ptr<NcclCommunicator> gatherGroup, reduceGroup, replicaGroup,
      allRanks, alikeRanks, tensorAxis, contextAxis;
  std::map<int, std::unique_ptr<NcclCommunicator>> groups; // by their ranks
};

} // namespace shardonnx::rt::cuda

#endif // SHARDONNX_RUNTIME_CUDA_COMMUNICATORS_H
