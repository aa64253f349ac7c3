// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lowerings of single ops, by op type.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_HANDLERS_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_HANDLERS_H

#include "Lowering.h"
#include "llvm/ADT/StringMap.h"

namespace shardonnx {

/// Lowers one node. On failure it has called `unsupported`, which records why.
using Handler = llvm::LogicalResult (*)(Lowering &, onnx::NodeOp);
using HandlerTable = llvm::StringMap<Handler>;

void addAttentionHandlers(HandlerTable &table);
void addChannelNormHandlers(HandlerTable &table);
void addConvolutionHandlers(HandlerTable &table);
void addDropoutHandlers(HandlerTable &table);
void addEinsumHandlers(HandlerTable &table);
void addElementwiseHandlers(HandlerTable &table);
void addFourierHandlers(HandlerTable &table);
void addGatherHandlers(HandlerTable &table);
void addGridSampleHandlers(HandlerTable &table);
void addLossHandlers(HandlerTable &table);
void addMathHandlers(HandlerTable &table);
void addMatmulHandlers(HandlerTable &table);
void addNormHandlers(HandlerTable &table);
void addPoolingHandlers(HandlerTable &table);
void addQuantizationHandlers(HandlerTable &table);
void addRandomHandlers(HandlerTable &table);
void addRearrangeHandlers(HandlerTable &table);
void addRecurrentHandlers(HandlerTable &table);
void addReduceHandlers(HandlerTable &table);
void addResizeHandlers(HandlerTable &table);
void addRotaryHandlers(HandlerTable &table);
void addScatterHandlers(HandlerTable &table);
void addSelectionHandlers(HandlerTable &table);
void addShapeHandlers(HandlerTable &table);

/// The handler of an op type, or null.
Handler findHandler(llvm::StringRef opType);

/// Calls it. Operands of which no op can be built refuse the node.
llvm::LogicalResult callHandler(Handler handler, Lowering &l,
                                onnx::NodeOp node);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_LOWER_HANDLERS_H
