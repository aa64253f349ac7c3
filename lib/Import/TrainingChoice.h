// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the user says of which parameters train.

#ifndef SHARDONNX_LIB_IMPORT_TRAININGCHOICE_H
#define SHARDONNX_LIB_IMPORT_TRAININGCHOICE_H

#include "Parameters.h"
#include "llvm/Support/Regex.h"

#include <vector>

namespace shardonnx {

/// --freeze and --trainable, of whole names. What is no expression says
/// nothing: the pass that freezes refuses it.
class TrainingChoice {
public:
  explicit TrainingChoice(const ImportOptions &options);

  bool freezes(llvm::StringRef name) const;
  /// Whether the parameter trains, by any of its names.
  bool trains(const Initializer &init) const;

private:
  std::vector<llvm::Regex> frozen, trained;
  bool all; // no --trainable
};

} // namespace shardonnx

#endif // SHARDONNX_LIB_IMPORT_TRAININGCHOICE_H
