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

bool isLabel(Kind kind) {
  return kind == Kind::Labels || kind == Kind::ShiftedLabels;
}

bool wantsFloat(const Manifest::Input &input) {
  return input.dtype == SHX_F32 || input.dtype == SHX_BF16 ||
         input.dtype == SHX_F16;
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
                         std::string pathIn)
    : arrays(std::move(arraysIn)), manifest(manifest), path(std::move(pathIn)) {
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
         "', which the graph wants; it has: ", there);
  }
  const Array &array = found->second;
  std::vector<int64_t> wanted(input.shape), got(array.shape);
  if (wanted.empty() || got.empty())
    fail("array '", input.name, "' of '", path,
         "' needs an axis 0 along which the samples lie");
  int64_t samples = got[0];
  wanted[0] = got[0];
  if (wanted != got)
    fail("array '", input.name, "' of '", path, "' has shape ",
         shapeText(array.shape), ", the graph wants samples of ",
         shapeText({input.shape.begin() + 1, input.shape.end()}));
  if (!wantsFloat(input) && isFloat(array.type))
    fail("array '", input.name, "' of '", path, "' is ",
         elementName(array.type), ", the graph wants integers");
  if (count >= 0 && samples != count)
    fail("array '", input.name, "' of '", path, "' has ", samples,
         " samples, another array has ", count);
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

void ArraySource::convertIntegers(const Manifest::Input &input,
                                  const Array &array, int64_t sample,
                                  const uint8_t *from, void *to) {
  for (int64_t i = 0, n = rowElements(input); i < n; ++i) {
    int64_t value = integerAt(array.type, from, i);
    bool ignored = isLabel(input.kind) && value == kIgnoredLabel;
    if (input.limit > 0 && !ignored && (value < 0 || value >= input.limit))
      fail("array '", input.name, "' of '", path, "' has ", value,
           " in sample ", sample, " at position ", i, ", outside 0…",
           input.limit - 1, isLabel(input.kind) ? " (or -100)" : "",
           ": use the tokenizer and the classes of the model");
    storeInteger(input, to, i, value);
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
               : "");
  }
}

// Where documents begin follows from the tokens; labels are the file's own.
void ArraySource::readDocuments(const Manifest::Input &input, int64_t sample,
                                void *to) {
  const Array *tokens = nullptr;
  int64_t n = rowElements(input);
  for (size_t i = 0; i < manifest.inputs.size() && !tokens; ++i)
    if (manifest.inputs[i].kind == Kind::Tokens &&
        rowElements(manifest.inputs[i]) == n)
      tokens = bound[i];
  if (!tokens)
    fail("the graph has no tokens by which documents are told apart for its "
         "input '",
         input.name, "'");
  const uint8_t *from = load(*tokens, sample, n);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < n; ++i)
    ids.push_back(integerAt(tokens->type, from, i));
  std::vector<int64_t> begins =
      documentBegins(ids, n, manifest.documentSeparator);
  for (int64_t i = 0; i < n; ++i) {
    int64_t begin = begins[static_cast<size_t>(i)];
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
    convertIntegers(input, *array, sample, from, to);
    return;
  }
  for (int64_t i = 0; i < n; ++i)
    storeFloat(input, to, i, floatAt(array->type, from, i));
}

int64_t ArraySource::countLabels(int64_t sample) {
  if (!labelArray)
    return 0;
  int64_t n = rowElements(*labels), counted = 0;
  const uint8_t *from = load(*labelArray, sample, n);
  for (int64_t i = manifest.loss.shift; i < n; ++i)
    counted += integerAt(labelArray->type, from, i) != kIgnoredLabel;
  return counted;
}

std::vector<std::string> ArraySource::unusedArrays() const {
  std::vector<std::string> names;
  for (auto &[name, array] : arrays)
    if (std::find(bound.begin(), bound.end(), &array) == bound.end())
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
