// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See GraphEdit.h.

#include "GraphEdit.h"

#include "../../runtime/support/Error.h"
#include "../Import/Metadata.h"
#include "../Import/Parameters.h"
#include "../Import/Types.h"
#include "../Import/WireFormat.h"
#include "mlir/IR/MLIRContext.h"
#include "shardonnx/Import/Import.h"
#include "shardonnx/Support/Diagnostics.h"
#include "shardonnx/Support/InputFile.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <set>

using namespace mlir;

namespace shardonnx {
namespace {

StrippedModel parse(const std::string &path, ::onnx::ModelProto &model) {
  InputBytes buffer = readInputFile(path);
  if (!buffer)
    rt::fail("cannot read '", path, "': ", buffer.getError().message(),
             "; --model FILE says where the ONNX file that was compiled is "
             "now, its external data beside it");
  llvm::Expected<StrippedModel> stripped = stripModel((*buffer)->getBuffer());
  if (!stripped)
    rt::fail("'", path, "': ", llvm::toString(stripped.takeError()));
  if (!model.ParseFromString(stripped->bytes))
    rt::fail("'", path, "' is not an ONNX model");
  return std::move(*stripped);
}

ModelInitializers take(const std::string &path, ::onnx::ModelProto &model,
                       const StrippedModel &stripped, MLIRContext &context) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  Diagnostics diagnostics("", stream);
  Metadata metadata = readMetadata(model);
  ImportOptions options;
  options.model = path;
  auto taken = takeInitializers(model, stripped, metadata, options, &context,
                                diagnostics);
  if (failed(taken)) {
    llvm::StringRef line = llvm::StringRef(text).split('\n').first;
    line.consume_front(": error: ");
    rt::fail(line.str());
  }
  return std::move(*taken);
}

std::vector<float> valuesOf(ElementsAttr value) {
  std::vector<float> values;
  for (llvm::APFloat element : value.getValues<llvm::APFloat>()) {
    bool inexact = false;
    element.convert(llvm::APFloat::IEEEsingle(),
                    llvm::APFloat::rmNearestTiesToEven, &inexact);
    values.push_back(element.convertToFloat());
  }
  return values;
}

} // namespace

EditedGraph readGraph(const std::string &path) {
  EditedGraph edited;
  edited.model = std::make_unique<::onnx::ModelProto>();
  StrippedModel stripped = parse(path, *edited.model);
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ModelInitializers taken = take(path, *edited.model, stripped, context);
  ::onnx::GraphProto &graph = *edited.model->mutable_graph();
  std::map<std::string, int> types;
  for (const auto &tensor : graph.initializer())
    types[tensor.name()] = tensor.data_type();
  for (const auto &input : graph.input())
    types.emplace(input.name(), input.type().tensor_type().elem_type());
  std::set<std::string> names;
  std::string own = llvm::sys::path::filename(path).str();
  for (const Initializer &init : taken.initializers) {
    GraphInitializer entry;
    entry.name = init.name;
    entry.symbol = init.symbol;
    entry.shape = init.type.getShape().vec();
    entry.elementType = types[init.name];
    entry.bytes = static_cast<int64_t>(storageBytes(init.type));
    entry.file = init.value ? "" : init.file;
    entry.length = static_cast<int64_t>(init.length);
    entry.offset = static_cast<int64_t>(init.offset);
    entry.transposed = init.transposed;
    entry.isParameter = init.isParameter;
    entry.addend = init.addend;
    // As the manifest has them: ONNX promises nothing about their encoding.
    for (const std::string &name : init.names)
      entry.names.push_back(llvm::json::fixUTF8(name));
    if (entry.names.empty())
      entry.names.push_back(llvm::json::fixUTF8(init.symbol));
    if (init.isParameter && init.value)
      entry.values = valuesOf(init.value);
    edited.external |= !entry.file.empty() && entry.file != own;
    names.insert(init.name);
    edited.initializers.push_back(std::move(entry));
  }
  // The importer declares those that it takes out as inputs.
  auto *inputs = graph.mutable_input();
  for (int i = inputs->size() - 1; i >= 0; --i)
    if (names.count(inputs->Get(i).name()))
      inputs->DeleteSubrange(i, 1);
  return edited;
}

} // namespace shardonnx
