// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See FoldedParameters.h.

#include "FoldedParameters.h"

#include "InitializerTable.h"
#include "KnownTables.h"
#include "Subgraphs.h"
#include "Types.h"
#include "shardonnx/Support/InputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <onnx/onnx_pb.h>

using namespace mlir;

namespace shardonnx {

bool isResultOf(StringRef name, StringRef op) {
  if (!name.consume_front(op))
    return false;
  unsigned number = 0;
  return name.empty() ||
         (name.consume_front("_") && !name.getAsInteger(10, number));
}

namespace {

class Recovery {
public:
  Recovery(::onnx::GraphProto &graph, const Metadata &metadata,
           StringRef modelPath, std::vector<Initializer> &initializers)
      : graph(graph), metadata(metadata), modelPath(modelPath),
        initializers(initializers) {
    for (const Initializer &init : initializers)
      names.insert(init.name);
    for (const Initializer &init : initializers)
      if (const SignatureInput *parameter = parameterBehind(init))
        ++claims[parameter->target];
  }

  void run() {
    for (auto [i, init] : llvm::enumerate(initializers)) {
      const SignatureInput *parameter = parameterBehind(init);
      // Two constants of one parameter are two computations of it.
      if (!parameter || claims[parameter->target] != 1 || init.value ||
          !isa<FloatType>(init.type.getElementType()))
        continue;
      ::onnx::TensorProto &tensor =
          *graph.mutable_initializer(static_cast<int>(i));
      StringRef name = init.name;
      bool moved = isMoved(name, parameter->target);
      if (isResultOf(name, "add") && moved && isScale(name))
        recoverOnePlus(init, tensor, parameter->target);
      else if ((isResultOf(name, "embedding") &&
                isLookup(name, parameter->target)) ||
               (isResultOf(name, "expand") && moved))
        recoverRows(init, tensor, parameter->target);
      else if (isResultOf(name, "slice") && moved)
        recoverUnchanged(init, tensor, parameter->target);
      else if (isGroupNorm(init, *parameter))
        recoverShape(init, tensor, parameter->target,
                     {init.type.getNumElements()});
      else if (isResultOf(name, "unsqueeze") && moved)
        recoverUnsqueezed(init, tensor, parameter->target);
      else if (isTableOfTables(init))
        recoverUnchanged(init, tensor, parameter->target);
    }
    moveToFront();
  }

private:
  /// The only parameter that a constant was folded from, if the graph no longer
  /// has it.
  const SignatureInput *parameterBehind(const Initializer &init) const {
    auto folded = metadata.foldedFrom.find(init.name);
    if (folded == metadata.foldedFrom.end())
      return nullptr;
    const SignatureInput *found = nullptr;
    for (const std::string &source : folded->second) {
      const SignatureInput *input = metadata.findTarget(source);
      if (!input || input->kind != "PARAMETER")
        continue;
      if (found)
        return nullptr;
      found = input;
    }
    return found && !names.contains(found->target) ? found : nullptr;
  }

  /// Whether all else that a constant was folded from are results of `ops`.
  bool isFoldedOf(StringRef constant, StringRef parameter,
                  ArrayRef<StringRef> ops) const {
    const std::vector<std::string> &sources =
        metadata.foldedFrom.find(constant)->second;
    return llvm::all_of(sources, [&](StringRef source) {
      return source == parameter || llvm::any_of(ops, [&](StringRef op) {
               return isResultOf(source, op);
             });
    });
  }

  /// Whether nothing was computed of the parameter before the last step, but
  /// that its shape or type changed: not so `1 + exp(w)`.
  bool isMoved(StringRef constant, StringRef parameter) const {
    return isFoldedOf(constant, parameter,
                      {"val", "alias", "_to_copy", "slice", "unsqueeze",
                       "convert_element_type_default",
                       "scalar_tensor_default"});
  }

  /// Whether rows were taken of the parameter as it is: what else there was
  /// counts places. Other computations may be of the table.
  bool isLookup(StringRef constant, StringRef parameter) const {
    SmallVector<StringRef> ops = {
        "val",   "alias",     "_to_copy", "convert_element_type_default",
        "view",  "unsqueeze", "expand",   "arange",
        "add",   "sub",       "slice",    "select",
        "index", "cumsum",    "zeros",    "zeros_like",
        "full",  "full_like", "clone",    "flip"};
    for (const SignatureInput &input : metadata.signature)
      if (input.kind != "PARAMETER")
        ops.push_back(input.target);
    return isFoldedOf(constant, parameter, ops);
  }

  /// Whether nodes only multiply by it: what is added to a scale is one.
  bool isScale(StringRef name) const {
    return isReadOnlyAs(graph, name, [](const ::onnx::NodeProto &node, int i) {
      bool norm = i == 1 && (node.op_type() == "RMSNormalization" ||
                             node.op_type() == "LayerNormalization");
      return norm || node.op_type() == "Mul";
    });
  }

  /// Whether slices are taken of it, such as the weights of a token's experts:
  /// the exporter has put a transpose of no effect before that.
  bool isTableOfTables(const Initializer &init) const {
    bool used = false;
    for (const ::onnx::NodeProto &node : graph.node())
      for (int i = 0; i < node.input_size(); ++i) {
        if (node.input(i) != init.name)
          continue;
        used = true;
        if (i != 0 || node.op_type() != "GatherND")
          return false;
      }
    return used && init.type.getRank() > 2;
  }

  /// Whether it is the weight or bias of a group norm, which the exporter gives
  /// the shape of a channel: only axes of one element were added.
  bool isGroupNorm(const Initializer &init,
                   const SignatureInput &parameter) const {
    bool used = false;
    for (const ::onnx::NodeProto &node : graph.node()) {
      if (!llvm::is_contained(node.input(), init.name))
        continue;
      used = true;
      const NodeInfo &info = metadata.infoOf(node);
      if ((node.op_type() != "Mul" && node.op_type() != "Add") ||
          !StringRef(info.target).starts_with("aten.group_norm") ||
          !info.reads(parameter.placeholder))
        return false;
    }
    return used && init.type.getRank() > 0 &&
           init.type.getNumElements() == init.type.getDimSize(0);
  }

  /// Without the axes of one element that were added, if there are no others.
  void recoverUnsqueezed(Initializer &init, ::onnx::TensorProto &tensor,
                         const std::string &target) {
    int64_t added = 1;
    for (StringRef source : metadata.foldedFrom.find(init.name)->second)
      added += isResultOf(source, "unsqueeze");
    SmallVector<int64_t> shape(init.type.getShape());
    llvm::erase(shape, 1);
    if (init.type.getRank() - int64_t(shape.size()) == added)
      recoverShape(init, tensor, target, shape);
  }

  void recoverShape(Initializer &init, ::onnx::TensorProto &tensor,
                    const std::string &target, ArrayRef<int64_t> shape) {
    std::string old = init.name;
    ::onnx::TensorProto to = asTensor(init.type.getShape());
    init.type = RankedTensorType::get(shape, init.type.getElementType());
    rename(init, tensor, target);
    std::string name = addConstant(old + "_shape", to);
    addNode("Reshape", {target, name}, old);
  }

  void recoverUnchanged(Initializer &init, ::onnx::TensorProto &tensor,
                        const std::string &target) {
    std::string old = init.name;
    rename(init, tensor, target);
    addNode("Identity", {target}, old);
  }

  void recoverOnePlus(Initializer &init, ::onnx::TensorProto &tensor,
                      const std::string &target) {
    int type = tensor.data_type();
    if (type != ::onnx::TensorProto::FLOAT &&
        type != ::onnx::TensorProto::FLOAT16 &&
        type != ::onnx::TensorProto::BFLOAT16)
      return;
    ::onnx::TensorProto one;
    one.set_data_type(type);
    if (type == ::onnx::TensorProto::FLOAT)
      one.add_float_data(1);
    else
      one.add_int32_data(type == ::onnx::TensorProto::FLOAT16 ? 0x3c00
                                                              : 0x3f80);
    std::string old = init.name;
    rename(init, tensor, target);
    init.addend = -1;
    addNode("Add", {target, addConstant(old + "_one", one)}, old);
  }

  static bool isZeros(StringRef bytes) {
    return bytes.find_first_not_of('\0') == StringRef::npos;
  }

  /// Whether a constant was folded from numbers that count.
  bool isCounted(StringRef constant) const {
    return llvm::any_of(
        metadata.foldedFrom.find(constant)->second,
        [](StringRef source) { return isResultOf(source, "arange"); });
  }

  /// The rows behind `init`: those of one sample where a static batch repeats
  /// them; all of these where no two are equal, one where all are. Otherwise it
  /// is not known which of them are the same row of the table: so where they
  /// are equal although places were counted, or where one is zeros, which may
  /// be that of a padding_idx.
  void recoverRows(Initializer &init, ::onnx::TensorProto &tensor,
                   const std::string &target) {
    SmallVector<int64_t> shape(init.type.getShape());
    if (shape.size() < 2 || init.type.getNumElements() == 0)
      return;
    int64_t width = shape.back(), all = init.type.getNumElements() / width;
    std::unique_ptr<llvm::MemoryBuffer> bytes = read(init);
    if (!bytes)
      return;
    auto row = [&, stride = bytes->getBufferSize() / all](int64_t i) {
      return bytes->getBuffer().substr(i * stride, stride);
    };
    int64_t count = shape[shape.size() - 2];
    for (int64_t i = count; i < all; ++i)
      if (row(i) != row(i % count))
        count = all;
    llvm::StringSet<> distinct;
    for (int64_t i = 0; i < count; ++i)
      distinct.insert(row(i));
    // A sparse file is zeros: its rows only look equal.
    bool empty = isZeros(bytes->getBuffer());
    bool sparse = empty && init.file != llvm::sys::path::filename(modelPath);
    bool same = distinct.size() == 1, counted = isCounted(init.name);
    if (!sparse && isResultOf(init.name, "embedding") &&
        llvm::any_of(distinct.keys(), isZeros))
      return;
    if (same && !counted && !sparse)
      count = 1;
    else if (static_cast<int64_t>(distinct.size()) != count && !sparse)
      return;
    setRows(init, tensor, target, count, shape);
  }

  void setRows(Initializer &init, ::onnx::TensorProto &tensor,
               const std::string &target, int64_t count,
               ArrayRef<int64_t> shape) {
    std::string old = init.name;
    bool same = init.type.getNumElements() == count * shape.back();
    // Modules look up sines of positions under torch.no_grad(), of which
    // nothing is left: unless the author says it, whether they train is not
    // known.
    Initializer table = init;
    table.type = RankedTensorType::get({count, shape.back()},
                                       init.type.getElementType());
    if (metadata.parameters.empty() && isWaves(table, modelPath))
      return;
    init.type = table.type;
    init.length = storageBytes(init.type);
    rename(init, tensor, target);
    std::string name = addConstant(old + "_shape", asTensor(shape));
    addNode(same ? "Reshape" : "Expand", {target, name}, old);
  }

  std::unique_ptr<llvm::MemoryBuffer> read(const Initializer &init) const {
    llvm::SmallString<256> path(llvm::sys::path::parent_path(modelPath));
    llvm::sys::path::append(path, init.file);
    InputBytes buffer = readInputSlice(path, init.length, init.offset);
    return buffer && (*buffer)->getBufferSize() == init.length
               ? std::move(*buffer)
               : nullptr;
  }

  /// Parameter and tensor under their state-dict name, in the shape of `init`.
  void rename(Initializer &init, ::onnx::TensorProto &tensor,
              const std::string &target) {
    init.name = init.symbol = target;
    tensor.set_name(target);
    tensor.clear_dims();
    for (int64_t dim : init.type.getShape())
      tensor.add_dims(dim);
    if (tensor.has_raw_data())
      tensor.mutable_raw_data()->resize(
          std::min<size_t>(tensor.raw_data().size(), init.length));
  }

  std::string addConstant(const std::string &name,
                          const ::onnx::TensorProto &value) {
    addAttribute(addNode("Constant", {}, name), "value", value);
    return name;
  }

  ::onnx::NodeProto &addNode(StringRef op, ArrayRef<std::string> inputs,
                             const std::string &output) {
    ++added;
    return appendNode(graph, op, inputs, {output}, output + "_recovered");
  }

  /// Those that were added, in their order, before all others.
  void moveToFront() {
    auto *nodes = graph.mutable_node();
    std::rotate(nodes->pointer_begin(), nodes->pointer_end() - added,
                nodes->pointer_end());
  }

  ::onnx::GraphProto &graph;
  const Metadata &metadata;
  StringRef modelPath;
  std::vector<Initializer> &initializers;
  llvm::StringSet<> names;
  llvm::StringMap<unsigned> claims;
  int added = 0;
};

} // namespace

void recoverFoldedParameters(::onnx::GraphProto &graph,
                             const Metadata &metadata, StringRef modelPath,
                             std::vector<Initializer> &initializers) {
  Recovery(graph, metadata, modelPath, initializers).run();
}

} // namespace shardonnx
