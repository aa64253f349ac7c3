// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A rank that runs the collectives of a small model as a program does (a
// function that gathers units and reduces gradients, one that changes the
// masters) on its GPU and looks at every element: each function once issued
// call by call, then as a graph. The numbers are such that every sum is exact
// in every type. COLLECTIVES_ROUNDS makes it go on.
//   collectives f32|bf16|f16 f32|bf16|f16 [REPLICAS [RESHARD_GROUP]]
// (param_dtype, reduce_dtype)

#include "comm/Monitor.h"
#include "cuda/Engine.h"
#include "cuda/collectives/Collectives.h"
#include "cuda/launch/Function.h"
#include "cuda/state/Slices.h"
#include "support/Error.h"
#include "support/Half.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::rt::cuda;

namespace {

constexpr size_t kUnits = 5, kKept = 4;

Manifest::Unit unitOf(const char *name, bool sharded, int64_t length,
                      int64_t frozen, int64_t paramAt, int64_t gradAt) {
  Manifest::Unit unit;
  unit.name = name;
  unit.sharded = sharded;
  unit.length = length;
  unit.frozenLength = frozen;
  unit.paramOffsetBytes = paramAt;
  unit.gradOffsetBytes = gradAt;
  return unit;
}

// A unit with a frozen section, whose slices of three ranks need padding; a
// replicated one; two that take turns on the same bytes; one that stays
// gathered from an update to the next. The last has dtypes of its own.
Manifest modelOf(ShxDType paramType, ShxDType reduceType,
                 int64_t reshardGroup) {
  Manifest m;
  m.paramType = paramType;
  m.reduceType = reduceType;
  m.optimizer = Optimizer::AdamW;
  int64_t p = dtypeBytes(paramType), g = dtypeBytes(reduceType);
  m.units = {unitOf("first", true, 1280, 256, 0, 0),
             unitOf("second", false, 512, 256, 1536 * p, 1280 * g),
             unitOf("third", true, 256, 0, 2304 * p, 1792 * g),
             unitOf("fourth", true, 512, 0, 2304 * p, 1792 * g),
             unitOf("kept", true, 768, 0, 2816 * p, 2304 * g)};
  for (Manifest::Unit &unit : m.units) {
    unit.paramType = paramType;
    unit.reduceType = reduceType;
    unit.frozenOffsetBytes = unit.length * p;
  }
  m.units[0].reshardGroup = reshardGroup;
  Manifest::Unit &kept = m.units[kKept];
  kept.kept = true;
  kept.paramType = kept.reduceType = SHX_F32;
  m.gatherSpace.bytes = 2816 * p + 768 * 4;
  m.gradientSpace.bytes = 2304 * g + 768 * 4;
  return m;
}

float masterOf(size_t unit, int64_t i, int turn) {
  return static_cast<float>(
      (i * 7 + static_cast<int64_t>(unit) * 13 + turn) % 251 - 125);
}
float frozenOf(size_t unit, int64_t i) {
  return static_cast<float>(i % 97) + static_cast<float>(unit);
}
float gradientOf(int rank, size_t unit, int64_t i) {
  return static_cast<float>((i + rank * 3 + static_cast<int64_t>(unit)) % 31 -
                            15);
}

std::vector<uint8_t> bytesOf(const std::vector<float> &values, ShxDType dtype) {
  auto size = static_cast<size_t>(dtypeBytes(dtype));
  std::vector<uint8_t> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = dtype == SHX_BF16 ? fromFloat<BFloat16>(values[i]).bits
                                      : fromFloat<Float16>(values[i]).bits;
    std::memcpy(
        bytes.data() + i * size,
        dtype == SHX_F32 ? static_cast<const void *>(&values[i]) : &half, size);
  }
  return bytes;
}

class Model {
public:
  Model(Context &context, const EngineSetup &setup)
      : context(context), manifest(setup.manifest), topology(setup.topology),
        state(manifest, context.rank, setup.topology, /*accumulate=*/2,
              context.collectives->symmetric()),
        numbers(static_cast<int64_t>(sizeof(double)) * (context.ranks + 1),
                "numbers"),
        again(sectionBytes(manifest.units[0]), "a copy of a unit") {
    context.state = &state;
    for (size_t u = 0; u < kUnits; ++u) {
      const Manifest::Unit &unit = manifest.units[u];
      stashes.emplace_back(sectionBytes(unit), "a copy of a unit");
      newMasters.emplace_back(state.units[u].owned.size() * 4, "new masters");
      std::vector<float> gradients;
      for (int64_t i = 0; i < unit.length; ++i)
        gradients.push_back(gradientOf(context.rank, u, i));
      std::vector<uint8_t> bytes = bytesOf(gradients, unit.reduceType);
      newGradients.emplace_back(static_cast<int64_t>(bytes.size()),
                                "new gradients");
      upload(newGradients.back().address(), bytes);
      std::vector<float> frozen;
      for (int64_t i = state.units[u].frozenOwned.begin;
           i < state.units[u].frozenOwned.end; ++i)
        frozen.push_back(frozenOf(u, i));
      upload(deviceAddress(state.units[u].frozen),
             bytesOf(frozen, unit.paramType));
    }
  }

  // What a program does with its units, first and last by itself, the two that
  // share bytes one after the other.
  void step(bool accumulate) {
    Collectives &c = *context.collectives;
    c.gatherStart(0);
    c.gatherStart(1);
    for (size_t u = 0; u < kUnits; ++u) {
      if (u >= 2 && u != kKept)
        c.gatherStart(u);
      c.gatherWait(u);
      stash(stashes[u], u);
      if (u == 0)
        leave();
      if (u != kKept)
        c.gatherFree(u);
    }
    c.gatherStart(0); // once more, as a backward pass does
    for (size_t u = kUnits; u-- > 0;) {
      if (u == 0) {
        c.gatherWait(0);
        stash(again, 0);
        c.gatherFree(0);
      }
      c.gradAcquire(u);
      copy(deviceAddress(state.units[u].gradients), newGradients[u].address(),
           newGradients[u].size());
      c.reduceStart(u, accumulate);
    }
    for (size_t u = 0; u < kUnits; ++u)
      c.reduceWait(u);
    c.allGather(numberAt(0), numberAt(1), 1);
  }

  // Masters change, what gathers read is written, and a gather of the same
  // function sees it.
  void update() {
    Collectives &c = *context.collectives;
    for (size_t u = 0; u < kUnits; ++u) {
      copy(deviceAddress(state.units[u].master), newMasters[u].address(),
           newMasters[u].size());
      castMasters(context, state.units[u]);
      c.updated(u);
    }
    c.gatherStart(kKept);
    c.gatherStart(0);
    c.gatherWait(0);
    stash(stashes[0], 0);
    c.gatherFree(0);
  }

  void setMasters(int turn) {
    for (size_t u = 0; u < kUnits; ++u) {
      std::vector<float> values;
      for (int64_t i = state.units[u].owned.begin; i < state.units[u].owned.end;
           ++i)
        values.push_back(masterOf(u, i, turn));
      upload(newMasters[u].address(), bytesOf(values, SHX_F32));
    }
    std::vector<double> mine = {context.rank + turn * 0.5};
    writeNow(numbers.address(), mine.data(), sizeof(double),
             "setting a number");
  }

  void expectGathered(size_t units, int turn) {
    for (size_t u = 0; u < units; ++u)
      expect(stashes[u].address(), wholeUnit(u, turn),
             concat("unit '", manifest.units[u].name, "' after gathering"));
  }
  void expectGatheredAgain(int turn) {
    expect(again.address(), wholeUnit(0, turn), "what is gathered again");
  }
  // `last`: over all replicas; else a sharded unit's over this rank's alone.
  void expectReduced(int times, bool last) {
    for (size_t u = 0; u < kUnits; ++u) {
      std::vector<float> values;
      for (int64_t i = state.units[u].owned.begin; i < state.units[u].owned.end;
           ++i) {
        float sum = 0;
        for (int r = 0; r < context.ranks; ++r)
          if (last || !manifest.units[u].sharded ||
              topology.replica(r) == topology.replica(context.rank))
            sum += gradientOf(r, u, i);
        values.push_back(sum * static_cast<float>(times));
      }
      expect(deviceAddress(state.units[u].reduced), bytesOf(values, SHX_F32),
             concat("unit '", manifest.units[u].name, "' after ", times,
                    " reductions"));
    }
  }
  void expectNumbers(int turn) {
    std::vector<double> there(static_cast<size_t>(context.ranks));
    check(driver().cuMemcpyDtoH(there.data(), deviceAddress(numberAt(1)),
                                there.size() * sizeof(double)),
          "reading numbers");
    for (int r = 0; r < context.ranks; ++r)
      if (there[static_cast<size_t>(r)] != r + turn * 0.5)
        fail("rank ", r, "'s number is wrong");
  }

private:
  int64_t sectionBytes(const Manifest::Unit &unit) const {
    return (unit.length + unit.frozenLength) * dtypeBytes(unit.paramType);
  }
  std::vector<uint8_t> wholeUnit(size_t u, int turn) const {
    const Manifest::Unit &unit = manifest.units[u];
    std::vector<float> values;
    for (int64_t i = 0; i < unit.length; ++i)
      values.push_back(masterOf(u, i, turn));
    for (int64_t i = 0; i < unit.frozenLength; ++i)
      values.push_back(frozenOf(u, i));
    return bytesOf(values, unit.paramType);
  }
  void stash(const DeviceMemory &to, size_t unit) {
    copy(to.address(), deviceAddress(state.units[unit].gathered), to.size());
  }
  // Behind a forward: what is gathered again comes from elsewhere.
  void leave() {
    context.collectives->gatherReshard(0);
    if (!context.preparing() && !state.units[0].inPlace)
      check(driver().cuMemsetD8Async(deviceAddress(state.units[0].gathered),
                                     0xff, static_cast<size_t>(again.size()),
                                     context.compute),
            "poisoning");
  }
  double *numberAt(int index) const {
    return devicePointer<double>(numbers.address()) + index;
  }
  void copy(CUdeviceptr to, CUdeviceptr from, int64_t bytes) {
    if (!context.preparing() && bytes > 0)
      check(driver().cuMemcpyDtoDAsync(to, from, static_cast<size_t>(bytes),
                                       context.compute),
            "copying");
  }
  static void upload(CUdeviceptr to, const std::vector<uint8_t> &bytes) {
    writeNow(to, bytes.data(), static_cast<int64_t>(bytes.size()), "uploading");
  }
  static void expect(CUdeviceptr at, const std::vector<uint8_t> &wanted,
                     const std::string &what) {
    std::string there(wanted.size(), 0);
    if (!there.empty())
      check(driver().cuMemcpyDtoH(there.data(), at, there.size()), "reading");
    for (size_t i = 0; i < there.size(); ++i)
      if (static_cast<uint8_t>(there[i]) != wanted[i])
        fail(what, " is wrong at byte ", i);
  }

  Context &context;
  const Manifest &manifest;
  const Topology &topology;
  State state;
  DeviceMemory numbers, again;
  std::vector<DeviceMemory> stashes, newMasters, newGradients;
};

// One update and two microbatches, looked at after each.
void runTurn(Context &context, Model &model, Function &update, Function &first,
             Function &next, int turn) {
  ++context.step;
  auto finish = [&] {
    check(driver().cuStreamSynchronize(context.compute), "waiting");
  };
  model.setMasters(turn);
  update.run();
  finish();
  model.expectGathered(1, turn);
  first.run();
  finish();
  model.expectGathered(kUnits, turn);
  model.expectGatheredAgain(turn);
  model.expectReduced(1, false);
  next.run();
  finish();
  model.expectReduced(2, true);
  model.expectNumbers(turn);
}

void runModel(const EngineSetup &setup, int rounds) {
  Device device(setup.info.localRank);
  Stream compute;
  Images kernels(device, {shx_runtime_images,
                          shx_runtime_images + shx_runtime_image_tables});
  Context context;
  context.rank = setup.info.rank;
  context.ranks = setup.info.worldSize;
  context.device = &device;
  context.compute = compute;
  context.runtimeImages = &kernels;
  std::unique_ptr<Collectives> collectives = makeCollectives(context, setup);
  context.collectives = collectives.get();
  Model model(context, setup);
  Function update(context, "the update", [&] { model.update(); });
  Function first(context, "the first microbatch", [&] {
    context.lastMicrobatch = false;
    model.step(false);
  });
  Function next(context, "the last microbatch", [&] {
    context.lastMicrobatch = true;
    model.step(true);
  });
  for (Function *function : {&update, &first, &next})
    function->prepare();
  int word = setup.info.rank == 0 ? 42 : 0;
  collectives->broadcast(&word, sizeof(word));
  if (word != 42)
    fail("the broadcast is wrong");
  runTurn(context, model, update, first, next, 1);
  for (Function *function : {&update, &first, &next})
    if (std::string refused = function->capture(); !refused.empty())
      fail(refused);
  std::printf("rank %d: begins\n", setup.info.rank);
  std::fflush(stdout);
  for (int turn = 2; turn < 2 + rounds; ++turn)
    runTurn(context, model, update, first, next, turn);
}

void runRank(const RankInfo &info, const Manifest &manifest, int replicas) {
  MeetingRequest request;
  request.program = "collectives";
  std::vector<std::string> names;
  for (const Manifest::Unit &unit : manifest.units)
    names.push_back(unit.name);
  size_t bytes = Control::bytes(info.worldSize, names.size());
  request.sharedBytes = static_cast<int64_t>(bytes);
  Group group = meet(info, request);
  Mapping memory =
      group.memory ? Mapping::shared(group.memory.get(), 0, bytes, "control")
                   : Mapping::anonymous(bytes, "control");
  Control control(memory.data(), info.rank, info.worldSize, names);
  if (const char *timeout = std::getenv("SHARDONNX_TIMEOUT"))
    control.setTimeout(std::atof(timeout));
  if (const char *path = std::getenv("COLLECTIVES_FLIGHTS"))
    control.setFlightRecord(path);
  Exchange exchange(control, group);
  exchange.connect(info);
  Monitor monitor(control, group, exchange);
  const char *rounds = std::getenv("COLLECTIVES_ROUNDS");
  Program program{};
  Options options;
  Topology topology(info.worldSize, replicas);
  try {
    runModel(
        {program, manifest, options, info, topology, group, control, exchange},
        rounds ? std::atoi(rounds) : 2);
  } catch (const Error &e) {
    control.failNow(info.rank, concat("rank ", info.rank, ": ", e.what()),
                    kExitFailure);
  }
  exchange.barrier(Activity::End);
  control.block(info.rank).finished.store(1);
  exchange.announceEnd();
  std::printf("rank %d: well\n", info.rank);
}

ShxDType typeOf(const char *name) {
  return !std::strcmp(name, "f32")    ? SHX_F32
         : !std::strcmp(name, "bf16") ? SHX_BF16
                                      : SHX_F16;
}

} // namespace

int main(int argc, char **argv) {
  setProgramName(argv[0]);
  blockTerminationSignals();
  if (argc < 3)
    return 2;
  int replicas = argc > 3 ? std::atoi(argv[3]) : 1;
  int reshardGroup = argc > 4 ? std::atoi(argv[4]) : 0;
  try {
    runRank(rankFromEnvironment(),
            modelOf(typeOf(argv[1]), typeOf(argv[2]), reshardGroup), replicas);
    return 0;
  } catch (const Error &e) {
    if (e.exitCode() != kExitFollows)
      printError(e.what());
    return e.exitCode();
  }
}
