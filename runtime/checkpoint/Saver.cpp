// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Saver.h.

#include "Saver.h"
#include "../support/Error.h"
#include "Reader.h"
#include "StateHash.h"
#include "StreamedFile.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

namespace shardonnx::rt {
namespace {

std::string fileName(int rank) {
  std::string digits = std::to_string(rank);
  return "rank-" + std::string(5 - std::min<size_t>(5, digits.size()), '0') +
         digits + ".safetensors";
}

std::string randomId() {
  std::random_device device;
  return hexText(uint64_t(device()) << 32 | device());
}

ShxDType storedType(const Manifest &manifest, size_t unit, StateArray array) {
  return storedTypes(manifest, unit).of(array);
}

// The units in the order in which the update comes to them: what it needs
// first is written first.
std::vector<size_t> updateOrder(const Manifest &manifest) {
  std::vector<size_t> order;
  auto add = [&](size_t unit) {
    if (std::find(order.begin(), order.end(), unit) == order.end())
      order.push_back(unit);
  };
  for (const Manifest::Function &function : manifest.functions)
    if (function.name == "update")
      for (const Manifest::Collective &call : function.collectives)
        if (call.unit >= 0)
          add(static_cast<size_t>(call.unit));
  for (size_t unit = 0; unit < manifest.units.size(); ++unit)
    add(unit);
  return order;
}

} // namespace

Interval savedInterval(const Engine &engine, const Topology &topology,
                       size_t unit, bool trainable) {
  Interval owned = engine.owned(unit, trainable);
  bool sharded = engine.manifest.units[unit].sharded;
  int rank = engine.rank();
  int64_t at = sharded ? topology.replica(rank) : topology.dataRank(rank);
  Interval part = ownedInterval(
      owned.size(), at, sharded ? topology.replicas : topology.dataRanks(),
      topology.sliceAlignment);
  return {owned.begin + part.begin, owned.begin + part.end};
}

Saver::Saver(const Options &options, Engine &engine, Control &control,
             Exchange &exchange, const Topology &topology, int64_t step)
    : options(options), engine(engine), control(control), exchange(exchange),
      topology(topology), manifest(engine.manifest) {
  std::string mine;
  if (first()) {
    folder = std::make_unique<SaveFolder>(options.save, step);
    mine = randomId();
  }
  runId = exchange.broadcast(mine); // the folder is ready
  listPieces();
  written.assign(manifest.units.size(), true);
  engine.setBeforeUpdate([this](size_t unit) { waitFor(unit); });
  control.setBeforeExit(this, [this] { abandon(); });
}

Saver::~Saver() {
  control.setBeforeExit(this, {});
  engine.setBeforeUpdate(nullptr);
  if (thread.joinable())
    thread.join();
  abandon();
}

// What training does not change comes last.
void Saver::listPieces() {
  for (bool trainable : {true, false}) {
    owned[trainable].resize(manifest.units.size());
    for (size_t unit : updateOrder(manifest)) {
      Interval interval = savedInterval(engine, topology, unit, trainable);
      owned[trainable][unit] = interval;
      if (interval.size() > 0)
        for (StateArray array : arraysOf(trainable, manifest.optimizerStates(),
                                         manifest.optimizerType)) {
          Interval stored = storedInterval(array, interval,
                                           manifest.units[unit].matrixLength);
          if (stored.size() > 0)
            pieces.push_back({unit, array, stored,
                              stored.size() * dtypeBytes(storedType(
                                                  manifest, unit, array))});
        }
    }
  }
}

bool Saver::savesAfter(int64_t step, bool last) const {
  return last || (best > 0 && step == best) ||
         (options.saveEvery > 0 && step % options.saveEvery == 0);
}

std::optional<SaveRecord> Saver::begin(const TrainState &after) {
  std::optional<SaveRecord> before =
      finish(); // that save's stall, not this one's
  state = after;
  isBest = best > 0 && best == state.step;
  began = monotonicSeconds();
  report = {};
  error.clear();
  id = concat(runId, "-", state.step);
  std::string name = stepName(state.step);
  partial = concat(options.save, "/", name, kPartial);
  record = {};
  record.step = state.step;
  record.path = concat(options.save, "/", name);
  engine.snapshot();
  for (const Piece &piece : pieces)
    written[piece.unit] =
        written[piece.unit] && piece.array == StateArray::Frozen;
  threadDone = false;
  writing = true;
  thread = std::thread([this] { writeFile(); });
  report.stallMs = (monotonicSeconds() - began) * 1e3;
  return before;
}

// ---- The thread

std::string Saver::header() const {
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "shardonnx-checkpoint"}, {"id", id}};
  int64_t offset = 0;
  for (const Piece &piece : pieces) {
    std::string name = tensorName(manifest.units[piece.unit].name, piece.array,
                                  manifest.optimizer);
    json[name] = {{"dtype", safeTensorsName(
                                storedType(manifest, piece.unit, piece.array))},
                  {"shape", {piece.interval.size()}},
                  {"data_offsets", {offset, offset + piece.bytes}}};
    offset += piece.bytes;
  }
  std::string text = json.dump();
  constexpr size_t kAlignment = 64; // of the first tensor in the file
  text.append((kAlignment - (text.size() + 8) % kAlignment) % kAlignment, ' ');
  uint64_t length = text.size();
  std::string size(sizeof(length), '\0');
  std::memcpy(size.data(), &length, sizeof(length));
  return size + text;
}

void Saver::writePiece(const Piece &piece, StreamedFile &file) {
  ShxDType dtype = storedType(manifest, piece.unit, piece.array);
  const Manifest::Unit &unit = manifest.units[piece.unit];
  int64_t length =
      piece.array == StateArray::Frozen ? unit.frozenLength : unit.length;
  SectionHash hash(unit.params, piece.array, dtype, unit.matrixLength,
                   engine.tensor(), length);
  uint64_t &sum = piece.array == StateArray::Frozen ? report.frozenHash
                                                    : report.trainableHash;
  int64_t at = piece.interval.begin +
               sectionBegin(piece.array, engine.tensorRank(), length);
  engine.read(piece.unit, piece.array, piece.interval,
              [&](const uint8_t *bytes, int64_t count) {
                file.write(bytes, count);
                int64_t elements = count / dtypeBytes(dtype);
                sum += hash.of(bytes, at, elements);
                at += elements;
              });
}

std::string Saver::path() const {
  return concat(partial, "/", fileName(engine.rank()));
}

// Each rank, since none waits for another to begin.
void Saver::makeFolder() {
  if (abandoned)
    fail("the run has ended");
  if (::mkdir(partial.c_str(), 0777) != 0 && errno != EEXIST)
    fail("cannot make the folder '", partial, "': ", systemError(),
         "; --save needs a folder that all machines share and may write to");
}

void Saver::writeFile() {
  try {
    std::unique_lock<std::timed_mutex> mine(entries);
    makeFolder();
    StreamedFile file(path());
    mine.unlock();
    std::string head = header();
    file.write(head.data(), static_cast<int64_t>(head.size()));
    for (size_t i = 0; i < pieces.size(); ++i) {
      writePiece(pieces[i], file);
      if (i + 1 == pieces.size() || pieces[i + 1].unit != pieces[i].unit ||
          pieces[i + 1].array == StateArray::Frozen) {
        std::lock_guard<std::mutex> lock(mutex);
        written[pieces[i].unit] = true;
        changed.notify_all();
      }
    }
    file.close();
    report.bytes = file.size();
    report.fileHash = file.hash();
  } catch (const std::exception &e) {
    error = e.what();
    takeBack();
  }
  std::lock_guard<std::mutex> lock(mutex);
  written.assign(written.size(), true);
  threadDone = true;
  changed.notify_all();
}

// The last rank that does so removes the folder.
void Saver::takeBack() {
  ::unlink(path().c_str());
  ::rmdir(partial.c_str());
}

// On any thread of a run that ends: by a failure of this rank's or another's.
// What all ranks have written is published; a disk that takes longer for that
// leaves what the next run removes.
void Saver::abandon() {
  constexpr std::chrono::seconds kPatience(10);
  std::unique_lock<std::timed_mutex> lock(entries, kPatience);
  if (!lock)
    return;
  abandoned = true;
  if (writing)
    takeBack();
}

// Called between kernels, so nothing is thrown: what went wrong is told when
// the step is over.
void Saver::waitFor(size_t unit) {
  std::unique_lock<std::mutex> lock(mutex);
  if (written[unit])
    return;
  double start = monotonicSeconds();
  changed.wait(lock, [&] { return written[unit]; });
  report.stallMs += (monotonicSeconds() - start) * 1e3;
}

// ---- When all have written

std::string Saver::message() const {
  const Report nothing;
  const Report &mine = report.done ? report : nothing;
  std::string bytes(reinterpret_cast<const char *>(&mine), sizeof(mine));
  if (mine.done)
    for (const std::vector<Interval> &intervals : owned)
      bytes.append(reinterpret_cast<const char *>(intervals.data()),
                   intervals.size() * sizeof(Interval));
  return bytes;
}

// Whether all ranks have written; rank 0 then knows what.
bool Saver::gather() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (threadDone && !error.empty())
      throw Error(error, kExitFailure);
    report.done = threadDone;
    report.ms = (monotonicSeconds() - began) * 1e3;
  }
  std::vector<std::string> messages = exchange.allGather(message());
  for (const std::string &text : messages) {
    Report other;
    std::memcpy(&other, text.data(), sizeof(other));
    if (!other.done)
      return false;
  }
  thread.join();
  writing = false;
  if (first())
    describe(messages);
  return true;
}

void Saver::describe(const std::vector<std::string> &messages) {
  index = {};
  index.id = id;
  index.program = manifest.name;
  index.strategy = spell(manifest.strategy);
  index.optimizer = manifest.optimizer;
  index.optimizerType = manifest.optimizerType;
  index.masterType = manifest.masterType;
  index.lora = manifest.lora;
  index.modelPath = manifest.modelPath;
  index.modelSha256 = manifest.modelSha256;
  index.worldSize = engine.ranks();
  index.tensor = engine.tensor();
  index.state = state;
  index.seed = options.seed;
  index.shuffle = options.shuffle;
  index.data = data;
  for (const Manifest::Unit &unit : manifest.units)
    index.units.push_back({unit.name,
                           unit.length,
                           unit.frozenLength,
                           unit.matrixLength,
                           frozenTypeOf(unit),
                           unit.params,
                           {},
                           {}});
  for (size_t rank = 0; rank < messages.size(); ++rank) {
    Report other;
    std::memcpy(&other, messages[rank].data(), sizeof(other));
    index.trainableHash += other.trainableHash;
    index.frozenHash += other.frozenHash;
    index.files.push_back(
        {fileName(static_cast<int>(rank)), other.bytes, other.fileHash});
    record.bytes += other.bytes;
    record.ms = std::max(record.ms, other.ms);
    record.stallMs = std::max(record.stallMs, other.stallMs);
    const char *at = messages[rank].data() + sizeof(other);
    for (bool trainable : {false, true})
      for (Checkpoint::Unit &unit : index.units) {
        Interval interval;
        std::memcpy(&interval, at, sizeof(interval));
        at += sizeof(interval);
        if (interval.size() == 0)
          continue;
        int64_t before = topology.tensorRank(static_cast<int>(rank)) *
                         unit.sectionLength(trainable);
        (trainable ? unit.trainable : unit.frozen)
            .push_back(
                {rank, {before + interval.begin, before + interval.end}});
      }
  }
  record.hash = index.hash();
}

void Saver::commit() {
  std::unique_lock<std::timed_mutex> lock(entries);
  try {
    if (abandoned)
      fail("the run has ended");
    writeDurably(concat(partial, "/", kIndexName), writeIndex(index));
    folder->publish(state.step, options.keep, isBest);
  } catch (const std::exception &e) {
    error = e.what();
    folder->discard(state.step);
  }
  lock.unlock();
  ended = monotonicSeconds();
  std::lock_guard<std::mutex> told(mutex);
  threadDone = true;
  changed.notify_all();
}

std::optional<SaveRecord> Saver::published(bool wait) {
  if (!committing)
    return std::nullopt;
  bool waited;
  {
    std::unique_lock<std::mutex> lock(mutex);
    if (!threadDone && !wait)
      return std::nullopt;
    waited = !threadDone;
  }
  double start = monotonicSeconds();
  thread.join();
  if (waited) {
    ended = monotonicSeconds();
    record.stallMs += (ended - start) * 1e3;
  }
  record.ms += (ended - gathered) * 1e3;
  committing = false;
  if (!error.empty())
    throw Error(error, kExitFailure);
  return record;
}

std::optional<SaveRecord> Saver::poll() {
  if (writing && gather() && first()) {
    gathered = monotonicSeconds();
    threadDone = false;
    committing = true;
    thread = std::thread([this] { commit(); });
  }
  return published(/*wait=*/false);
}

std::optional<SaveRecord> Saver::finish() {
  if (writing) {
    double start = monotonicSeconds();
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return threadDone; });
    }
    report.stallMs += (monotonicSeconds() - start) * 1e3;
    if (std::optional<SaveRecord> saved = poll())
      return saved;
  }
  return published(/*wait=*/true);
}

} // namespace shardonnx::rt
