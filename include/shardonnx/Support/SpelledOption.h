// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Enumerations as options of passes.

#ifndef SHARDONNX_SUPPORT_SPELLEDOPTION_H
#define SHARDONNX_SUPPORT_SPELLEDOPTION_H

#include "shardonnx/runtime/Spelling.h"

namespace shardonnx {

/// What `llvm::cl::values` is, with the words of the enumeration's table.
template <typename Enum> struct SpelledValues {
  template <typename Option> void apply(Option &option) const {
    for (const Spelling<Enum> &entry : Spellings<Enum>::table)
      option.getParser().addLiteralOption(entry.text, entry.value, entry.help);
  }
};

} // namespace shardonnx

#endif // SHARDONNX_SUPPORT_SPELLEDOPTION_H
