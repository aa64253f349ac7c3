// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model of any content through import and raise. It becomes a module that
// verifies, or it is refused with at least one message of one line. Dynamic
// dimensions get small numbers; beside the model lie a file that external data
// may name, a link that leaves the folder and a folder.

#include "shardonnx/Import/Import.h"
#include "Scratch.h"
#include "mlir/Pass/PassManager.h"
#include "shardonnx/Conversion/ONNXToNN/ONNXToNN.h"
#include "shardonnx/Dialect/NN/IR/NN.h"
#include "shardonnx/Support/Diagnostics.h"

#include <onnx/onnx_pb.h>
#include <unistd.h>

using namespace mlir;
using namespace shardonnx;

namespace {

/// A number for every dimension that has none.
void bindDimensions(const ::onnx::ModelProto &model, ImportOptions &options) {
  for (const auto &input : model.graph().input()) {
    const auto &shape = input.type().tensor_type().shape();
    for (int axis = 0; axis < shape.dim_size(); ++axis) {
      if (shape.dim(axis).has_dim_value())
        continue;
      if (axis == 0)
        options.batch = 2;
      else if (!shape.dim(axis).dim_param().empty())
        options.dims[shape.dim(axis).dim_param()] = 3;
    }
  }
}

[[noreturn]] void complain(StringRef what, StringRef messages) {
  llvm::errs() << "fuzz_import: " << what << ": '" << messages << "'\n";
  std::abort();
}

/// Whether the messages are whole lines that begin with the program's name.
void checkMessages(StringRef messages, bool failed) {
  if (failed && !messages.contains("fuzz: error: "))
    complain("refused without a reason", messages);
  SmallVector<StringRef> lines;
  messages.split(lines, '\n');
  if (!lines.pop_back_val().empty())
    complain("a message ends inside a line", messages);
  for (StringRef line : lines)
    if (!line.starts_with("fuzz: "))
      complain("a message takes several lines", messages);
}

/// Whether the module became one of the `nn` dialect.
LogicalResult importAndRaise(const ImportOptions &options, Diagnostics &diags) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<nn::NNDialect>();
  auto handler = diags.capture(&context, options.model);
  OwningOpRef<ModuleOp> module = importOnnx(context, options, diags);
  if (!module)
    return failure();
  PassManager manager(&context);
  buildRaisePipeline(manager, RaiseOptions());
  return manager.run(*module);
}

struct Neighbours {
  explicit Neighbours(fuzz::Scratch &scratch) {
    std::string bytes(4096, '\1');
    scratch.write("w.bin", bytes.data(), bytes.size());
    if (::symlink("/etc/hostname", (scratch.folder + "/link.bin").c_str()) != 0)
      complain("no link can be made in", scratch.folder);
  }
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static fuzz::Scratch scratch;
  static Neighbours neighbours(scratch);
  ImportOptions options;
  options.model = scratch.write("model.onnx", bytes, size);
  options.isSupported = isRaisable;
  ::onnx::ModelProto model;
  if (model.ParseFromArray(bytes, static_cast<int>(size)))
    bindDimensions(model, options);
  std::string messages;
  llvm::raw_string_ostream out(messages);
  Diagnostics diags("fuzz", out);
  bool refused = failed(importAndRaise(options, diags));
  checkMessages(messages, refused);
  return 0;
}
