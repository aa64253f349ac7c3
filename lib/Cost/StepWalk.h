// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A step as the manifest's functions say it, played call by call: when the work
// of a rank, its queues of collectives and its copies begin and end.

#ifndef SHARDONNX_LIB_COST_STEPWALK_H
#define SHARDONNX_LIB_COST_STEPWALK_H

#include "UpdateQueue.h"

#include "shardonnx/Cost/AxisTime.h"
#include "shardonnx/Cost/Exposure.h"

#include <array>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace shardonnx {

/// Elements of the unit that a rank owns, on average.
double ownedElements(const Manifest::Unit &unit, const Topology &topology);

/// Of a rank like all others, but for a straggler that they wait for.
class StepWalk {
public:
  StepWalk(const Manifest &manifest, const Device &device,
           const Topology &topology, const StepPlay &play)
      : m(manifest), device(device), topology(topology), play(play),
        products(productDevice()), group(ownersOf(topology)),
        replicas(topology.replicas), slower(1 + play.straggler),
        gathered(manifest.units.size()), reduced(manifest.units.size()),
        resharded(manifest.units.size()) {}

  void run(const std::string &function);
  void endStep();
  double time() const { return now; }
  StepExposure step;                       // since it was last cleared
  std::vector<FunctionSchedule> functions; // the same

private:
  /// Seconds of work, by what bounds it.
  struct Work {
    double products = 0, attention = 0, memory = 0;
    // That it waits for collectives along each axis.
    std::array<double, kMeshAxes> axes = {};
    // That are started behind it.
    std::array<double, kMeshAxes> started = {};
    double seconds() const { return products + attention + memory; }
    Work &operator+=(const Work &other);
    Work operator*(double times) const;
  };
  void work(const Work &work);
  void sendAlongAxes(const Work &work, double begin);
  void shareLinks(double &seconds, MeshAxis axis, double busy);
  void shareLinksWithAxis(double &seconds, double begin);
  void work(double seconds, double ofProducts = 0);
  bool updatesBeside() const;
  void passUpdates(double begin, double rate);
  void finishUpdate(int64_t unit);
  Work launchWork(const Manifest::Launch &launch, Manifest::Phase phase) const;
  void addEager(const Manifest::Function &function,
                std::vector<Work> &segments) const;
  void addSelective(const Manifest::Function &function,
                    std::vector<Work> &segments) const;
  void delay(size_t unit, double collective, double ofReplicas = 0);
  double memorySeconds(double bytes) const;
  Device productDevice() const;
  double slowed(double seconds, double ofProducts, double clock) const;
  void call(const Manifest::Collective &call);
  void hostCopy(const Manifest::Collective &call);
  void startAlong(const Work &before);
  void waitAlong();
  double start(double &queue, double seconds);
  double gatherSeconds(const Manifest::Unit &unit, bool nearby) const;
  double reduceSeconds(const Manifest::Unit &unit) const;
  double replicaSeconds(const Manifest::Unit &unit) const;
  double optimizerBytes(const Manifest::Unit &unit) const;
  double newtonSchulzSeconds(const Manifest::Unit &unit) const;
  double normBytes() const;
  std::vector<Work> workOf(const Manifest::Function &function) const;
  bool half() const { return m.paramType != SHX_F32; }
  double waitUntil(double until, int64_t unit);
  void wait(size_t unit, double until, double ofReplicas = 0);
  void record(Span::Queue queue, int64_t unit, double begin, double end) {
    functions.back().others.push_back({queue, unit, begin, end});
  }
  void workBetween(const Work &parts) {
    double begin = now;
    work(parts);
    functions.back().work.push_back({Span::Work, -1, begin, now});
  }

  const Manifest &m;
  const Device &device;
  const Topology &topology;
  const StepPlay &play;
  Device products;          // what of the device products take
  RankGroup group;          // ranks that share a unit
  int64_t replicas;         // copies of it
  double slower;            // the straggler's work, to that of the others
  double now = 0, late = 0; // clocks of the others and of the straggler
  double gatherQueue = 0, reduceQueue = 0; // when each is free
  double axisQueue = 0;                    // the same
  struct Along {
    MeshAxis axis;
    double end;
  };
  std::deque<Along> along;               // what no wait has ended
  double wire = 0;                       // when nothing is being sent
  std::vector<double> gathered, reduced; // when the last one ends
  UpdateQueue updates;                   // what the next step has beside it
  std::vector<bool> resharded;           // lies within its reshard_group
  double awayQueue = 0, backQueue = 0;   // to the host and from it
  std::map<int64_t, double> copied;      // when each copy ends
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_COST_STEPWALK_H
