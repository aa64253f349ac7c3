// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A state dict as PyTorch's tools read it: each parameter once, under the name
// that the framework stores, in the layout of its module.

#include "Export.h"

#include "../../runtime/support/Error.h"

#include <nlohmann/json.hpp>

namespace shardonnx {
namespace {

constexpr size_t kAlignment = 64; // of the first tensor in the file

struct Tensor {
  std::string name;
  rt::CheckpointReader::Place place;
};

std::vector<Tensor> tensorsOf(const rt::CheckpointReader &reader) {
  std::vector<Tensor> tensors;
  for (const rt::Checkpoint::Unit &unit : reader.index().units)
    for (const Manifest::Param &param : unit.params)
      tensors.push_back({param.stateDict, reader.find(param.name)});
  std::sort(tensors.begin(), tensors.end(),
            [](const Tensor &a, const Tensor &b) { return a.name < b.name; });
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].name == tensors[i - 1].name)
      rt::fail("two parameters of the checkpoint are '", tensors[i].name,
               "' in the state dict");
  return tensors;
}

std::string headerOf(const std::vector<Tensor> &tensors) {
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  int64_t offset = 0;
  for (const Tensor &tensor : tensors) {
    int64_t bytes =
        tensor.place.param->elements() * static_cast<int64_t>(sizeof(float));
    json[tensor.name] = {{"dtype", "F32"},
                         {"shape", tensor.place.param->shape},
                         {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = json.dump();
  text.append((kAlignment - (text.size() + 8) % kAlignment) % kAlignment, ' ');
  return text;
}

} // namespace

void writeSafeTensors(rt::CheckpointReader &reader, const std::string &output) {
  std::vector<Tensor> tensors = tensorsOf(reader);
  OutputFile file(output);
  std::string header = headerOf(tensors);
  uint64_t length = header.size();
  file.write(&length, sizeof(length));
  file.write(header.data(), static_cast<int64_t>(header.size()));
  for (const Tensor &tensor : tensors) {
    std::vector<float> values = readParameter(reader, tensor.place);
    file.write(values.data(),
               static_cast<int64_t>(values.size() * sizeof(float)));
  }
  file.finish();
}

} // namespace shardonnx
