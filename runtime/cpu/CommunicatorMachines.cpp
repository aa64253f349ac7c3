// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the communicator does where a group of ranks is on several machines: on
// each, shared memory holds what is gathered and every local rank's gradients;
// slices and the machines' sums travel.

#include "../support/Error.h"
#include "Communicator.h"
#include <cstring>

namespace shardonnx::rt {

bool Communicator::travels(size_t unit) const {
  return network && routeOf(unit).leavesMachine();
}

// What a member of the unit's route gathers from its masters and sums.
Interval Communicator::partOf(size_t unit, bool trainable,
                              size_t member) const {
  const Manifest::Unit &u = *units[unit].unit;
  return ownedInterval(
      trainable ? u.length : u.frozenLength, static_cast<int64_t>(member),
      static_cast<int64_t>(routeOf(unit).members.size()),
      u.sharded ? state.topology.sliceAlignment : kSliceAlignment);
}

// This rank's slice goes to the other machines, and those that it carries come
// into the gathered unit that this machine's ranks share.
void Communicator::sendSlices(size_t unit, uint64_t gather) {
  UnitState &u = units[unit];
  int64_t element = dtypeBytes(u.unit->paramType);
  for (bool trainable : {true, false}) {
    uint8_t *section = u.gathered + (trainable ? 0 : u.unit->frozenOffsetBytes);
    network->gather(
        routeOf(unit),
        {trainable ? Network::Gather : Network::GatherFrozen,
         static_cast<uint32_t>(unit), gather},
        [&](size_t member) {
          return section + partOf(unit, trainable, member).begin * element;
        },
        [&](size_t member) {
          return static_cast<size_t>(partOf(unit, trainable, member).size() *
                                     element);
        });
  }
}
// A replicated unit's sum is whole on each machine, once it is read.
void Communicator::sumOverMachines(size_t unit, uint64_t reduction,
                                   bool accumulate, bool last) {
  UnitState &u = units[unit];
  const Route &route = routeOf(unit);
  Network::Reduction sum;
  for (int rank : route.local)
    sum.sources.push_back(u.gradients[route.place(rank)]);
  sum.partOf = [&](size_t member) { return partOf(unit, true, member); };
  sum.dtype = u.unit->reduceType;
  sum.out = u.reduced + (u.reducePart.begin - u.owned.begin);
  sum.accumulate = accumulate;
  auto id = static_cast<uint32_t>(unit);
  network->reduceScatter(route, {Network::Reduce, id, reduction}, sum);
  if (sharded(unit) || !last)
    return;
  network->gather(
      route, {Network::Spread, id, reduction},
      [&](size_t member) {
        return reinterpret_cast<uint8_t *>(u.reduced +
                                           partOf(unit, true, member).begin);
      },
      [&](size_t member) {
        return static_cast<size_t>(partOf(unit, true, member).size()) *
               sizeof(float);
      });
}

void Communicator::sumOverReplicas(size_t unit, uint64_t sum) {
  UnitState &u = units[unit];
  TraceSpan span(trace, TraceRow::Replicas, u.unit->name.c_str(),
                 static_cast<int64_t>(unit));
  network->allReduce(routes.column,
                     {Network::Replicas, static_cast<uint32_t>(unit), sum},
                     u.reduced, u.owned.size());
  control.mine(unit).replicaSummed.store(sum, std::memory_order_release);
  control.publish(control.mine(unit).replicaDone, sum);
}

std::vector<Communicator::LossSum>
Communicator::fromMachines(const LossSum &mine, Activity activity) {
  const char *name = activity == Activity::Norm ? "norm" : "loss";
  TraceSpan span(trace, TraceRow::Waiting, name, -1);
  std::string bytes(reinterpret_cast<const char *>(&mine), sizeof(mine));
  std::vector<LossSum> values;
  for (const std::string &theirs : exchange.allGather(bytes, activity)) {
    LossSum value;
    if (theirs.size() != sizeof(value))
      fail("a rank sent no number for the ", name);
    std::memcpy(&value, theirs.data(), sizeof(value));
    values.push_back(value);
  }
  return values;
}

} // namespace shardonnx::rt
