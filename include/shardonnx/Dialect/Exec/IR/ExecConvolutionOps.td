// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The calls of ConvolutionABI.h, one op for each.

#ifndef SHARDONNX_DIALECT_EXEC_CONVOLUTION_OPS
#define SHARDONNX_DIALECT_EXEC_CONVOLUTION_OPS

include "shardonnx/Dialect/Exec/IR/ExecBase.td"

class Exec_DepthwiseOp<string mnemonic>
    : Exec_CallOp<mnemonic, ["getExecutedFlops", "getScratchBytes"]>;

def Exec_DepthwiseConvOp : Exec_DepthwiseOp<"depthwise_conv"> {
  let summary = "nn.depthwise_conv on contiguous buffers";
  let arguments = (ins Exec_Read:$image, Exec_Read:$kernel, Exec_Write:$result,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$low);
  let assemblyFormat = [{
    $image `,` $kernel `into` $result attr-dict `:` type($image) `,`
    type($kernel) `,` type($result)
  }];
}

def Exec_DepthwiseConvImageGradOp
    : Exec_DepthwiseOp<"depthwise_conv_image_grad"> {
  let summary = "nn.depthwise_conv_image_grad on contiguous buffers";
  let arguments = (ins Exec_Read:$grad, Exec_Read:$kernel, Exec_Write:$result,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$low);
  let assemblyFormat = [{
    $grad `,` $kernel `into` $result attr-dict `:` type($grad) `,`
    type($kernel) `,` type($result)
  }];
}

def Exec_DepthwiseConvKernelGradOp
    : Exec_DepthwiseOp<"depthwise_conv_kernel_grad"> {
  let summary = "nn.depthwise_conv_kernel_grad on contiguous buffers";
  let arguments = (ins Exec_Read:$image, Exec_Read:$grad, Exec_Write:$result,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$low);
  let assemblyFormat = [{
    $image `,` $grad `into` $result attr-dict `:` type($image) `,`
    type($grad) `,` type($result)
  }];
}

#endif // SHARDONNX_DIALECT_EXEC_CONVOLUTION_OPS
