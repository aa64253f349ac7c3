// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the communicator does where a group of ranks is on several machines: on
// each, shared memory holds what is gathered and every local rank's gradients;
// slices and the machines' sums travel.

#include "../core/GatherImage.h"
#include "../support/Error.h"
#include "Communicator.h"
#include <algorithm>
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
  bool asImages = sendsImages(unit);
  if (asImages)
    sendImages(unit, gather);
  for (bool trainable : {true, false}) {
    if (trainable && asImages)
      continue;
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

// This rank's image lies first, then those that it carries, each with room for
// the largest slice. One gather is on its way at a time.
void Communicator::planImages() {
  const Route &route = routes.group;
  images.places.resize(route.members.size());
  for (size_t i = 0; i < route.carried.size(); ++i)
    images.places[route.carried[i]] = i + 1;
  int64_t largest = 0;
  for (size_t unit = 0; unit < units.size(); ++unit)
    if (sharded(unit) && sendsImages(unit))
      largest =
          std::max(largest, gatherImageBytes(units[unit].unit->gatherType,
                                             partOf(unit, true, 0).size()));
  images.step = static_cast<size_t>(largest);
  images.memory.resize(images.step * (route.carried.size() + 1));
}

// The trainable section, as --gather-dtype sends it.
void Communicator::sendImages(size_t unit, uint64_t gather) {
  const UnitState &u = units[unit];
  const Route &route = routeOf(unit);
  GatherDtype type = u.unit->gatherType;
  ShxDType param = u.unit->paramType;
  auto slice = [&](size_t member) {
    return u.gathered + partOf(unit, true, member).begin * dtypeBytes(param);
  };
  auto image = [&](size_t member) {
    return images.memory.data() + images.places[member] * images.step;
  };
  size_t mine = route.place(control.rank());
  encodeImage(type, param, slice(mine), image(mine),
              partOf(unit, true, mine).size());
  network->gather(route, {Network::Gather, static_cast<uint32_t>(unit), gather},
                  image, [&](size_t member) {
                    return static_cast<size_t>(gatherImageBytes(
                        type, partOf(unit, true, member).size()));
                  });
  for (size_t member : route.carried)
    decodeImage(type, image(member), param, slice(member),
                partOf(unit, true, member).size());
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
