// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which attentions cuDNN computes as ShxAttention defines them. Linked into the
// compiler as well.

#include "AttentionPlan.h"

namespace shardonnx {

using namespace rt::cuda;

// Beyond this, keeping all scores costs more than our own kernels do.
static constexpr int64_t kMostScoreBytes = int64_t(256) << 20;

// 16 bytes of 16-bit floats.
static bool isAligned(const int64_t (&stride)[3]) {
  return stride[0] % 8 == 0 && stride[1] % 8 == 0 && stride[2] % 8 == 0;
}

const char *cudnnRefusal(const ShxAttention &desc, bool hasMask, bool grad) {
  if (desc.dtype != SHX_BF16 && desc.dtype != SHX_F16)
    return "cuDNN's attention is for bf16 and f16 only";
  if (hasMask && desc.maskDtype == SHX_I32)
    return "cuDNN plans for a number of documents, which only the data tells";
  if (hasMask)
    return "cuDNN does not promise zeros for a query whose keys are all masked";
  if (desc.softcap > 0)
    return "cuDNN has no soft cap beside a causal mask";
  if (desc.headDim % 8 != 0 || desc.headDim > 256)
    return "cuDNN's head dims are multiples of 8 up to 256";
  if (desc.causal && desc.seqQ > desc.seqK)
    return "cuDNN has no causal attention of more queries than keys";
  if (desc.window > 0 && !desc.causal)
    return "cuDNN's window moves along with the queries";
  if (grad && desc.seqQ == 1 && desc.seqK == 1)
    return "cuDNN has no gradient of one query and one key";
  bool aligned = isAligned(desc.qStride) && isAligned(desc.kStride) &&
                 isAligned(desc.vStride) && isAligned(desc.outStride);
  if (grad)
    aligned = aligned && isAligned(desc.dqStride) && isAligned(desc.dkStride) &&
              isAligned(desc.dvStride) && isAligned(desc.doutStride);
  if (!aligned)
    return "cuDNN wants rows at multiples of 8 elements";
  if (grad && (desc.flags & SHX_ATTENTION_DETERMINISTIC) &&
      cudnnScoreBytes(desc) > kMostScoreBytes)
    return "cuDNN's deterministic gradient would keep more than 256 MiB of "
           "scores";
  return nullptr;
}

} // namespace shardonnx
