// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How ranks share units, the plan of a rank's memory, and the manifest that
// both are read from.

#include "../../runtime/core/Topology.h"
#include "../../runtime/support/Error.h"
#include "runtime/SmallModel.h"
#include "shardonnx/runtime/MemoryPlan.h"

#include <gtest/gtest.h>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::test;

namespace {

int64_t item(const Manifest &m, const Topology &topology,
             const std::string &name) {
  for (const MemoryItem &item : planMemory(m, topology, 1))
    if (item.name == name)
      return item.bytes;
  return -1;
}

TEST(Topology, GroupsAreConsecutiveRanks) {
  Topology t(6, 2);
  EXPECT_EQ(t.groupSize(), 3);
  EXPECT_EQ(t.groupRank(4), 1);
  EXPECT_EQ(t.replica(4), 1);
  EXPECT_EQ(t.owned(true, 1024, 4).begin, sliceLength(1024, 3));
  EXPECT_EQ(t.owned(false, 1024, 4).size(), 1024);
}

TEST(Topology, TensorGroupsAreNeighbours) {
  Topology t(12, 2, /*ranksHere=*/0, kSliceAlignment, /*tensor=*/2);
  EXPECT_EQ(t.groupSize(), 3);
  EXPECT_EQ(t.tensorRank(9), 1);
  EXPECT_EQ(t.dataRank(9), 4);
  EXPECT_EQ(t.groupRank(9), 1);
  EXPECT_EQ(t.replica(9), 1);
  EXPECT_EQ(t.group(9), 3);
  EXPECT_EQ(t.rankAt(1, 1, 3), 9);
  EXPECT_EQ(t.owned(true, 1024, 9).begin, t.owned(true, 1024, 8).begin);
  for (int place : {0, 1, 2}) {
    int rank = t.rankAt(/*replica=*/1, place, /*like=*/1);
    EXPECT_EQ(t.ownedAt(true, 1024, place).begin,
              t.owned(true, 1024, rank).begin);
    EXPECT_EQ(t.ownedAt(true, 1024, place).end, t.owned(true, 1024, rank).end);
    EXPECT_EQ(t.ownedAt(false, 1024, place).size(), 1024);
  }
}

TEST(Topology, MeshesTakeTheRanksTheyName) {
  Manifest m = smallModel();
  Options o;
  m.strategy = Strategy::HybridShard;
  m.mesh.set(MeshAxis::Tensor, 2);
  EXPECT_EQ(topologyOf(m, o, 6, 6).groupSize(), 3);
  EXPECT_THROW(topologyOf(m, o, 5, 5), Error);
  EXPECT_EQ(topologyOf(m, o, 4, 2).replicas, 2); // two machines
  EXPECT_THROW(topologyOf(m, o, 6, 3), Error);
  checkMachines(m, o, {0, 0, 1, 1});
  EXPECT_THROW(checkMachines(m, o, {0, 1, 0, 1}), Error);
  m.mesh.set(MeshAxis::Replicate, 3);
  EXPECT_EQ(topologyOf(m, o, 6, 6).replicas, 3);
  EXPECT_THROW(topologyOf(m, o, 8, 8), Error);
  m.mesh.set(MeshAxis::Shard, 2);
  EXPECT_EQ(topologyOf(m, o, 12, 12).groupSize(), 2);
  EXPECT_THROW(topologyOf(m, o, 24, 24), Error);
  o.replicas = 2;
  EXPECT_THROW(topologyOf(m, o, 12, 12), Error);
}

TEST(Topology, ReplicasAreForHybridStrategies) {
  Manifest m = smallModel();
  Options o;
  m.strategy = Strategy::FullShard;
  EXPECT_EQ(topologyOf(m, o, 4, 2).replicas, 1);
  o.replicas = 1;
  EXPECT_EQ(topologyOf(m, o, 4, 2).replicas, 1);
  o.replicas = 2;
  EXPECT_THROW(topologyOf(m, o, 4, 2), Error);
  m.strategy = Strategy::HybridShard;
  EXPECT_EQ(topologyOf(m, o, 4, 4).replicas, 2);
  EXPECT_THROW(topologyOf(m, o, 3, 3), Error);
  o.replicas = 0; // one a machine
  EXPECT_EQ(topologyOf(m, o, 6, 2).replicas, 3);
  EXPECT_EQ(topologyOf(m, o, 5, 2).replicas, 1);
}

TEST(MemoryPlan, CountsWhatEachRankHas) {
  Manifest m = smallModel();
  EXPECT_EQ(item(m, 1, "master weights"), 4096);
  EXPECT_EQ(item(m, 2, "master weights"), 2048);
  EXPECT_EQ(item(m, 2, "optimizer state"), 4096);
  EXPECT_EQ(item(m, 3, "reduced gradients"), sliceLength(1024, 3) * 4);
  EXPECT_EQ(item(m, 2, "full gradients"), 4096);
  EXPECT_EQ(item(m, 2, "activations and workspaces"), 1 << 20);
  m.units[0].sharded = false;
  EXPECT_EQ(item(m, 2, "master weights"), 4096);
  EXPECT_EQ(item(m, 2, "reduced gradients"), 2048);
}

TEST(MemoryPlan, CountsReplicasAndEachUnitsDtype) {
  Manifest m = smallModel();
  // Two bf16 units of 1024 that take turns, behind one that is in place.
  for (int64_t begin : {4096, 5120}) {
    Manifest::Unit unit = m.units[0];
    unit.gatherInPlace = false;
    unit.paramType = SHX_BF16;
    unit.paramOffsetBytes = begin;
    m.units.push_back(unit);
  }
  m.gatherSpace.bytes = 7168;
  EXPECT_EQ(item(m, 1, "gathered parameters"), 3072);
  EXPECT_EQ(item(m, 2, "gathered parameters"), 1536);
  EXPECT_EQ(item(m, 2, "master weights"), 3 * 2048);
  // Beside the masters, what products read of them.
  EXPECT_EQ(item(m, 2, "low-precision parameters"), 2 * 1024);
  Topology hybrid(4, 2);
  EXPECT_EQ(item(m, hybrid, "gathered parameters"), 1536);
  EXPECT_EQ(item(m, hybrid, "master weights"), 3 * 2048);
  EXPECT_EQ(item(m, hybrid, "reduced gradients"), 3 * 2048);
}

// Each rank of a tensor group has a part, which the others of its group share.
TEST(MemoryPlan, CountsTheRanksOfAPart) {
  Manifest m = smallModel();
  m.mesh.set(MeshAxis::Tensor, 2);
  m.meshBytes = 4096;
  Topology mesh(4, 1, 0, kSliceAlignment, 2);
  EXPECT_EQ(item(m, mesh, "master weights"), 2048);
  EXPECT_EQ(item(m, mesh, "axes of the mesh"), 4096);
  m.units[0].sharded = false;
  EXPECT_EQ(item(m, mesh, "reduced gradients"), 2048);
}

// Where the update writes the gathered unit, it has no other place.
TEST(MemoryPlan, CountsWhatIsReadInPlaceOnce) {
  Manifest m = smallModel();
  m.units[0].paramType = SHX_BF16;
  m.units[0].frozenLength = 256;
  m.units[0].frozenOffsetBytes = 2048;
  m.gatherSpace.bytes = 2560;
  EXPECT_EQ(item(m, 2, "gathered parameters"), 0);
  EXPECT_EQ(item(m, 2, "low-precision parameters"), 1024);
  EXPECT_EQ(item(m, 2, "frozen weights"), 256);
  // Not so where other machines own a part.
  Topology machines(4, 1, 2);
  EXPECT_EQ(item(m, machines, "gathered parameters"), 1280);
  EXPECT_EQ(item(m, machines, "low-precision parameters"), 512);
}

TEST(MemoryPlan, GradientsMayBeTheirSum) {
  Manifest m = smallModel();
  EXPECT_TRUE(gradientsAreTheirSum(m, 1, 1));
  EXPECT_FALSE(gradientsAreTheirSum(m, 1, 2));
  EXPECT_FALSE(gradientsAreTheirSum(m, 2, 1));
  m.unshardedAccumulation = true;
  EXPECT_TRUE(gradientsAreTheirSum(m, 1, 2));
  m.units[0].reduceType = SHX_BF16;
  EXPECT_FALSE(gradientsAreTheirSum(m, 1, 2));
}

TEST(MemoryPlan, GradientsMayLieAmongActivations) {
  Manifest m = smallModel();
  EXPECT_FALSE(gradientsLieAmongActivations(m, 1, 1)); // they have no place
  EXPECT_EQ(item(m, 1, "reduced gradients"), 4096);
  m.units[0].gradPlaceBytes = (1 << 20) - 1024;
  EXPECT_TRUE(gradientsLieAmongActivations(m, 1, 1));
  EXPECT_FALSE(gradientsLieAmongActivations(m, 1, 2));
  EXPECT_FALSE(gradientsLieAmongActivations(m, 2, 1));
  EXPECT_EQ(item(m, 1, "reduced gradients"), 0);
  EXPECT_EQ(item(m, 1, "activations and gradients"), (1 << 20) + 3072);
  EXPECT_EQ(item(m, 2, "reduced gradients"), 2048);
  EXPECT_EQ(item(m, 2, "activations and workspaces"), 1 << 20);
}

TEST(MemoryPlan, SlicesMayLieAmongActivations) {
  Manifest m = smallModel();
  Manifest::Unit &unit = m.units[0];
  EXPECT_FALSE(sliceLiesAmongActivations(m, unit, 2, 1)); // it has no place
  unit.slicePlaceBytes = 4096;
  EXPECT_TRUE(sliceLiesAmongActivations(m, unit, 2, 1));
  EXPECT_TRUE(sliceLiesAmongActivations(m, unit, 3, 1));
  // The sum of microbatches outlives them; replicas read one another's.
  EXPECT_FALSE(sliceLiesAmongActivations(m, unit, 2, 2));
  EXPECT_FALSE(sliceLiesAmongActivations(m, unit, Topology(4, 2), 1));
  EXPECT_FALSE(sliceLiesAmongActivations(m, unit, 1, 1));
  EXPECT_EQ(item(m, 2, "reduced gradients"), 0);
  EXPECT_EQ(item(m, 2, "activations and gradients"), 1 << 20);
  EXPECT_EQ(item(m, Topology(4, 2), "reduced gradients"), 2048);
  unit.sharded = false;
  EXPECT_FALSE(sliceLiesAmongActivations(m, unit, 2, 1));
}

TEST(Manifest, DamageIsTold) {
  std::string error;
  EXPECT_FALSE(parseManifest("{", error));
  EXPECT_NE(error.find("manifest"), std::string::npos);
  EXPECT_FALSE(parseManifest("{\"abi\": 99}", error));
  EXPECT_NE(error.find("compile it again"), std::string::npos);
}

// A manifest that can be read, with one number replaced.
std::string errorOfManifest(const std::string &from, const std::string &to) {
  std::string json = R"({"abi": 16, "hash": "", "model": {"path": "m.onnx"},
    "batch": 1, "seq": 4, "inputs": [],
    "loss": {"kind": "mse", "denominator": "labels", "denominator_shift": 0,
             "denominator_per_microbatch": 4},
    "param_dtype": "f32", "reduce_dtype": "f32",
    "units": [{"name": "u", "layout": "sharded", "length": 256,
               "gather_in_place": true,
               "param_offset_bytes": 0, "grad_offset_bytes": 0,
               "frozen_length": 0, "frozen_offset_bytes": 1024, "params": []}],
    "spaces": {"private": {"bytes": 0, "lower_bound_bytes": 0},
               "gather": {"bytes": 0, "lower_bound_bytes": 0},
               "gradients": {"bytes": 1024, "lower_bound_bytes": 0}}})";
  size_t at = json.find(from);
  json.replace(at, from.size(), to);
  std::string error;
  parseManifest(json, error);
  return error;
}

TEST(Manifest, SizesAreBounded) {
  EXPECT_EQ(errorOfManifest("\"seq\"", "\"seq\""), "");
  for (std::string key : {"denominator_shift", "denominator_per_microbatch",
                          "seq", "frozen_length", "frozen_offset_bytes"})
    for (std::string value : {"-64", "4611686018427387904"}) {
      std::string name = "\"" + key + "\": ";
      std::string error = errorOfManifest(name, name + value + ", \"x\": ");
      EXPECT_NE(error.find("'" + key + "' is out of range"), std::string::npos)
          << key << " " << value << ": " << error;
    }
}

} // namespace
