// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of the lowerings of single ops.

#include "Handlers.h"

namespace shardonnx {

Handler findHandler(llvm::StringRef opType) {
  static const HandlerTable table = [] {
    HandlerTable all;
    for (auto add :
         {addAttentionHandlers, addChannelNormHandlers, addConvolutionHandlers,
          addDropoutHandlers,   addEinsumHandlers,      addElementwiseHandlers,
          addGatherHandlers,    addLossHandlers,        addMathHandlers,
          addMatmulHandlers,    addNormHandlers,        addPoolingHandlers,
          addRearrangeHandlers, addRecurrentHandlers,   addReduceHandlers,
          addResizeHandlers,    addRotaryHandlers,      addScatterHandlers,
          addSelectionHandlers, addShapeHandlers})
      add(all);
    return all;
  }();
  return table.lookup(opType);
}

} // namespace shardonnx
