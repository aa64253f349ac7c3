// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See InitializerTable.h.

#include "InitializerTable.h"

#include "Types.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace shardonnx {

InitializerTable::InitializerTable(::onnx::GraphProto &graph,
                                   StringRef modelPath,
                                   std::vector<Initializer> &entries)
    : graph(graph), modelPath(modelPath), entries(entries),
      uniform(entries.size()) {
  for (size_t i = 0; i < entries.size(); ++i) {
    byName[entries[i].name] = i;
    values.insert(entries[i].name);
  }
  for (const ::onnx::ValueInfoProto &input : graph.input())
    values.insert(input.name());
  for (const ::onnx::NodeProto &node : graph.node())
    for (const std::string &output : node.output())
      values.insert(output);
}

std::optional<size_t> InitializerTable::find(StringRef name) const {
  auto found = byName.find(name);
  return found == byName.end() ? std::nullopt : std::optional(found->second);
}

bool InitializerTable::isFloat(size_t index) const {
  return isa<FloatType>(entries[index].type.getElementType());
}

std::vector<InitializerUse>
InitializerTable::uses(::onnx::NodeProto &node) const {
  std::vector<InitializerUse> found;
  for (int i = 0; i < node.input_size(); ++i)
    if (std::optional<size_t> init = find(node.input(i)))
      found.push_back({&node, i, *init});
  return found;
}

bool isReadOnlyAs(
    const ::onnx::GraphProto &graph, StringRef value,
    llvm::function_ref<bool(const ::onnx::NodeProto &, int)> isSo) {
  bool read = false;
  for (const ::onnx::NodeProto &node : graph.node())
    for (int i = 0; i < node.input_size(); ++i) {
      if (node.input(i) != value)
        continue;
      read = true;
      if (!isSo(node, i))
        return false;
    }
  return read;
}

InputBytes readFirstBytes(const Initializer &init, StringRef modelPath,
                          uint64_t length) {
  llvm::SmallString<256> path(llvm::sys::path::parent_path(modelPath));
  llvm::sys::path::append(path, init.file);
  return readInputSlice(path, length, init.offset);
}

bool hasEqualElements(const Initializer &init, StringRef modelPath) {
  if (auto value = dyn_cast_or_null<DenseElementsAttr>(init.value))
    return value.isSplat();
  int64_t count = init.type.getNumElements();
  if (count == 0 || init.length == 0)
    return init.length == 0;
  InputBytes buffer = readFirstBytes(init, modelPath, init.length);
  if (!buffer || (*buffer)->getBufferSize() != init.length)
    return false;
  StringRef bytes = (*buffer)->getBuffer();
  size_t width = bytes.size() / static_cast<size_t>(count);
  // Equal to itself moved by one element.
  return bytes.drop_front(width) == bytes.drop_back(width);
}

bool InitializerTable::isUniform(size_t index) {
  if (!uniform[index])
    uniform[index] = hasEqualElements(entries[index], modelPath);
  return *uniform[index];
}

size_t InitializerTable::add(Initializer init, ::onnx::TensorProto tensor) {
  tensor.set_name(init.name);
  *graph.add_initializer() = std::move(tensor);
  byName[init.name] = entries.size();
  values.insert(init.name);
  entries.push_back(std::move(init));
  uniform.emplace_back();
  return entries.size() - 1;
}

size_t InitializerTable::addCopy(size_t from, const std::string &name) {
  Initializer copy = entries[from];
  copy.name = copy.symbol = name;
  copy.isConstant = false;
  return add(std::move(copy), graph.initializer(static_cast<int>(from)));
}

size_t InitializerTable::addZeros(const std::string &name, int64_t size,
                                  size_t like) {
  Initializer zeros;
  zeros.name = zeros.symbol = name;
  zeros.type =
      RankedTensorType::get({size}, entries[like].type.getElementType());
  zeros.file = llvm::sys::path::filename(modelPath).str();
  zeros.isStripped = true;
  ::onnx::TensorProto tensor;
  tensor.set_data_type(graph.initializer(static_cast<int>(like)).data_type());
  tensor.add_dims(size);
  return add(std::move(zeros), std::move(tensor));
}

} // namespace shardonnx
