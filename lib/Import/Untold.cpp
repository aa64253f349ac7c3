// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Warns of what the older exporter leaves out.

#include "Untold.h"
#include "Metadata.h"

#include "shardonnx/Support/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include <onnx/onnx_pb.h>

using llvm::StringRef;

namespace shardonnx {
namespace {

/// More would fill the screen.
constexpr size_t kNamesShown = 8;

std::string listNames(llvm::ArrayRef<std::string> names) {
  std::string list;
  for (size_t i = 0; i < names.size() && i < kNamesShown; ++i)
    list += (i ? ", '" : "'") + names[i] + "'";
  if (names.size() > kNamesShown)
    list += " and " + std::to_string(names.size() - kNamesShown) + " more";
  return list;
}

/// As PyTorch's layers name their parameters.
bool isWeightName(StringRef name) {
  StringRef last = name.rsplit('.').second;
  if (last.empty())
    last = name;
  return last == "weight" || last == "bias";
}

} // namespace

bool isUntold(const ::onnx::ModelProto &model, const Metadata &metadata) {
  return model.producer_name() == "pytorch" && metadata.signature.empty() &&
         metadata.parameters.empty();
}

bool isComputedName(StringRef name) { return name.contains("::"); }

void warnUntold(const ::onnx::ModelProto &model, const Metadata &metadata,
                llvm::ArrayRef<Initializer> initializers, StringRef modelPath,
                Diagnostics &diagnostics) {
  if (!isUntold(model, metadata))
    return;
  std::vector<std::string> others, folded;
  for (const Initializer &init : initializers)
    if (init.trainable && isComputedName(init.symbol))
      folded.push_back(init.symbol);
    else if (init.trainable && !isWeightName(init.symbol))
      others.push_back(init.symbol);
  std::string text =
      "'" + modelPath.str() +
      "': PyTorch's older exporter says neither which arrays are buffers or "
      "frozen nor where padding_idx or detach() stop gradients: all train";
  if (!others.empty())
    text += ", also " + listNames(others);
  if (!folded.empty())
    text += ", and so does what it computed from others (" + listNames(folded) +
            ": do_constant_folding=False keeps them)";
  diagnostics.warning(text + "; where that is wrong, export with dynamo=True");
}

} // namespace shardonnx
