// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binding arrays to graph inputs, and converting their rows.

#include "ArraySource.h"
#include "../support/Error.h"
#include "../support/Half.h"
#include <algorithm>
#include <cstring>

namespace shardonnx::rt {
namespace {

using Kind = Manifest::InputKind;

struct TypeInfo {
  ElementType type;
  int64_t bytes;
  const char *name;
};
constexpr TypeInfo kTypes[] = {
    {ElementType::U8, 1, "u8"},   {ElementType::I8, 1, "i8"},
    {ElementType::U16, 2, "u16"}, {ElementType::I16, 2, "i16"},
    {ElementType::U32, 4, "u32"}, {ElementType::I32, 4, "i32"},
    {ElementType::U64, 8, "u64"}, {ElementType::I64, 8, "i64"},
    {ElementType::F16, 2, "f16"}, {ElementType::BF16, 2, "bf16"},
    {ElementType::F32, 4, "f32"}, {ElementType::F64, 8, "f64"}};

template <typename T> T load(const uint8_t *from, int64_t at) {
  T value;
  std::memcpy(&value, from + static_cast<size_t>(at) * sizeof(T), sizeof(T));
  return value;
}

int64_t integerAt(ElementType type, const uint8_t *from, int64_t at) {
  switch (type) {
  case ElementType::U8:
    return load<uint8_t>(from, at);
  case ElementType::I8:
    return load<int8_t>(from, at);
  case ElementType::U16:
    return load<uint16_t>(from, at);
  case ElementType::I16:
    return load<int16_t>(from, at);
  case ElementType::U32:
    return load<uint32_t>(from, at);
  case ElementType::I32:
    return load<int32_t>(from, at);
  default: // u64 beyond i64 turns negative, which the limits catch
    return load<int64_t>(from, at);
  }
}

float floatAt(ElementType type, const uint8_t *from, int64_t at) {
  switch (type) {
  case ElementType::F16:
    return toFloat(load<Float16>(from, at));
  case ElementType::BF16:
    return toFloat(load<BFloat16>(from, at));
  case ElementType::F64:
    return static_cast<float>(load<double>(from, at));
  case ElementType::F32:
    return load<float>(from, at);
  default:
    return static_cast<float>(integerAt(type, from, at));
  }
}

// The compiler folds a mask or positions of [batch, sequence] to what the
// executable feeds: the program does not read the input.
bool isFolded(const Manifest &manifest, const Manifest::Input &input) {
  return (input.kind == Kind::AttentionMask ||
          (input.kind == Kind::PositionIds && !wantsFloat(input) &&
           manifest.documentSeparator < 0)) &&
         input.shape.size() == 2;
}

} // namespace

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

int64_t elementBytes(ElementType type) {
  return kTypes[static_cast<size_t>(type)].bytes;
}
const char *elementName(ElementType type) {
  return kTypes[static_cast<size_t>(type)].name;
}
bool isFloat(ElementType type) { return type >= ElementType::F16; }

int64_t checkedElements(const std::vector<int64_t> &shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(n, d, &n) || n > int64_t(1) << 50)
      return -1;
  return n;
}

int64_t Array::bytes() const {
  return checkedElements(shape) * elementBytes(type);
}

ArraySource::ArraySource(Arrays arraysIn, const Manifest &manifest,
                         std::string pathIn, std::optional<bool> shiftLabels,
                         bool unshifted)
    : arrays(std::move(arraysIn)), manifest(manifest), path(std::move(pathIn)),
      saidUnshifted(unshifted) {
  for (const Manifest::Input &input : manifest.inputs) {
    bound.push_back(bind(input));
    if (input.name == manifest.loss.input ||
        (isLabel(input.kind) && !labelArray)) {
      labels = &input;
      labelArray = bound.back();
    }
  }
  if (count < 0)
    fail("'", path, "' has none of the graph's inputs");
  if (count == 0)
    fail("'", path, "' has no samples: axis 0 of its arrays is empty");
  if (manifest.loss.denominator == Manifest::Denominator::Labels && !labelArray)
    fail("'", path, "' has no array for the labels of the loss");
  decideShift(shiftLabels);
  findPositions();
}

// Tokens beside labels of their shape, in a graph without other tokens: the
// loss of a position wants the token behind it. Labels that repeat the tokens,
// as transformers' models take them, would teach the model to copy.
void ArraySource::decideShift(std::optional<bool> asked) {
  const char *option = asked == true ? "--shift-labels" : "--no-shift-labels";
  size_t tokenInputs = 0;
  for (size_t i = 0; i < manifest.inputs.size(); ++i) {
    if (manifest.inputs[i].kind != Kind::Tokens)
      continue;
    ++tokenInputs;
    tokens = &manifest.inputs[i];
    tokenArray = bound[i];
  }
  if (asked && labels && labels->kind == Kind::ShiftedLabels)
    failUsage(option, ": the graph shifts its labels itself; leave it out");
  if (tokenInputs != 1 || !labelArray || labels->kind != Kind::Labels ||
      tokens->shape != labels->shape || wantsFloat(*labels))
    tokens = nullptr;
  if (asked && !tokens)
    failUsage(option, ": the program's labels are not one for each token of "
                      "its input; leave it out");
  saidUnshifted &= !asked && tokens;
  shiftsLabels = asked.value_or(saidUnshifted);
  if (!asked && !saidUnshifted && tokens && repeatTokens())
    fail("the labels in '", path, "' repeat '", tokens->name,
         "', and the loss wants at each position the token behind it: give "
         "--shift-labels, or --no-shift-labels if they are meant so");
}

// Positions that restart tell documents apart, whatever token ends them, where
// the program keeps them apart.
void ArraySource::findPositions() {
  auto found = std::find_if(arrays.begin(), arrays.end(), [](auto &array) {
    return isNamed(array.first, InputKind::PositionIds);
  });
  if (manifest.documentSeparator < 0 || found == arrays.end())
    return;
  checkReadable(found->first, found->second);
  if (isFloat(found->second.type) || found->second.shape.size() != 2 ||
      found->second.shape[0] != count)
    return;
  positions = &found->second;
}

// Looks at some samples. Labels that do not count say nothing, nor do those of
// a token that comes twice running.
bool ArraySource::repeatTokens() {
  constexpr int64_t kSamplesToRead = 16;
  int64_t n = rowElements(*tokens), looks = std::min(kSamplesToRead, count);
  bool repeats = false;
  for (int64_t k = 0; k < looks; ++k) {
    int64_t sample = looks > 1 ? (count - 1) / (looks - 1) * k : 0;
    std::vector<int64_t> ids = integers(*tokenArray, sample, n);
    std::vector<int64_t> theirs = integers(*labelArray, sample, n);
    for (size_t i = 0; i < ids.size(); ++i) {
      if (theirs[i] == labels->ignoredLabel)
        continue;
      if (theirs[i] != ids[i])
        return false;
      repeats |= i + 1 < ids.size() && ids[i + 1] != ids[i];
    }
  }
  return repeats;
}

std::string ArraySource::describeLabels() const {
  if (shiftsLabels)
    return concat("labels: shifted by one position, as ",
                  saidUnshifted ? "the file says (metadata labels=unshifted)"
                                : "--shift-labels says");
  if (tokens)
    return "labels: as given, not shifted (--shift-labels shifts them)";
  if (labelArray && labels->kind == Kind::ShiftedLabels)
    return "labels: as given, the graph shifts them";
  return {};
}

void ArraySource::checkReadable(const std::string &name,
                                const Array &array) const {
  if (!array.unreadable.empty())
    fail("array '", name, "' of '", path, "' ", array.unreadable);
}

const Array *ArraySource::bind(const Manifest::Input &input) {
  if (input.kind == Kind::Random || input.kind == Kind::FirstKeys)
    return nullptr;
  auto found = arrays.find(input.name);
  if (found == arrays.end() && isLabel(input.kind))
    found = arrays.find("labels");
  if (found == arrays.end()) {
    if (hasKnownValue(input))
      return nullptr;
    std::string there;
    for (auto &[name, array] : arrays)
      there += (there.empty() ? "" : ", ") + name;
    fail("'", path, "' has no array '", input.name,
         "', which the graph wants; it has: ", there,
         "; name the array as the input is named");
  }
  const Array &array = found->second;
  checkReadable(input.name, array);
  std::vector<int64_t> wanted(input.shape), got(array.shape);
  if (wanted.empty() || got.empty())
    fail("array '", input.name, "' of '", path,
         "' needs an axis 0 along which the samples lie");
  int64_t samples = got[0];
  wanted[0] = got[0];
  if (wanted != got)
    fail("array '", input.name, "' of '", path, "' has shape ",
         shapeText(array.shape), ", the graph wants ", shapeText(wanted),
         isLabel(input.kind) && !wantsFloat(input) && got.size() > wanted.size()
             ? ": class indices, one for each that the loss judges"
             : "");
  if (!wantsFloat(input) && isFloat(array.type))
    fail("array '", input.name, "' of '", path, "' is ",
         elementName(array.type),
         ", the graph wants integers: save it as int64");
  if (count >= 0 && samples != count)
    fail("array '", input.name, "' of '", path, "' has ", samples,
         " samples, another array has ", count,
         ": all need as many along axis 0");
  count = samples;
  return &array;
}

const uint8_t *ArraySource::load(const Array &array, int64_t sample,
                                 int64_t elements) {
  int64_t bytes = elements * elementBytes(array.type);
  if (!array.file)
    return array.held.data() + sample * bytes;
  row.resize(static_cast<size_t>(bytes));
  array.file->read(row.data(), array.offset + sample * bytes, bytes);
  return row.data();
}

std::vector<int64_t> ArraySource::integers(const Array &array, int64_t sample,
                                           int64_t n) {
  const uint8_t *from = load(array, sample, n);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(integerAt(array.type, from, i));
  return values;
}

// Where the document of each of `n` tokens begins.
std::vector<int64_t> ArraySource::begins(const Array &ids, int64_t sample,
                                         int64_t n) {
  if (!positions || positions->shape[1] != n)
    return documentBegins(integers(ids, sample, n), n,
                          manifest.documentSeparator);
  std::vector<int64_t> begins = integers(*positions, sample, n);
  for (size_t i = 0; i < begins.size(); ++i)
    begins[i] =
        i == 0 || begins[i] == 0 ? static_cast<int64_t>(i) : begins[i - 1];
  return begins;
}

// As the loss reads them. None is predicted across the end of a document.
std::vector<int64_t> ArraySource::labelsOf(const Manifest::Input &input,
                                           const Array &array, int64_t sample) {
  int64_t n = rowElements(input);
  std::vector<int64_t> values = integers(array, sample, n);
  if (!shiftsLabels || &input != labels)
    return values;
  std::move(values.begin() + 1, values.end(), values.begin());
  values.back() = input.ignoredLabel;
  if (manifest.documentSeparator < 0)
    return values;
  std::vector<int64_t> documents = begins(*tokenArray, sample, n);
  for (size_t i = 0; i + 1 < documents.size(); ++i)
    if (documents[i + 1] != documents[i])
      values[i] = input.ignoredLabel;
  return values;
}

void ArraySource::failAt(const Manifest::Input &input, int64_t sample,
                         size_t element, const std::string &value,
                         const std::string &why) const {
  fail("array '", input.name, "' of '", path, "' has ", value, " in sample ",
       sample, " at position ", element, ", ", why);
}

void ArraySource::convertIntegers(const Manifest::Input &input,
                                  const Array &array, int64_t sample,
                                  void *to) {
  bool isIgnorable = isLabel(input.kind);
  bool isMoved = shiftsLabels && &input == labels; // from the position behind
  std::vector<int64_t> values = labelsOf(input, array, sample);
  for (size_t i = 0; i < values.size(); ++i) {
    int64_t value = values[i];
    bool ignored = isIgnorable && value == input.ignoredLabel;
    bool wraps = array.type == ElementType::U64 && value < 0 && !ignored;
    std::string text = wraps ? std::to_string(static_cast<uint64_t>(value))
                             : std::to_string(value);
    if (input.limit > 0 && !ignored && (value < 0 || value >= input.limit))
      failAt(input, sample, i + isMoved, text,
             concat("outside 0…", input.limit - 1,
                    isIgnorable ? concat(" (or ", input.ignoredLabel, ")") : "",
                    ": use the tokenizer and the classes of the model"));
    if (wraps || !holdsInteger(input, value))
      failAt(input, sample, i + isMoved, text,
             concat("which the graph's ", spell(input.dtype),
                    " does not hold: mend the array, or export the model with "
                    "an int64 input"));
    storeInteger(input, to, static_cast<int64_t>(i), value);
  }
}

// An array that says something else would be ignored.
void ArraySource::checkFolded(const Manifest::Input &input, const Array &array,
                              int64_t sample, const uint8_t *from) {
  for (int64_t i = 0, n = rowElements(input); i < n; ++i) {
    float value = floatAt(array.type, from, i);
    auto known = static_cast<float>(knownValue(input, i));
    if (value != known)
      fail("array '", input.name, "' of '", path, "' has ", value,
           " in sample ", sample, " at position ", i,
           ", the program was compiled for ", known,
           " there: leave the array out, and pad after the text, with -100 in "
           "the labels",
           input.kind == Kind::AttentionMask
               ? ", or compile with --attention-mask=input"
           : input.kind == Kind::PositionIds
               ? ", or compile with --position-ids=input, or with "
                 "--document-separator=ID for positions that restart in each "
                 "document"
               : "");
  }
}

// Where documents begin follows from the file's positions, or the tokens;
// labels are the file's own.
void ArraySource::readDocuments(const Manifest::Input &input, int64_t sample,
                                void *to) {
  const Array *ids = nullptr;
  int64_t n = rowElements(input);
  for (size_t i = 0; i < manifest.inputs.size() && !ids; ++i)
    if (manifest.inputs[i].kind == Kind::Tokens &&
        rowElements(manifest.inputs[i]) == n)
      ids = bound[i];
  if (!ids)
    fail("the graph has no tokens by which documents are told apart for its "
         "input '",
         input.name, "'");
  std::vector<int64_t> documents = begins(*ids, sample, n);
  for (int64_t i = 0; i < n; ++i) {
    int64_t begin = documents[static_cast<size_t>(i)];
    storeInteger(input, to, i,
                 input.kind == Kind::FirstKeys ? begin : i - begin);
  }
}

void ArraySource::read(int64_t sample, size_t index, void *to) {
  const Manifest::Input &input = manifest.inputs[index];
  const Array *array = bound[index];
  int64_t n = rowElements(input);
  bool packed = manifest.documentSeparator >= 0 &&
                (input.kind == Kind::FirstKeys ||
                 (input.kind == Kind::PositionIds && !array));
  if (packed) {
    readDocuments(input, sample, to);
    return;
  }
  if (!array) {
    for (int64_t i = 0; i < n; ++i)
      storeInteger(input, to, i, knownValue(input, i));
    return;
  }
  const uint8_t *from = load(*array, sample, n);
  if (isFolded(manifest, input))
    checkFolded(input, *array, sample, from);
  if (!wantsFloat(input)) {
    convertIntegers(input, *array, sample, to);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    storeFloat(input, to, i, floatAt(array->type, from, i));
}

int64_t ArraySource::countLabels(int64_t sample) {
  if (!labelArray)
    return 0;
  std::vector<int64_t> values = labelsOf(*labels, *labelArray, sample);
  int64_t counted = 0;
  for (size_t i = static_cast<size_t>(manifest.loss.shift); i < values.size();
       ++i)
    counted += values[i] != labels->ignoredLabel;
  return counted;
}

int64_t ArraySource::checkedBytes(int64_t) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < bound.size(); ++i) {
    const Manifest::Input &input = manifest.inputs[i];
    if (bound[i] && (!wantsFloat(input) || hasKnownValue(input)))
      bytes += rowElements(input) * elementBytes(bound[i]->type);
  }
  return bytes;
}

std::vector<std::string> ArraySource::unusedArrays() const {
  std::vector<std::string> names;
  for (auto &[name, array] : arrays)
    if (&array != positions &&
        std::find(bound.begin(), bound.end(), &array) == bound.end())
      names.push_back(name);
  return names;
}

int64_t ArraySource::memoryBytes() const {
  int64_t bytes = 0;
  for (auto &[name, array] : arrays)
    bytes += static_cast<int64_t>(array.held.size());
  return bytes;
}

} // namespace shardonnx::rt
