// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which attentions cuDNN computes as ShxAttention defines them. Linked into the
// compiler as well.

#include "AttentionPlan.h"
#include <algorithm>
#include <cstdint>

namespace shardonnx {

using namespace rt::cuda;

// Beyond this, keeping all scores costs more than our own kernels do.
static constexpr int64_t kMostScoreBytes = int64_t(256) << 20;

// 16 bytes of 16-bit floats.
static bool isAligned(const int64_t (&stride)[3]) {
  return stride[0] % 8 == 0 && stride[1] % 8 == 0 && stride[2] % 8 == 0;
}

// A token's heads side by side, the tokens of all samples in one row.
static bool areInARow(const ShxAttention &desc, const int64_t (&stride)[3]) {
  return stride[0] == desc.seqQ * stride[1] && stride[2] == desc.headDim;
}

// Of documents as sequences of a ragged batch.
static const char *documentRefusal(const ShxAttention &desc, bool grad) {
  if (desc.documents == 0 || !desc.causal || desc.seqQ != desc.seqK)
    return "packed documents go to cuDNN only where --max-documents says how "
           "many, and their mask is causal";
  if (desc.headDim % 16 != 0)
    return "cuDNN's workspace for documents is one for each, unless head dims "
           "are multiples of 16";
  bool rows = areInARow(desc, desc.qStride) && areInARow(desc, desc.kStride) &&
              areInARow(desc, desc.vStride) && areInARow(desc, desc.outStride);
  if (grad)
    rows = rows && areInARow(desc, desc.dqStride) &&
           areInARow(desc, desc.dkStride) && areInARow(desc, desc.dvStride) &&
           areInARow(desc, desc.doutStride);
  if (!rows)
    return "cuDNN wants the tokens of documents in one row, their heads side "
           "by side";
  if (grad && (desc.flags & SHX_ATTENTION_DETERMINISTIC))
    return "cuDNN's deterministic gradient would keep the scores of as many "
           "samples as there may be documents";
  // Where heads share keys, their gradients' offsets are multiplied.
  int64_t widest = desc.heads * desc.headDim;
  for (int64_t row :
       {desc.qStride[1], desc.kStride[1], desc.vStride[1], desc.outStride[1]})
    widest = std::max(widest, row);
  for (int64_t row : {desc.dqStride[1], desc.dkStride[1], desc.dvStride[1]})
    widest = std::max(widest, grad ? row : 0);
  if (desc.batch * desc.seqQ * widest > INT32_MAX)
    return "cuDNN is told where documents begin in 32 bits";
  return nullptr;
}

const char *cudnnRefusal(const ShxAttention &desc, bool hasMask, bool grad) {
  if (desc.dtype != SHX_BF16 && desc.dtype != SHX_F16)
    return "cuDNN's attention is for bf16 and f16 only";
  bool packed = hasMask && desc.maskDtype == SHX_I32;
  if (hasMask && !packed)
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
  if (packed)
    return documentRefusal(desc, grad);
  if (grad && (desc.flags & SHX_ATTENTION_DETERMINISTIC) &&
      cudnnScoreBytes(desc) > kMostScoreBytes)
    return "cuDNN's deterministic gradient would keep more than 256 MiB of "
           "scores";
  return nullptr;
}

} // namespace shardonnx
