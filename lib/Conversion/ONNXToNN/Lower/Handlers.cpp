// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of the lowerings of single ops.

#include "Handlers.h"

#include "shardonnx/Dialect/NN/IR/ShapeRule.h"

namespace shardonnx {

Handler findHandler(llvm::StringRef opType) {
  static const HandlerTable table = [] {
    HandlerTable all;
    for (auto add :
         {addAttentionHandlers, addChannelNormHandlers, addConvolutionHandlers,
          addDropoutHandlers,   addEinsumHandlers,      addElementwiseHandlers,
          addFourierHandlers,   addGatherHandlers,      addGridSampleHandlers,
          addLossHandlers,      addMathHandlers,        addMatmulHandlers,
          addNormHandlers,      addPoolingHandlers,     addQuantizationHandlers,
          addRearrangeHandlers, addRandomHandlers,      addRecurrentHandlers,
          addReduceHandlers,    addResizeHandlers,      addRotaryHandlers,
          addScatterHandlers,   addSelectionHandlers,   addShapeHandlers})
      add(all);
    return all;
  }();
  return table.lookup(opType);
}

llvm::LogicalResult callHandler(Handler handler, Lowering &l,
                                onnx::NodeOp node) {
  nn::CatchMisfits scope;
  try {
    return handler(l, node);
  } catch (const nn::Misfit &misfit) {
    return l.unsupported(node, "its operands do not fit: " + misfit.why);
  }
}

} // namespace shardonnx
