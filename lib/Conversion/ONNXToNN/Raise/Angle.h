// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// torch.atan2(y, x) and torch.angle, which exporters write as atan(y / x) and
// turns by π. That is -π where y is 0 and x negative, which should be π, and
// has no gradient where x is 0.

#ifndef SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_ANGLE_H
#define SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_ANGLE_H

namespace mlir {
class RewritePatternSet;
}

namespace shardonnx {

/// Makes them PyTorch's on the axes and at infinity; elsewhere only rounding
/// changes.
void addAnglePatterns(mlir::RewritePatternSet &patterns);

} // namespace shardonnx

#endif // SHARDONNX_LIB_CONVERSION_ONNXTONN_RAISE_ANGLE_H
