// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions that are no matrix products. A group of its own, included by the
// few files that need it (NNConvolution.h).

#ifndef SHARDONNX_DIALECT_NN_CONVOLUTION_OPS
#define SHARDONNX_DIALECT_NN_CONVOLUTION_OPS

include "shardonnx/Dialect/NN/IR/NNBase.td"

def NN_DepthwiseConvOp : NN_PureOp<"depthwise_conv", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let summary = "A convolution of each channel with a kernel of its own";
  let description = [{
    ONNX's Conv with as many groups as channels (torch.nn.Conv1d, 2d or 3d with
    groups=channels), over one to three spatial axes:

        result[n, c, o] = Σ_k image[n, c, o·stride + k·dilation - low]·kernel[c, k]

    image is [n, c, spatial…], zero outside; kernel [c, sizes…]; the result
    [n, c, places…] with (in + low + high - dilation·(size - 1) - 1) / stride + 1
    places along each axis. A negative `low` or `high` leaves elements out. Sums
    are made in f32.
  }];
  let args = (ins NN_FloatTensor:$image, NN_FloatTensor:$kernel,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
  let results = (outs NN_FloatTensor:$result);
}

class NN_DepthwiseConvGradOp<string mnemonic>
    : NN_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<FlopsOpInterface>]> {
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = [{
    operands attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def NN_DepthwiseConvImageGradOp
    : NN_DepthwiseConvGradOp<"depthwise_conv_image_grad"> {
  let summary = "The gradient of nn.depthwise_conv's image";
  let description = [{
    Each element of the image is the sum, over the places and elements of the
    kernel that meet in it, of grad[n, c, o]·kernel[c, k].
  }];
  let args = (ins NN_FloatTensor:$grad, NN_FloatTensor:$kernel,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
}

def NN_DepthwiseConvKernelGradOp
    : NN_DepthwiseConvGradOp<"depthwise_conv_kernel_grad"> {
  let summary = "The gradient of nn.depthwise_conv's kernel";
  let description = [{
    result[c, k] = Σ_n Σ_o image[n, c, o·stride + k·dilation - low]·grad[n, c, o]
  }];
  let args = (ins NN_FloatTensor:$image, NN_FloatTensor:$grad,
                       DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$dilations,
                       DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high);
}

#endif // SHARDONNX_DIALECT_NN_CONVOLUTION_OPS
