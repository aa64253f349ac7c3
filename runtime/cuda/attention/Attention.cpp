// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Attention.h; and the launches of our own kernels.

#include "Attention.h"
#include "../../support/Error.h"
#include "../driver/CallTrace.h"
#include "../driver/Switch.h"
#include "../kernels/AttentionArgs.h"
#include "../launch/KernelNames.h"
#include "../launch/Launch.h"
#include "../plan/AttentionPlan.h"
#include "CudnnAttention.h"
#include "shardonnx/runtime/UnseenQueries.h"
#include <cmath>
#include <cstring>

namespace shardonnx::rt::cuda {

Attention::Attention(Context &context) : context(context) {}

Attention::~Attention() {
  plans.clear();
#ifdef SHX_HAS_CUDNN
  if (handle)
    endCudnnHandle(handle);
#endif
}

// What one rank meets all of them do.
void Attention::warn(const std::string &refusal) {
  if (context.rank == 0)
    printWarning(concat("attention runs on kernels of our own, which are "
                        "slower than cuDNN's: ",
                        refusal));
}

std::unique_ptr<CudnnPlan> Attention::makePlan(const ShxAttention &desc,
                                               bool grad) {
  std::string refusal;
  int64_t bytes =
      grad ? attentionGradWorkspaceBytes(desc) : attentionWorkspaceBytes(desc);
  bytes -= kLibraryAlignmentBytes + (grad ? 2 * keysAsideBytes(desc) : 0);
  const ShxAttention planned = asPlannedByCudnn(desc);
  std::unique_ptr<CudnnPlan> plan =
      planner ? planner(planned, grad, bytes, refusal)
              : askCudnn(planned, grad, bytes, refusal);
  if (!plan)
    warn(refusal);
  return plan;
}

#ifdef SHX_HAS_CUDNN

std::unique_ptr<CudnnPlan> Attention::askCudnn(const ShxAttention &desc,
                                               bool grad,
                                               int64_t workspaceBytes,
                                               std::string &refusal) {
  if (!handle)
    handle = makeCudnnHandle(context.compute, refusal);
  dead = !handle;
  return handle
             ? makeCudnnPlan(desc, grad, {handle, "", context.device->arch()},
                             workspaceBytes, refusal)
             : nullptr;
}

#else

std::unique_ptr<CudnnPlan> Attention::askCudnn(const ShxAttention &, bool,
                                               int64_t, std::string &refusal) {
  dead = true;
  refusal = "this program's runtime was built without cuDNN";
  return nullptr;
}

#endif

// Keys' gradients that lay side by side go where they belong.
static void spreadKeys(Context &context, const ShxAttention &desc,
                       const int64_t (&stride)[3], const void *from, void *to) {
  ShxCopy copy{};
  int64_t width = desc.kvHeads * desc.headDim;
  copy.rank = 2;
  copy.srcDtype = copy.dstDtype = desc.dtype;
  copy.dims[0] = desc.batch * desc.seqK;
  copy.dims[1] = width;
  copy.srcStride[0] = width;
  copy.dstStride[0] = stride[1];
  copy.srcStride[1] = copy.dstStride[1] = 1;
  shx_copy(&context, &copy, from, to);
}

// Returns what went wrong, or nothing.
std::string Attention::runPlan(CudnnPlan &plan, const ShxAttention &desc,
                               bool grad, CudnnOperands operands,
                               void *workspace) {
  int64_t bytes = plan.workspaceBytes();
  alignWorkspace(workspace, bytes);
  operands.documents = context.documents;
  if (!grad || !writesKeysAside(desc))
    return plan.run(operands, workspace);
  void *dk = operands.dk, *dv = operands.dv;
  auto *aside = static_cast<uint8_t *>(workspace);
  operands.dk = aside;
  operands.dv = aside + keysAsideBytes(desc);
  std::string error = plan.run(operands, aside + 2 * keysAsideBytes(desc));
  if (!error.empty())
    return error;
  spreadKeys(context, desc, desc.dkStride, operands.dk, dk);
  spreadKeys(context, desc, desc.dvStride, operands.dv, dv);
  return {};
}

// What the plans take for granted.
static bool areAligned(const CudnnOperands &operands) {
  for (const void *pointer :
       {operands.q, operands.k, operands.v,
        static_cast<const void *>(operands.out), operands.dout,
        static_cast<const void *>(operands.dq),
        static_cast<const void *>(operands.dk),
        static_cast<const void *>(operands.dv)})
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0)
      return false;
  return true;
}

// The frontend finds cuDNN's functions itself: what it made of them.
static void tracePlan(const ShxAttention &d, bool grad, const CudnnPlan *plan) {
  std::string name = plan ? plan->name() : "";
  traceNote("cudnn", grad ? "gradient plan" : "plan",
            concat("{\"batch\": ", d.batch, ", \"heads\": ", d.heads,
                   ", \"queries\": ", d.seqQ, ", \"head_dim\": ", d.headDim,
                   ", \"dtype\": ", d.dtype, ", \"documents\": ", d.documents,
                   ", \"plan\": ", quoteForJson(name.c_str()),
                   ", \"workspace\": ", plan ? plan->workspaceBytes() : -1,
                   "}"));
}

bool Attention::run(const ShxAttention &desc, bool grad, bool hasMask,
                    const CudnnOperands &operands, void *workspace) {
  if (cudnnRefusal(desc, hasMask, grad) || !areAligned(operands))
    return false;
  if (desc.documents > 0 &&
      (!context.documentsFit || isOff("SHARDONNX_CUDA_CUDNN_DOCUMENTS")))
    return false;
  std::string key(sizeof(desc) + 1, char(grad));
  std::memcpy(key.data(), &desc, sizeof(desc));
  auto [entry, isNew] = plans.try_emplace(key);
  std::unique_ptr<CudnnPlan> &plan = entry->second;
  if (isNew && !dead)
    plan = makePlan(desc, grad);
  if (isNew && callsAreTraced())
    tracePlan(desc, grad, plan.get());
  if (plan && desc.documents > 0)
    documents = context.tookDocuments = true;
  if (!plan || (context.preparing() && !isNew))
    return plan != nullptr;
  context.lastWork =
      grad ? "attention's gradient (cuDNN)" : "attention (cuDNN)";
  std::string error = runPlan(*plan, desc, grad, operands, workspace);
  if (context.preparing()) {
    // A first run loads the kernels, which a capture might not allow.
    check(driver().cuStreamSynchronize(context.compute), "running ",
          context.lastWork, " for the first time");
    if (!error.empty()) {
      warn(error);
      plan = nullptr;
    }
    return plan != nullptr;
  }
  if (!error.empty())
    fail("cuDNN failed at ", context.lastWork, ": ", error);
  return true;
}

namespace {

bool isAligned(const void *pointer, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(pointer) % uintptr_t(bytes) == 0;
}

bool strideIsEven(const int64_t (&stride)[3]) {
  return stride[0] % 4 == 0 && stride[1] % 4 == 0 && stride[2] % 4 == 0;
}

// Whether four elements may be read and written at once.
bool canTakeFour(const AttentionArgs &args, bool grad) {
  const ShxAttention &d = args.desc;
  int64_t bytes = d.dtype == SHX_F32 ? 16 : 8;
  bool can = d.headDim % 4 == 0 && strideIsEven(d.qStride) &&
             strideIsEven(d.kStride) && strideIsEven(d.vStride) &&
             strideIsEven(d.outStride) && isAligned(args.q, bytes) &&
             isAligned(args.k, bytes) && isAligned(args.v, bytes) &&
             isAligned(args.out, bytes);
  if (grad)
    can = can && strideIsEven(d.doutStride) && strideIsEven(d.dqStride) &&
          strideIsEven(d.dkStride) && strideIsEven(d.dvStride) &&
          isAligned(args.dout, bytes) && isAligned(args.dq, bytes) &&
          isAligned(args.dk, bytes) && isAligned(args.dv, bytes);
  return can;
}

// Whether rows that come asynchronously begin and end at multiples of 16
// bytes: of keys and values, and backward those of queries.
bool canTakePacks(const AttentionArgs &args, bool grad) {
  const ShxAttention &d = args.desc;
  auto packs = [](const int64_t (&stride)[3]) {
    return stride[0] % 8 == 0 && stride[1] % 8 == 0 && stride[2] % 8 == 0;
  };
  bool can = d.dtype != SHX_F32 && d.headDim % 8 == 0 && packs(d.kStride) &&
             packs(d.vStride) && aligned16(args.k, args.v);
  if (grad)
    can = can && packs(d.qStride) && packs(d.doutStride) &&
          aligned16(args.q, args.dout);
  return can;
}

int32_t vectorsOf(const AttentionArgs &args, bool grad) {
  return !canTakeFour(args, grad)   ? 0
         : canTakePacks(args, grad) ? kAttentionPacks
                                    : kAttentionFours;
}

enum Own { Forward, Dots, Keys, Queries, Unseen, UnseenQueries, UnseenKeys };

// By kernel, dtype and head dim. The names outlive the launch, which leaves one
// in the context.
#define SHX_NAMES_OF_TYPE(stem) {stem "_64", stem "_128", stem "_256"}
#define SHX_NAMES(stem)                                                        \
  {SHX_NAMES_OF_TYPE(stem "f32"), SHX_NAMES_OF_TYPE(stem "bf16"),              \
   SHX_NAMES_OF_TYPE(stem "f16")}
#define SHX_SAME(name) {name, name, name}
#define SHX_SAMES(stem)                                                        \
  {SHX_SAME(stem "f32"), SHX_SAME(stem "bf16"), SHX_SAME(stem "f16")}
constexpr const char *kKernels[7][3][3] = {
    SHX_NAMES("shx_k_attention_"),
    SHX_SAMES("shx_k_attention_dots_"),
    SHX_NAMES("shx_k_attention_keys_"),
    SHX_NAMES("shx_k_attention_queries_"),
    SHX_SAMES("shx_k_attention_unseen_"),
    SHX_SAMES("shx_k_attention_unseen_queries_"),
    SHX_SAMES("shx_k_attention_unseen_keys_")};
#undef SHX_NAMES_OF_TYPE
#undef SHX_NAMES
#undef SHX_SAMES
#undef SHX_SAME

void launchOwn(Context &context, Own which, const AttentionArgs &args) {
  const ShxAttention &d = args.desc;
  bool half = d.dtype != SHX_F32;
  int dim = attentionDim(d.headDim);
  const char *kernel = kKernels[which][d.dtype][dim / 128];
  if (which == Dots) {
    constexpr int kRowsPerBlock = kAttentionThreads / 32;
    launch(context, kernel,
           blocksFor(d.batch * d.heads * d.seqQ, kRowsPerBlock),
           kAttentionThreads, 0, args);
    return;
  }
  if (which >= Unseen) {
    int64_t rows = which == UnseenKeys ? d.seqK : d.seqQ;
    launch(context, kernel,
           blocksFor(rows, kAttentionRows) * d.batch * d.kvHeads,
           kAttentionThreads, 0, args);
    return;
  }
  int shared = which == Forward ? (half ? attentionHalfForwardShared(dim)
                                        : attentionForwardShared(dim))
                                : (half ? attentionHalfGradShared(dim)
                                        : attentionGradShared(dim));
  int64_t blocks = which == Keys ? blocksFor(d.seqK, kAttentionRows) * d.kvHeads
                                 : blocksFor(d.seqQ, kAttentionRows) * d.heads;
  launch(context, kernel, blocks * d.batch,
         half ? attentionHalfThreads(dim, which == Keys) : kAttentionThreads,
         unsigned(shared), args);
}

AttentionArgs argsOf(const ShxAttention &desc, const void *q, const void *k,
                     const void *v, const void *mask) {
  if (desc.headDim > kAttentionMaxDim)
    fail("attention with a head dim of ", desc.headDim,
         " cannot run on a GPU: this runtime goes up to ", kAttentionMaxDim);
  AttentionArgs args{};
  args.desc = desc;
  args.q = q;
  args.k = k;
  args.v = v;
  args.mask = mask;
  args.leastLse = mayBeUnseen(desc, mask) ? SHX_ATTENTION_UNSEEN : -INFINITY;
  return args;
}

} // namespace
} // namespace shardonnx::rt::cuda

using namespace shardonnx::rt::cuda;
using shardonnx::rt::mayBeUnseen;

void shx_attention(ShxContext *ctx, const ShxAttention *desc, const void *q,
                   const void *k, const void *v, const void *mask, void *out,
                   float *lse, void *workspace) {
  Context &context = contextOf(ctx);
  const ShxAttention &d = *desc;
  CudnnOperands operands{q, k, v, out, lse, nullptr, nullptr, nullptr, nullptr};
  if (context.attention &&
      context.attention->run(d, false, mask, operands, workspace))
    return;
  AttentionArgs args = argsOf(d, q, k, v, mask);
  args.out = out;
  args.lse = lse;
  args.vectors = vectorsOf(args, false);
  launchOwn(context, Forward, args);
  if (mayBeUnseen(d, mask))
    launchOwn(context, Unseen, args);
}

void shx_attention_grad(ShxContext *ctx, const ShxAttention *desc,
                        const void *q, const void *k, const void *v,
                        const void *mask, const void *out, const float *lse,
                        const void *dout, void *dq, void *dk, void *dv,
                        void *workspace) {
  Context &context = contextOf(ctx);
  const ShxAttention &d = *desc;
  CudnnOperands operands{
      q,  k,  v, const_cast<void *>(out), const_cast<float *>(lse), dout,
      dq, dk, dv};
  if (context.attention &&
      context.attention->run(d, true, mask, operands, workspace))
    return;
  AttentionArgs args = argsOf(d, q, k, v, mask);
  args.dout = dout;
  args.out = operands.out;
  args.lse = operands.lse;
  args.delta = static_cast<float *>(workspace);
  args.dq = dq;
  args.dk = dk;
  args.dv = dv;
  args.vectors = vectorsOf(args, true);
  launchOwn(context, Dots, args);
  launchOwn(context, Keys, args);
  launchOwn(context, Queries, args);
  if (mayBeUnseen(d, mask)) {
    launchOwn(context, UnseenQueries, args);
    launchOwn(context, UnseenKeys, args);
  }
}
