// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "LegacyWeights.h"

#include "InitializerTable.h"
#include "MergedByPath.h"
#include "Untold.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>
#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {
namespace {

/// A name that the exporter made up: `onnx::MatMul_388`, or `388` before 1.13.
/// Tools that join graphs put a name before it.
bool isNumbered(StringRef name) {
  if (auto at = name.rfind("onnx::"); at != StringRef::npos)
    name = name.rsplit('_').second;
  return !name.empty() && llvm::all_of(name, llvm::isDigit);
}

class Finder {
public:
  Finder(const ::onnx::GraphProto &graph, const Metadata &metadata,
         const std::vector<Initializer> &initializers, StringRef modelPath,
         bool untold)
      : graph(graph), initializers(initializers), modelPath(modelPath),
        untold(untold), paths(graph, metadata, initializers) {
    for (const Initializer &init : initializers)
      byName[init.name] = &init;
    for (const ::onnx::NodeProto &node : graph.node()) {
      for (const std::string &input : node.input())
        readers[input].push_back(&node);
      const NodeInfo *info = metadata.findInfo(node);
      if (isProduct(node) && info)
        products[paths.of(node)][info->path].push_back(find(node.input(1)));
    }
  }

  std::vector<LegacyWeight> run();

private:
  const Initializer *find(StringRef name) const { return byName.lookup(name); }
  /// Whether a node multiplies by a matrix under a number.
  bool isProduct(const ::onnx::NodeProto &node) const;
  const Initializer *biasOf(const ::onnx::NodeProto &node) const;
  bool hasOneProduct(StringRef path) const;
  /// The state-dict name of the matrix that a product reads, or empty.
  std::string targetOf(const ::onnx::NodeProto &node) const;
  std::unique_ptr<llvm::MemoryBuffer> bytesOf(const Initializer &init) const;
  bool sameBytes(const Initializer &a, const Initializer &b) const;
  bool isTranspose(const Initializer &a, const Initializer &b) const;
  /// The embedding that `init` holds a transposed copy of, or null.
  const Initializer *findTied(const Initializer &init) const;
  /// `wte.weight_transposed` beside `wte.weight`
  bool isTransposeOf(StringRef name) const {
    return name.consume_back("_transposed") && find(name);
  }
  void addFoldedCopies(std::vector<LegacyWeight> &found) const;

  const ::onnx::GraphProto &graph;
  ArrayRef<Initializer> initializers;
  StringRef modelPath;
  bool untold; // written by PyTorch's older exporter
  ModulePaths paths;
  llvm::StringMap<const Initializer *> byName;
  llvm::StringMap<SmallVector<const ::onnx::NodeProto *>> readers;
  /// The matrices that each call of a module multiplies by.
  llvm::StringMap<llvm::StringMap<SmallVector<const Initializer *>>> products;
};

std::unique_ptr<llvm::MemoryBuffer>
Finder::bytesOf(const Initializer &init) const {
  if (init.file.empty())
    return nullptr;
  InputBytes buffer = readFirstBytes(init, modelPath, init.length);
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
  // Nothing, or zeros that stand for weights: no more is read of them.
  StringRef start = left->getBuffer().take_front(4096);
  if (start.find_first_not_of(start.take_front(1)) == StringRef::npos)
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

/// x·w + b, as tools join a product with its sum.
static bool isPlainGemm(const ::onnx::NodeProto &node) {
  return node.op_type() == "Gemm" && node.input_size() >= 2 &&
         llvm::all_of(node.attribute(), [](const auto &attribute) {
           return attribute.type() == ::onnx::AttributeProto::FLOAT
                      ? attribute.f() == 1
                      : attribute.i() == 0;
         });
}

bool Finder::isProduct(const ::onnx::NodeProto &node) const {
  bool product = node.op_type() == "MatMul" && node.input_size() == 2;
  if ((!product && !isPlainGemm(node)) || node.output_size() == 0 ||
      !isNumbered(node.input(1)))
    return false;
  const Initializer *init = find(node.input(1));
  return init && init->type.getRank() == 2 &&
         isa<FloatType>(init->type.getElementType());
}

/// The vector that is added to the product, if nothing else is done with it.
const Initializer *Finder::biasOf(const ::onnx::NodeProto &node) const {
  if (node.op_type() == "Gemm") {
    const Initializer *bias =
        node.input_size() > 2 ? find(node.input(2)) : nullptr;
    return bias && bias->type.getRank() == 1 ? bias : nullptr;
  }
  auto found = readers.find(node.output(0));
  if (found == readers.end() || found->second.size() != 1 ||
      found->second.front()->op_type() != "Add")
    return nullptr;
  for (const std::string &input : found->second.front()->input())
    if (const Initializer *init = find(input))
      return init->type.getRank() == 1 ? init : nullptr;
  return nullptr;
}

/// Whether each call of the module multiplies by one matrix, if more than once.
bool Finder::hasOneProduct(StringRef path) const {
  auto found = products.find(path);
  if (found == products.end())
    return false;
  for (const auto &call : found->second)
    for (const Initializer *other : llvm::drop_begin(call.second))
      if (!sameBytes(*other, *call.second.front()) ||
          hasEqualElements(*other, modelPath))
        return false;
  return true;
}

/// By the bias of a Gemm, whose name a tool may have made up; else by the bias
/// that is added (`x.in_proj_bias` is added to a product with
/// `x.in_proj_weight`), which also has the whole path of a module that another
/// one calls; else by the module, if it has no other product.
std::string Finder::targetOf(const ::onnx::NodeProto &node) const {
  if (!isProduct(node))
    return "";
  std::string path = paths.of(node), target;
  bool unnamed = path.empty() && node.op_type() == "Gemm";
  if (path.empty() && !unnamed)
    return "";
  const Initializer *bias = biasOf(node);
  if (unnamed && (!bias || readers.lookup(bias->name).size() != 1))
    return ""; // equal ones are merged
  StringRef name = bias ? StringRef(bias->name) : StringRef();
  if (name.consume_back("bias") &&
      (unnamed || name.starts_with(path + ".") ||
       name.ends_with("." + path + ".") || name.ends_with("/" + path + ".")))
    target = name.str() + "weight";
  else if (!unnamed && hasOneProduct(path))
    target = path + ".weight";
  return target.empty() || find(target) ? "" : target;
}

const Initializer *Finder::findTied(const Initializer &init) const {
  for (const ::onnx::NodeProto &node : graph.node()) {
    if (node.op_type() != "Gather" || node.input_size() != 2)
      continue;
    const Initializer *table = find(node.input(0));
    // Many others may have equal elements, too.
    if (table && table != &init && isTranspose(init, *table) &&
        !hasEqualElements(init, modelPath))
      return table;
  }
  return nullptr;
}

std::vector<LegacyWeight> Finder::run() {
  std::vector<LegacyWeight> found;
  llvm::StringMap<const Initializer *> byTarget;
  llvm::StringSet<> biases;
  for (const ::onnx::NodeProto &node : graph.node()) {
    if (!isProduct(node) || readers[node.input(1)].size() != 1)
      continue;
    const Initializer *init = find(node.input(1));
    LegacyWeight weight{init->name, targetOf(node), "", false};
    auto [first, isFirst] = byTarget.try_emplace(weight.target, init);
    // `x @ table.T` of a module's own code has no name.
    const Initializer *tied =
        isFirst || weight.target.empty() ? findTied(*init) : nullptr;
    if (!tied && weight.target.empty())
      continue;
    if (tied) {
      weight.copyOf = tied->name;
      weight.copyIsTransposed = true;
    } else if (!isFirst) {
      // A module that runs twice; or another one, which keeps its name.
      if (!sameBytes(*init, *first->second))
        continue;
      weight.copyOf = first->second->name;
    }
    if (const Initializer *bias = biasOf(node);
        bias && isNumbered(bias->name) && !weight.target.empty()) {
      std::string name = StringRef(weight.target).drop_back(6).str() + "bias";
      if (!find(name) && readers[bias->name].size() == 1 &&
          biases.insert(name).second)
        found.push_back({bias->name, name, "", false, /*transposed=*/false});
    }
    found.push_back(std::move(weight));
  }
  addFoldedCopies(found);
  return found;
}

/// Transposed copies of embeddings that a tool or another exporter has folded,
/// whoever reads them: to train apart from the table they would have names of
/// their own, which of PyTorch's are known.
void Finder::addFoldedCopies(std::vector<LegacyWeight> &found) const {
  llvm::StringSet<> known;
  for (const LegacyWeight &weight : found)
    known.insert(weight.name);
  for (const Initializer &init : initializers) {
    if (known.contains(init.name) || init.type.getRank() != 2 ||
        !isa<FloatType>(init.type.getElementType()) ||
        (untold && !isNumbered(init.name) && !isComputedName(init.name) &&
         !isTransposeOf(init.name)))
      continue;
    if (const Initializer *tied = findTied(init))
      found.push_back({init.name, "", tied->name, /*copyIsTransposed=*/true});
  }
}

} // namespace

std::vector<LegacyWeight>
findLegacyWeights(const ::onnx::GraphProto &graph, const Metadata &metadata,
                  const std::vector<Initializer> &initializers,
                  StringRef modelPath, bool untold) {
  if (!metadata.signature.empty())
    return {};
  return Finder(graph, metadata, initializers, modelPath, untold).run();
}

} // namespace shardonnx
