// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A state dict as PyTorch's tools read it: each parameter once, under the name
// that the framework stores, in the layout of its module. The metadata say
// which names are not there and whose tensor they share, as safetensors'
// save_model does and its load_model reads.

#include "Export.h"
#include "GraphEdit.h"

#include "../../runtime/support/Error.h"

#include <nlohmann/json.hpp>
#include <onnx/onnx_pb.h>

namespace shardonnx {
namespace {

constexpr size_t kAlignment = 64; // of the first tensor in the file

// One of the checkpoint, or one that the model alone has.
struct Tensor {
  std::string name;
  std::vector<std::string> names; // all that modules have for it
  std::vector<int64_t> shape;
  rt::CheckpointReader::Place place;
  const GraphInitializer *untrained = nullptr;
};

std::vector<Tensor> tensorsOf(const rt::CheckpointReader &reader,
                              const EditedGraph *graph) {
  std::vector<Tensor> tensors;
  for (const rt::Checkpoint::Unit &unit : reader.index().units)
    for (const Manifest::Param &param : unit.params)
      if (!isAdapter(param))
        tensors.push_back({param.stateDict, param.names(), param.wholeShape(),
                           reader.find({param.name})});
  // Frozen ones that are small are numbers of the program, and what nothing
  // reads is not in it.
  if (graph)
    for (const GraphInitializer &init : graph->initializers)
      if (init.isParameter && !reader.find(init.names).param) {
        std::vector<int64_t> shape = init.shape;
        if (init.transposed)
          std::swap(shape[0], shape[1]);
        tensors.push_back({init.names.front(), init.names, shape, {}, &init});
      }
  std::sort(tensors.begin(), tensors.end(),
            [](const Tensor &a, const Tensor &b) { return a.name < b.name; });
  for (size_t i = 1; i < tensors.size(); ++i)
    if (tensors[i].name == tensors[i - 1].name)
      rt::fail("two parameters of the checkpoint are '", tensors[i].name,
               "' in the state dict");
  return tensors;
}

// The model, which has the parameters that were not trained. Where it is not at
// hand the others are written all the same. A checkpoint that was converted has
// all that the framework stored, and names no model.
std::optional<EditedGraph> graphOf(const rt::CheckpointReader &reader,
                                   const std::string &model) {
  if (model.empty())
    return std::nullopt;
  try {
    checkModelHash(reader, model);
    return readGraph(model);
  } catch (const rt::Error &e) {
    rt::printWarning(rt::concat("parameters that the program did not train "
                                "and has no state of are left out: ",
                                e.what()));
    return std::nullopt;
  }
}

int64_t bytesOf(const StoredTensor &tensor) {
  int64_t count = static_cast<int64_t>(sizeof(float));
  for (int64_t size : tensor.shape)
    count *= size;
  return count;
}

std::string
headerOf(const std::vector<StoredTensor> &tensors,
         const std::vector<std::pair<std::string, std::string>> &metadata) {
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  for (const auto &[key, value] : metadata)
    json["__metadata__"][key] = value;
  int64_t offset = 0;
  for (const StoredTensor &tensor : tensors) {
    int64_t end = offset + bytesOf(tensor);
    json[tensor.name] = {{"dtype", "F32"},
                         {"shape", tensor.shape},
                         {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump();
  text.append((kAlignment - (text.size() + 8) % kAlignment) % kAlignment, ' ');
  return text;
}

} // namespace

void writeTensors(
    OutputFile &file, const std::vector<StoredTensor> &tensors,
    const std::vector<std::pair<std::string, std::string>> &metadata) {
  std::string header = headerOf(tensors, metadata);
  uint64_t length = header.size();
  file.write(&length, sizeof(length));
  file.write(header.data(), static_cast<int64_t>(header.size()));
  for (const StoredTensor &tensor : tensors) {
    std::vector<float> values = tensor.read();
    file.write(values.data(),
               static_cast<int64_t>(values.size() * sizeof(float)));
  }
}

void writeSafeTensors(rt::CheckpointReader &reader, const std::string &model,
                      const std::string &output) {
  std::optional<EditedGraph> graph = graphOf(reader, model);
  std::vector<Tensor> tensors = tensorsOf(reader, graph ? &*graph : nullptr);
  std::vector<StoredTensor> stored;
  std::vector<std::pair<std::string, std::string>> aliases;
  for (const Tensor &tensor : tensors) {
    stored.push_back({tensor.name, tensor.shape, [&reader, &model, &tensor] {
                        return tensor.untrained
                                   ? readInitializer(*tensor.untrained, model)
                                   : readParameter(reader, tensor.place);
                      }});
    for (const std::string &name : tensor.names)
      if (name != tensor.name)
        aliases.emplace_back(name, tensor.name);
  }
  OutputFile file(output);
  writeTensors(file, stored, aliases);
  file.finish();
}

} // namespace shardonnx
