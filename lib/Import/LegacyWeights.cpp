// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "LegacyWeights.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cstring>
#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {
namespace {

/// A name that the exporter made up: `onnx::MatMul_388`, or `388` before 1.13.
bool isNumbered(StringRef name) {
  name.consume_front("onnx::");
  name.consume_front("MatMul_");
  return !name.empty() && llvm::all_of(name, llvm::isDigit);
}

class Finder {
public:
  Finder(const ::onnx::GraphProto &graph, const Metadata &metadata,
         const std::vector<Initializer> &initializers, StringRef modelPath)
      : graph(graph), metadata(metadata), modelPath(modelPath) {
    for (const Initializer &init : initializers)
      byName[init.name] = &init;
  }

  std::vector<LegacyWeight> run();

private:
  const Initializer *find(StringRef name) const { return byName.lookup(name); }
  /// The state-dict name of the matrix that a product reads, or empty.
  std::string targetOf(const ::onnx::NodeProto &node) const;
  std::unique_ptr<llvm::MemoryBuffer> bytesOf(const Initializer &init) const;
  bool sameBytes(const Initializer &a, const Initializer &b) const;
  bool isTranspose(const Initializer &a, const Initializer &b) const;
  /// The embedding that `init` holds a transposed copy of, or null.
  const Initializer *findTied(const Initializer &init) const;

  const ::onnx::GraphProto &graph;
  const Metadata &metadata;
  StringRef modelPath;
  llvm::StringMap<const Initializer *> byName;
};

std::unique_ptr<llvm::MemoryBuffer>
Finder::bytesOf(const Initializer &init) const {
  if (init.file.empty())
    return nullptr;
  llvm::SmallString<256> path(llvm::sys::path::parent_path(modelPath));
  llvm::sys::path::append(path, init.file);
  auto buffer =
      llvm::MemoryBuffer::getFileSlice(path, init.length, init.offset);
  return buffer ? std::move(*buffer) : nullptr;
}

bool Finder::sameBytes(const Initializer &a, const Initializer &b) const {
  auto left = bytesOf(a), right = bytesOf(b);
  return a.type == b.type && left && right &&
         left->getBuffer() == right->getBuffer();
}

bool Finder::isTranspose(const Initializer &a, const Initializer &b) const {
  ArrayRef<int64_t> shape = a.type.getShape(), other = b.type.getShape();
  if (other.size() != 2 || shape[0] != other[1] || shape[1] != other[0] ||
      a.type.getElementType() != b.type.getElementType())
    return false;
  auto left = bytesOf(a), right = bytesOf(b);
  if (!left || !right || left->getBufferSize() != right->getBufferSize())
    return false;
  size_t rows = shape[0], columns = shape[1], count = rows * columns;
  size_t width = count == 0 ? 0 : left->getBufferSize() / count;
  const char *x = left->getBufferStart(), *y = right->getBufferStart();
  for (size_t row = 0; row < rows; ++row)
    for (size_t column = 0; column < columns; ++column)
      if (std::memcmp(x + (row * columns + column) * width,
                      y + (column * rows + row) * width, width) != 0)
        return false;
  return true;
}

std::string Finder::targetOf(const ::onnx::NodeProto &node) const {
  if (node.op_type() != "MatMul" || node.input_size() != 2 ||
      node.output_size() == 0 || !isNumbered(node.input(1)))
    return "";
  const Initializer *init = find(node.input(1));
  auto info = metadata.nodes.find(node.output(0));
  if (!init || init->type.getRank() != 2 ||
      !isa<FloatType>(init->type.getElementType()) ||
      info == metadata.nodes.end() || info->second.path.empty())
    return "";
  std::string target = info->second.path + ".weight";
  return find(target) ? "" : target;
}

const Initializer *Finder::findTied(const Initializer &init) const {
  for (const ::onnx::NodeProto &node : graph.node()) {
    if (node.op_type() != "Gather" || node.input_size() != 2)
      continue;
    const Initializer *table = find(node.input(0));
    if (table && isTranspose(init, *table))
      return table;
  }
  return nullptr;
}

std::vector<LegacyWeight> Finder::run() {
  llvm::StringMap<unsigned> uses;
  for (const ::onnx::NodeProto &node : graph.node())
    for (const std::string &input : node.input())
      ++uses[input];
  std::vector<LegacyWeight> found;
  llvm::StringMap<const Initializer *> byTarget;
  for (const ::onnx::NodeProto &node : graph.node()) {
    std::string target = targetOf(node);
    if (target.empty() || uses[node.input(1)] != 1)
      continue;
    const Initializer *init = find(node.input(1));
    LegacyWeight weight{init->name, target, "", false};
    auto [first, isFirst] = byTarget.try_emplace(target, init);
    if (!isFirst) {
      // A module that runs twice; or another one, which keeps its name.
      if (!sameBytes(*init, *first->second))
        continue;
      weight.copyOf = first->second->name;
    } else if (const Initializer *tied = findTied(*init)) {
      weight.copyOf = tied->name;
      weight.copyIsTransposed = true;
    }
    found.push_back(std::move(weight));
  }
  return found;
}

} // namespace

std::vector<LegacyWeight>
findLegacyWeights(const ::onnx::GraphProto &graph, const Metadata &metadata,
                  const std::vector<Initializer> &initializers,
                  StringRef modelPath) {
  if (!metadata.signature.empty())
    return {};
  return Finder(graph, metadata, initializers, modelPath).run();
}

} // namespace shardonnx
