// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Restore.h.

#include "Restore.h"
#include "../core/OwnedRange.h"
#include "../support/Error.h"
#include "BlockLoader.h"
#include "Folder.h"
#include "PackedParts.h"
#include "Reader.h"
#include "Saver.h"
#include "StateHash.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>

namespace shardonnx::rt {
namespace {

constexpr int64_t kChunk = 1 << 18; // elements read at a time
constexpr size_t kNamed = 3;        // of the parameters that do not fit

// What all ranks resume; empty: nothing, which only --save's own folder may
// come to.
std::string agreeOnFolder(const Options &options, int rank,
                          Exchange &exchange) {
  std::string mine;
  if (rank == 0) {
    std::optional<std::string> found = findCheckpoint(options.resume);
    if (!found && options.resume != options.save)
      fail(noCheckpointIn(options.resume),
           "; --resume takes a checkpoint or the folder that --save named");
    mine = found.value_or("");
  }
  return exchange.broadcast(mine);
}

// Each parameter of the program must be there in its shape, under any of its
// names, and the other way round. Frozen ones that the program has no place for
// (PyTorch's buffers, say) change nothing of what is trained.
class Fit {
public:
  Fit(const Manifest &manifest, const CheckpointReader &reader)
      : reader(reader) {
    for (const Manifest::Unit &unit : manifest.units)
      for (const Manifest::Param &param : unit.params)
        check(param, unit.isMatrix(param));
    for (const Checkpoint::Unit &unit : reader.index().units)
      for (const Manifest::Param &param : unit.params) {
        if (bound.count(&param))
          continue;
        if (param.trainable)
          note(concat("'", param.name, "' is not in the program"));
        else
          spare.push_back(param.name);
      }
  }

  void require() const {
    if (count > 0)
      fail("the checkpoint '", reader.path(), "' is of another model: ", text,
           count > kNamed ? concat(" and ", count - kNamed, " more") : "",
           "; resume it with the program of that model, or load its weights "
           "alone with shardonnx export and --model");
  }

  /// Frozen ones of the checkpoint that the program does not have.
  const std::vector<std::string> &unused() const { return spare; }

private:
  void check(const Manifest::Param &param, bool isMatrix) {
    auto [unit, stored] = reader.find(param.names());
    if (!stored)
      return note(concat("it has no '", param.name, "'"));
    auto [other, isFirst] = bound.emplace(stored, param.name);
    if (!isFirst)
      note(concat("its '", stored->name, "' is '", other->second, "' and '",
                  param.name, "' of the program, which are not tied"));
    else if (stored->wholeShape() != param.wholeShape())
      note(concat("its '", param.name, "' is ", shapeText(stored->wholeShape()),
                  ", the program's ", shapeText(param.wholeShape())));
    else if (stored->trainable != param.trainable)
      note(concat("its '", param.name, "' is ",
                  stored->trainable ? "trained" : "frozen",
                  ", the program's is not"));
    else if (reader.index().units[unit].isMatrix(*stored) != isMatrix)
      note(concat("its '", param.name, "' is ", isMatrix ? "AdamW" : "Muon",
                  "'s, the program's is not"));
    else if (packingText(*stored) != packingText(param))
      note(concat("its '", param.name, "' is ", packingText(*stored),
                  ", the program's ", packingText(param)));
  }
  static std::string packingText(const Manifest::Param &param) {
    if (!param.packed)
      return "not packed";
    return concat(spell(param.packed->packing),
                  param.packed->transposed ? " of its transpose" : "");
  }
  void note(const std::string &what) {
    if (++count <= kNamed)
      text += (text.empty() ? "" : ", ") + what;
  }

  const CheckpointReader &reader;
  // The program's name of each that it has.
  std::map<const Manifest::Param *, std::string> bound;
  std::vector<std::string> spare;
  std::string text;
  size_t count = 0;
};

// As --lora has it.
std::string scalingText(const Lora &lora) {
  return concat("alpha=", lora.alpha, lora.rslora ? ",rslora" : "");
}

// The same adapters would change the base by another share. Ranks are shapes,
// which Fit has compared.
void requireScaling(const Manifest &manifest, const CheckpointReader &reader) {
  if (!manifest.lora || !reader.index().lora)
    return;
  const Lora &now = *manifest.lora, &saved = *reader.index().lora;
  bool same = now.scaling() == saved.scaling();
  for (const Lora::Parameter &own : now.parameters)
    for (const Lora::Parameter &other : saved.parameters)
      same &= own.adapter != other.adapter ||
              now.scaling(own) == saved.scaling(other);
  if (!same)
    fail("the checkpoint '", reader.path(),
         "' has adapters of --lora=", saved.rank, ",", scalingText(saved),
         ", which the program's ", scalingText(now),
         " would add with another factor; resume it with a "
         "program of the same --lora");
}

// Elements [owned.begin, owned.end) of this rank's part of a parameter, from
// wherever the checkpoint has them.
void loadParts(Engine &engine, CheckpointReader &reader, size_t unit,
               const Manifest::Param &param, StateArray array,
               const Interval &owned) {
  CheckpointReader::Place place = reader.find(param.names());
  std::vector<float> values;
  auto loadRun = [&](int64_t to, int64_t whole, int64_t count) {
    reader.forStored(
        place, {whole, whole + count},
        [&](int64_t begin, int64_t at, int64_t length) {
          for (int64_t done = 0; done < length; done += kChunk) {
            int64_t n = std::min(kChunk, length - done);
            values.resize(static_cast<size_t>(n));
            reader.read(place.unit, array, begin + done, n, values.data());
            engine.write(unit, array, param.offset + to + at - whole + done,
                         values.data(), n);
          }
        });
  };
  ParamPart(param, engine.tensorRank(), engine.tensor())
      .forRuns(owned.begin, owned.end, loadRun);
}

void load(Engine &engine, CheckpointReader &reader) {
  const Manifest &manifest = engine.manifest;
  // Of moments in int8, the other arrays.
  int moments = manifest.blockwiseState() ? 0 : manifest.optimizerStates();
  forOwnedPlaces(engine, [&](size_t unit, const Manifest::Param &param,
                             const Interval &owned) {
    if (param.packed)
      return loadPacked(engine, reader, unit, param, owned);
    int count = manifest.units[unit].isMatrix(param) ? 1 : moments;
    for (StateArray array : arraysOf(param.trainable, count, SHX_F32))
      loadParts(engine, reader, unit, param, array, owned);
  });
  if (manifest.blockwiseState())
    loadBlocks(engine, reader);
}

struct Hashes {
  uint64_t trainable = 0, frozen = 0;
};

// The program's parameters of a unit under the names that the checkpoint has,
// which its hashes know them by.
std::vector<Manifest::Param> asStored(const Manifest::Unit &unit,
                                      const CheckpointReader &reader) {
  std::vector<Manifest::Param> params = unit.params;
  for (Manifest::Param &param : params)
    param.name = reader.find(param.names()).param->name;
  return params;
}

// Of what the ranks hold now, each element once.
Hashes hashState(Engine &engine, const CheckpointReader &reader,
                 Exchange &exchange, const Topology &topology) {
  const Manifest &manifest = engine.manifest;
  Hashes mine;
  engine.snapshot();
  for (size_t unit = 0; unit < manifest.units.size(); ++unit) {
    std::vector<Manifest::Param> params =
        asStored(manifest.units[unit], reader);
    for (bool trainable : {true, false}) {
      Interval saved = savedInterval(engine, topology, unit, trainable);
      for (StateArray array : arraysOf(trainable, manifest.optimizerStates(),
                                       manifest.optimizerType)) {
        ShxDType dtype = storedTypes(manifest, unit).of(array);
        const Manifest::Unit &u = manifest.units[unit];
        int64_t length = trainable ? u.length : u.frozenLength;
        SectionHash hash(params, array, dtype, u.matrixLength, engine.tensor(),
                         length);
        Interval stored = storedInterval(array, saved, u.matrixLength);
        int64_t at =
            stored.begin + sectionBegin(array, engine.tensorRank(), length);
        if (stored.size() > 0)
          engine.read(unit, array, stored,
                      [&](const uint8_t *bytes, int64_t count) {
                        int64_t n = count / dtypeBytes(dtype);
                        (trainable ? mine.trainable : mine.frozen) +=
                            hash.of(bytes, at, n);
                        at += n;
                      });
      }
    }
  }
  Hashes all;
  for (const std::string &bytes : exchange.allGather(
           {reinterpret_cast<const char *>(&mine), sizeof(mine)})) {
    Hashes other;
    std::memcpy(&other, bytes.data(), sizeof(other));
    all.trainable += other.trainable;
    all.frozen += other.frozen;
  }
  return all;
}

// Masters or frozen parameters in another dtype than they were saved in are
// rounded.
bool sameTypes(const Manifest &manifest, const CheckpointReader &reader,
               StateArray array) {
  for (size_t unit = 0; unit < manifest.units.size(); ++unit)
    for (const Manifest::Param &param : manifest.units[unit].params)
      if (param.trainable == (array == StateArray::Master) &&
          reader.dtypeOf(reader.find(param.names()).unit, array) !=
              storedTypes(manifest, unit).of(array))
        return false;
  return true;
}

// State in another dtype, or in other blocks, is converted.
bool sameStateTypes(const Manifest &manifest, const CheckpointReader &reader) {
  return reader.index().optimizerType == manifest.optimizerType &&
         (!manifest.blockwiseState() || hasSameBlocks(manifest, reader));
}

void sayConverted(const Manifest &manifest, const CheckpointReader &reader) {
  auto say = [](const char *what, ShxDType saved, ShxDType now) {
    std::printf("%s saved in %s, converted to this program's %s\n", what,
                spell(saved), spell(now));
  };
  if (!sameStateTypes(manifest, reader))
    say("the optimizer's state was", reader.index().optimizerType,
        manifest.optimizerType);
  if (!sameTypes(manifest, reader, StateArray::Master))
    say("master weights were", reader.index().masterType, manifest.masterType);
  if (!hasSamePackings(manifest, reader))
    std::printf("frozen weights of few bits were packed for %lld ranks of the "
                "tensor axis, packed anew for this program's %lld\n",
                static_cast<long long>(reader.index().tensor),
                static_cast<long long>(manifest.mesh.tensor()));
}

// Another order of samples would see some twice and others never.
void warnOfOptions(const Options &options, const Manifest &manifest,
                   const Checkpoint &index) {
  if (index.version == 1)
    printWarning("the checkpoint is of an older shardonnx: its tensors are "
                 "checked, how far the run had come cannot be");
  if (options.seed != index.seed || options.shuffle != index.shuffle)
    printWarning(concat("the checkpoint was saved with --seed ", index.seed,
                        index.shuffle ? " --shuffle" : "",
                        ", this run has --seed ", options.seed,
                        options.shuffle ? " --shuffle" : "",
                        options.shuffle || index.shuffle
                            ? ": its order of samples is another one"
                            : ": what it draws at random is another"));
  if (index.optimizer != manifest.optimizer)
    printWarning(concat(
        "the checkpoint was saved with --optimizer=", spell(index.optimizer),
        ", the program goes on with ", spell(manifest.optimizer)));
  if (options.randomInit || !options.model.empty())
    printWarning(concat(options.randomInit ? "--init=random" : "--model",
                        " is ignored: --resume has the weights"));
}

void warnOfUnused(const std::vector<std::string> &names) {
  if (names.empty())
    return;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i)
    text += concat(i ? ", '" : "'", names[i], "'");
  printWarning(concat(
      "the program has no place for frozen parameters of the checkpoint, the "
      "next one will not have them: ",
      text,
      names.size() > kNamed ? concat(" and ", names.size() - kNamed, " more")
                            : ""));
}

} // namespace

std::optional<Restored> restore(const Options &options, Engine &engine,
                                Exchange &exchange, const Topology &topology) {
  bool first = engine.rank() == 0;
  std::string folder = agreeOnFolder(options, engine.rank(), exchange);
  if (folder.empty()) {
    if (first)
      std::printf("'%s' holds no checkpoint yet: the run begins at step 1\n",
                  options.resume.c_str());
    return std::nullopt;
  }
  CheckpointReader reader(folder);
  const Checkpoint &index = reader.index();
  const Manifest &manifest = engine.manifest;
  bool alike = index.optimizerStates() == manifest.optimizerStates() &&
               (index.optimizer == Optimizer::Muon) ==
                   (manifest.optimizer == Optimizer::Muon);
  if (!alike)
    fail("the checkpoint '", folder, "' has the state of ",
         spell(index.optimizer), ", the program was compiled with --optimizer=",
         spell(manifest.optimizer));
  Fit fit(manifest, reader);
  fit.require();
  requireScaling(manifest, reader);
  if (index.state.step > options.steps)
    failUsage("the checkpoint '", folder, "' is of step ", index.state.step,
              ", --steps=", options.steps,
              " leaves nothing to do: give more --steps");
  reader.verify(engine.rank(), engine.ranks());
  load(engine, reader);
  Hashes now = hashState(engine, reader, exchange, topology);
  if ((now.trainable != index.trainableHash &&
       sameStateTypes(manifest, reader) &&
       sameTypes(manifest, reader, StateArray::Master)) ||
      (now.frozen != index.frozenHash && fit.unused().empty() &&
       sameTypes(manifest, reader, StateArray::Frozen) &&
       hasSamePackings(manifest, reader)))
    fail("the checkpoint '", folder,
         "' is damaged: its tensors are not those that were saved (their hash "
         "differs); take another checkpoint");
  if (first) {
    warnOfOptions(options, manifest, index);
    warnOfUnused(fit.unused());
    sayConverted(manifest, reader);
    std::printf("resumed '%s': step %lld, state %s\n", folder.c_str(),
                static_cast<long long>(index.state.step),
                hexText(now.trainable + now.frozen).c_str());
    std::fflush(stdout);
  }
  return Restored{index.state, folder, index.data};
}

} // namespace shardonnx::rt
