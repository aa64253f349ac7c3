// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// .safetensors: eight bytes of header length, a JSON header, the arrays.

#include "../support/Error.h"
#include "ArraySource.h"
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

namespace shardonnx::rt {
namespace {

using Json = nlohmann::json;

constexpr int64_t kLargestHeader = 100'000'000; // the format's own limit

ElementType elementType(const std::string &name, const std::string &array,
                        const std::string &path) {
  static const std::pair<const char *, ElementType> names[] = {
      {"BOOL", ElementType::U8},   {"U8", ElementType::U8},
      {"I8", ElementType::I8},     {"U16", ElementType::U16},
      {"I16", ElementType::I16},   {"U32", ElementType::U32},
      {"I32", ElementType::I32},   {"U64", ElementType::U64},
      {"I64", ElementType::I64},   {"F16", ElementType::F16},
      {"BF16", ElementType::BF16}, {"F32", ElementType::F32},
      {"F64", ElementType::F64}};
  for (auto &[text, type] : names)
    if (name == text)
      return type;
  fail("array '", array, "' of '", path, "' has dtype ", name,
       ", which cannot be read: have PyTorch write it as F32, BF16 or F16");
}

bool isListOfSizes(const Json &entry, const char *key) {
  auto found = entry.find(key);
  return found != entry.end() && found->is_array() &&
         std::all_of(found->begin(), found->end(), [](const Json &size) {
           return size.is_number_unsigned() &&
                  size.get<uint64_t>() <= INT64_MAX;
         });
}

/// {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
bool isEntry(const Json &entry) {
  return entry.is_object() && entry.contains("dtype") &&
         entry["dtype"].is_string() && isListOfSizes(entry, "shape") &&
         isListOfSizes(entry, "data_offsets") &&
         entry["data_offsets"].size() == 2;
}

/// The header. A name that stands twice would be two arrays under one.
Json parseHeader(const std::string &header, const std::string &path) {
  std::set<std::string> names;
  auto check = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (event == Json::parse_event_t::key && depth == 1 &&
        !names.insert(parsed.get<std::string>()).second)
      fail("'", path, "' is damaged: it has array '", parsed.get<std::string>(),
           "' twice; ", kCopyAgain);
    return true;
  };
  return Json::parse(header, check);
}

/// The format has no two arrays that share bytes.
void checkApart(const Arrays &arrays, const std::string &path) {
  std::vector<std::pair<int64_t, const Arrays::value_type *>> byOffset;
  for (const Arrays::value_type &array : arrays)
    if (array.second.bytes() > 0)
      byOffset.emplace_back(array.second.offset, &array);
  std::stable_sort(byOffset.begin(), byOffset.end(), [](auto &a, auto &b) {
    return a.first < b.first; // those are by name
  });
  for (size_t i = 1; i < byOffset.size(); ++i) {
    const auto &[name, array] = *byOffset[i - 1].second;
    if (array.offset + array.bytes() > byOffset[i].first)
      fail("'", path, "' is damaged: arrays '", name, "' and '",
           byOffset[i].second->first, "' overlap; ", kCopyAgain);
  }
}

} // namespace

Arrays readSafeTensors(const std::string &path,
                       std::map<std::string, std::string> *metadata) {
  return readSafeTensors(
      std::make_shared<File>(path, "give the data file with --data"), metadata);
}

Arrays readSafeTensors(std::shared_ptr<File> file,
                       std::map<std::string, std::string> *metadata) {
  const std::string &path = file->path();
  uint64_t length = 0;
  file->read(&length, 0, sizeof(length));
  if (length > static_cast<uint64_t>(kLargestHeader))
    fail("'", path, "' is no .safetensors file: its header would have ", length,
         " bytes; ", kCopyAgain);
  std::string header(length, '\0');
  file->read(header.data(), 8, static_cast<int64_t>(length));
  int64_t begin = 8 + static_cast<int64_t>(length);
  Arrays arrays;
  try {
    Json json = parseHeader(header, path);
    for (auto &[name, entry] : json.items()) {
      if (name == "__metadata__") {
        if (metadata)
          *metadata = entry.get<std::map<std::string, std::string>>();
        continue;
      }
      if (!isEntry(entry))
        fail("'", path, "' is damaged: array '", name,
             "' does not say its dtype, shape and place; ", kCopyAgain);
      Array array;
      array.type = elementType(entry["dtype"].get<std::string>(), name, path);
      array.shape = entry["shape"].get<std::vector<int64_t>>();
      auto range = entry["data_offsets"].get<std::vector<int64_t>>();
      if (range[1] < range[0])
        fail("'", path, "' is damaged: array '", name,
             "' ends before it begins; ", kCopyAgain);
      if (range[1] > file->size() - begin)
        fail("'", path, "' is truncated: array '", name,
             "' lies outside the file of ", file->size(), " bytes; ",
             kCopyAgain);
      if (checkedElements(array.shape) < 0 ||
          array.bytes() != range[1] - range[0])
        fail("array '", name, "' of '", path,
             "' has another size than its shape says; ", kCopyAgain);
      array.offset = begin + range[0];
      array.file = file;
      arrays.emplace(name, std::move(array));
    }
  } catch (const Json::exception &e) {
    fail("'", path, "' is no .safetensors file: ", describe(e), "; ",
         kCopyAgain);
  }
  checkApart(arrays, path);
  return arrays;
}

} // namespace shardonnx::rt
