// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Reader.h.

#include "Reader.h"
#include "../support/Convert.h"
#include "../support/Error.h"
#include "ByteHash.h"
#include "StateHash.h"
#include "shardonnx/runtime/BlockCodes.h"
#include <algorithm>

namespace shardonnx::rt {
namespace {

constexpr const char *kRemedy = "take another checkpoint";
constexpr int64_t kChunk = int64_t(1) << 20; // bytes read at a time
constexpr int64_t kLargestIndex = int64_t(1) << 30;

std::string readWhole(const File &file) {
  if (file.size() > kLargestIndex)
    fail("'", file.path(), "' is too large for an index");
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(text.data(), 0, file.size());
  return text;
}

ElementType elementType(ShxDType dtype) {
  return dtype == SHX_BF16  ? ElementType::BF16
         : dtype == SHX_F16 ? ElementType::F16
         : dtype == SHX_I8  ? ElementType::I8
                            : ElementType::F32;
}

} // namespace

std::vector<StateArray> arraysOf(bool trainable, int optimizerStates,
                                 ShxDType optimizerType) {
  if (!trainable)
    return {StateArray::Frozen};
  std::vector<StateArray> arrays = {StateArray::Master};
  for (StateArray moment : {StateArray::Moment1, StateArray::Moment2}) {
    if (optimizerStates < (moment == StateArray::Moment1 ? 1 : 2))
      break;
    arrays.push_back(moment);
    if (optimizerType == SHX_I8)
      arrays.push_back(scalesOf(moment));
  }
  return arrays;
}

CheckpointReader::CheckpointReader(const std::string &folder) : folder(folder) {
  File file = File::beneath(folder, kIndexName, kRemedy);
  checkpoint = parseIndex(readWhole(file), folder);
  for (size_t unit = 0; unit < checkpoint.units.size(); ++unit)
    for (const Manifest::Param &param : checkpoint.units[unit].params) {
      places[param.name] = {unit, &param};
      for (const std::string &name : param.names())
        aliases.emplace(name, Place{unit, &param});
    }
  for (size_t i = 0; i < checkpoint.files.size(); ++i)
    openFile(i);
}

void CheckpointReader::damaged(const std::string &why) const {
  fail("the checkpoint '", folder, "' is damaged: ", why, "; ", kRemedy);
}

void CheckpointReader::openFile(size_t i) {
  const Checkpoint::File &expected = checkpoint.files[i];
  auto file =
      std::make_shared<File>(File::beneath(folder, expected.name, kRemedy));
  if (file->size() != expected.bytes)
    damaged(concat("'", expected.name, "' has ", file->size(), " bytes of ",
                   expected.bytes));
  files.push_back(file);
  std::map<std::string, std::string> metadata;
  arrays.push_back(readSafeTensors(std::move(file), &metadata));
  if (metadata["id"] != checkpoint.id)
    fail("the checkpoint '", folder, "' is mixed: '", expected.name,
         "' was saved at another time than the index; ", kRemedy);
  for (size_t unit = 0; unit < checkpoint.units.size(); ++unit)
    for (bool trainable : {true, false})
      for (StateArray array : arraysOf(trainable, checkpoint.optimizerStates(),
                                       checkpoint.optimizerType))
        for (const Checkpoint::Slice &slice : slicesOf(unit, array)) {
          if (slice.file != i || slice.interval.size() == 0)
            continue;
          const Array &found = tensor(i, unit, array);
          if (found.shape != std::vector<int64_t>{slice.interval.size()} ||
              found.type != elementType(dtypeOf(unit, array)))
            damaged(concat("'", expected.name, "' holds unit '",
                           checkpoint.units[unit].name,
                           "' in another shape or dtype than the index says"));
        }
}

void CheckpointReader::verify(int part, int parts) {
  if (checkpoint.version == 1 && part == 0)
    verifyTensors();
  if (checkpoint.version > 1)
    for (auto i = static_cast<size_t>(part); i < files.size();
         i += static_cast<size_t>(parts))
      verifyFile(i);
}

void CheckpointReader::verifyFile(size_t i) {
  ByteHash hash;
  for (int64_t at = 0, size = files[i]->size(); at < size; at += kChunk) {
    raw.resize(static_cast<size_t>(std::min(kChunk, size - at)));
    files[i]->read(raw.data(), at, static_cast<int64_t>(raw.size()));
    hash.add(raw.data(), raw.size());
  }
  if (hash.value() != checkpoint.files[i].hash)
    damaged(concat("'", checkpoint.files[i].name,
                   "' is not as it was saved (its hash differs)"));
}

void CheckpointReader::verifyTensors() {
  uint64_t trainableHash = 0, frozenHash = 0;
  for (size_t unit = 0; unit < checkpoint.units.size(); ++unit)
    for (bool trainable : {true, false})
      for (StateArray array : arraysOf(trainable, checkpoint.optimizerStates(),
                                       checkpoint.optimizerType))
        (trainable ? trainableHash : frozenHash) += hashOf(unit, array);
  if (trainableHash != checkpoint.trainableHash ||
      frozenHash != checkpoint.frozenHash)
    damaged("its tensors are not those that were saved (their hash differs)");
}

// As StateHash.h has it.
uint64_t CheckpointReader::hashOf(size_t unit, StateArray array) {
  ShxDType dtype = dtypeOf(unit, array);
  int64_t element = dtypeBytes(dtype);
  SectionHash hash(checkpoint.units[unit].params, array, dtype,
                   checkpoint.units[unit].matrixLength);
  uint64_t sum = 0;
  for (const Checkpoint::Slice &slice : slicesOf(unit, array)) {
    int64_t size = slice.interval.size();
    if (size == 0)
      continue;
    const Array &stored = tensor(slice.file, unit, array);
    for (int64_t at = 0, n = 0; at < size; at += n) {
      n = std::min(kChunk / element, size - at);
      raw.resize(static_cast<size_t>(n * element));
      stored.file->read(raw.data(), stored.offset + at * element, n * element);
      sum += hash.of(raw.data(), slice.interval.begin + at, n);
    }
  }
  return sum;
}

// A parameter's own name goes before another's alias.
CheckpointReader::Place
CheckpointReader::find(const std::vector<std::string> &names) const {
  for (const auto *known : {&places, &aliases})
    for (const std::string &name : names)
      if (auto found = known->find(name); found != known->end())
        return found->second;
  return {};
}

ShxDType CheckpointReader::dtypeOf(size_t unit, StateArray array) const {
  ShxDType frozen = checkpoint.units[unit].frozenType;
  return StoredTypes{frozen, masterTypeOf(checkpoint.masterType, frozen),
                     checkpoint.optimizerType}
      .of(array);
}

std::vector<Checkpoint::Slice>
CheckpointReader::slicesOf(size_t unit, StateArray array) const {
  const Checkpoint::Unit &u = checkpoint.units[unit];
  std::vector<Checkpoint::Slice> slices =
      array == StateArray::Frozen ? u.frozen : u.trainable;
  // Of each rank of a tensor axis, a slice is of its own section.
  int64_t length = u.sectionLength(array != StateArray::Frozen);
  for (auto &[file, interval] : slices) {
    int64_t part = length > 0 ? interval.begin / length : 0;
    Interval has = storedInterval(
        array, {interval.begin - part * length, interval.end - part * length},
        u.matrixLength);
    int64_t begin = sectionBegin(array, part, length);
    interval = {begin + has.begin, begin + has.end};
  }
  return slices;
}

const Array &CheckpointReader::tensor(size_t file, size_t unit,
                                      StateArray array) const {
  std::string name =
      tensorName(checkpoint.units[unit].name, array, checkpoint.optimizer);
  auto found = arrays[file].find(name);
  if (found == arrays[file].end())
    damaged(concat("'", checkpoint.files[file].name, "' lacks '", name, "'"));
  return found->second;
}

void CheckpointReader::read(size_t unit, StateArray array, int64_t begin,
                            int64_t count, float *out) {
  ShxDType dtype = dtypeOf(unit, array);
  int64_t element = dtypeBytes(dtype);
  if (dtype == SHX_I8)
    return decode(unit, array, begin, count, out);
  raw.resize(static_cast<size_t>(count * element));
  readStored(unit, array, begin * element, count * element, raw.data());
  widen(dtype, out, raw.data(), count);
}

void CheckpointReader::decode(size_t unit, StateArray moment, int64_t begin,
                              int64_t count, float *out) {
  const BlockCodes &codes =
      moment == StateArray::Moment1 ? kSignedCodes : kUnsignedCodes;
  int64_t block = begin / kStateBlock;
  std::vector<float> scales(
      static_cast<size_t>(stateBlocks(begin + count) - block));
  read(unit, scalesOf(moment), block, static_cast<int64_t>(scales.size()),
       scales.data());
  raw.resize(static_cast<size_t>(count));
  readStored(unit, moment, begin, count, raw.data());
  for (int64_t i = 0; i < count; ++i) {
    auto scale = static_cast<size_t>((begin + i) / kStateBlock - block);
    auto code = static_cast<int8_t>(raw[static_cast<size_t>(i)]);
    out[i] = codes.valueOfCode(code) * scales[scale];
  }
}

void CheckpointReader::readStored(size_t unit, StateArray array, int64_t begin,
                                  int64_t count, uint8_t *out) {
  int64_t element = dtypeBytes(dtypeOf(unit, array));
  for (const Checkpoint::Slice &slice : slicesOf(unit, array)) {
    int64_t first = slice.interval.begin * element;
    int64_t from = std::max(begin, first);
    int64_t n = std::min(begin + count, slice.interval.end * element) - from;
    if (n <= 0)
      continue;
    const Array &stored = tensor(slice.file, unit, array);
    stored.file->read(out + (from - begin), stored.offset + (from - first), n);
  }
}

} // namespace shardonnx::rt
