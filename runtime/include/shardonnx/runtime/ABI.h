// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What generated code and the runtime agree on: the step context, the
// descriptors of library calls and the entry points. Plain C, so that LLVM IR
// can spell every struct; a change here is a change of SHX_ABI_VERSION.
//
// The same calls are implemented by every device's runtime. On CUDA the
// addresses are the device's, and a call enqueues its work and returns.
//
// Conventions: sizes and strides are in elements unless a name ends in
// `Bytes`; row-major; a descriptor is a constant of the program, so a call may
// keep its address. Calls are issued by one thread per rank, in one fixed
// order that is the same on all ranks.

#ifndef SHARDONNX_RUNTIME_ABI_H
#define SHARDONNX_RUNTIME_ABI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHX_ABI_VERSION 16

typedef enum ShxDType {
  SHX_F32 = 0,
  SHX_BF16 = 1,
  SHX_F16 = 2,
  SHX_I64 = 3,
  SHX_I32 = 4,
  SHX_I1 = 5, // one byte, 0 or 1
  SHX_I8 = 6,
  SHX_F8E4M3 = 7, // without infinities; what products of 8 bits multiply
  SHX_F8E5M2 = 8,
} ShxDType;

// Values that change from step to step live in memory, never in the code.
typedef enum ShxScalar {
  // The loss scale (1 but for float16) / (labels of the step, all ranks and
  // microbatches).
  SHX_LOSS_SCALE = 0,
  SHX_LR = 1,
  SHX_BETA1 = 2,
  SHX_BETA2 = 3,
  SHX_EPS = 4,
  SHX_WEIGHT_DECAY = 5,
  SHX_BIAS_CORRECTION1 = 6, // 1 - beta1^step
  SHX_BIAS_CORRECTION2 = 7, // 1 - beta2^step
  // Factor on every gradient: 1 / the loss scale, and behind
  // shx_clip_grad_norm times what clips the norm.
  SHX_CLIP = 8,
  SHX_MOMENTUM = 9,
  SHX_FIRST_STEP = 10,      // 1 on the first step, else 0 (SGD's momentum)
  SHX_ONE_MINUS_BETA1 = 11, // taken in f64: 1 - 0.999f is off by 5e-5
  SHX_ONE_MINUS_BETA2 = 12,
  // 1 when the norm is not finite, else 0: set by shx_clip_grad_norm. The
  // optimizer then leaves masters and moments as they are.
  SHX_SKIP = 13,
  SHX_CLIP_VALUE = 14, // each gradient lies within ± this; infinity when off
  // 32 bits of the seed and the step, for what is rounded at random.
  SHX_ROUNDING_KEY = 15,
  SHX_MUON_LR = 16, // of the matrices; SHX_LR is AdamW's
  SHX_ONE_MINUS_MOMENTUM = 17,
  SHX_NUM_SCALARS = 18,
} ShxScalar;

// From one tensor's step to the next in memory, in f32: cuBLASLt 13 refuses the
// scale of an operand that does not lie on 16 bytes.
enum { SHX_STEP_STRIDE = 4 };

// The head of the runtime's context: the bases that generated code adds its
// fixed offsets to. The runtime derives its own struct from it.
typedef struct ShxContext {
  uint8_t *privateBase;     // activations and workspaces of this rank
  uint8_t *const *params;   // [unit] gathered parameters, param_dtype
  uint8_t *const *grads;    // [unit] this rank's full gradients, reduce_dtype
  uint8_t *const *inputs;   // [graph input] the current microbatch
  const float *scalars;     // [ShxScalar], then steps (nn.f8_weight_step)
  const uint8_t *constants; // CUDA: the device's copy of shx_constants
} ShxContext;

// A generated kernel: args are the buffers' addresses in the order of the
// launch; [begin, end) is the part of the kernel's parallel dimension to do.
typedef void (*ShxKernel)(void *const *args, int64_t begin, int64_t end);

// Runs kernel over [0, count) on the rank's thread pool, in chunks that are
// multiples of `grain`. Returns when all of it is done. `name` is for traces.
void shx_launch(ShxContext *ctx, ShxKernel kernel, void *const *args,
                int64_t count, int64_t grain, const char *name);

// ---- CUDA: kernels are functions of device code that the program carries.
typedef enum ShxImageKind {
  SHX_CUBIN = 0, // machine code of one architecture
  SHX_PTX = 1,   // text, ends with a null byte, for this architecture and later
} ShxImageKind;
typedef struct ShxDeviceImage {
  int32_t kind; // ShxImageKind
  int32_t arch; // 90: sm_90
  const void *data;
  uint64_t size;
} ShxDeviceImage;
typedef struct ShxDeviceKernel {
  const char *name; // of the function in the program's images
  int32_t blockThreads;
  int32_t sharedBytes;      // dynamic
  int64_t blocks;           // 0: count / elementsPerBlock, rounded up
  int64_t elementsPerBlock; // of the optimizer
  int64_t args;             // pointers that it takes
} ShxDeviceKernel;
// Every parameter of the kernel is one of the addresses in `args`.
void shx_launch_device(ShxContext *ctx, const ShxDeviceKernel *kernel,
                       void *const *args);

#define SHX_MAX_BATCH_DIMS 4

// What is done with A·B before it is stored as C (cuBLASLt's epilogues; CUDA
// only). bias has n elements, aux is laid out as C; both have C's dtype.
typedef enum ShxEpilogue {
  SHX_EPILOGUE_NONE = 0,
  SHX_EPILOGUE_BIAS = 1,      // C = A·B + bias, or + aux if that is null
  SHX_EPILOGUE_GELU_BIAS = 2, // aux = A·B + bias, C = gelu(aux), tanh's form
  SHX_EPILOGUE_DGELU = 3,     // C = A·B · gelu'(aux)
  SHX_EPILOGUE_BGRAD = 4,     // bias = the sums of B's columns
} ShxEpilogue;

typedef enum ShxGemmFlags {
  SHX_GEMM_TF32 = 1,          // f32 operands may be rounded to TF32
  SHX_GEMM_DETERMINISTIC = 2, // the same bits in every run
  SHX_GEMM_FAST_SUMS = 4,     // of 8 bits: sums may lose bits of f32
  SHX_GEMM_ROW_STEPS = 8, // of 8 bits: a step for each row of A, column of B
} ShxGemmFlags;

// C = A·B (+ C when accumulate), A being m×k and B k×n after the optional
// transposition, for every index of the batch dims (strides 0 broadcast).
// Operands may be f32, bf16 or f16, mixed; products are summed in f32.
typedef struct ShxGemm {
  int64_t m, n, k;
  int64_t lda, ldb, ldc; // of the stored matrices
  int32_t transA, transB;
  int32_t dtypeA, dtypeB, dtypeC; // ShxDType
  int32_t accumulate;
  int32_t batchRank;
  int32_t epilogue; // ShxEpilogue
  int32_t flags;    // of ShxGemmFlags
  int32_t reserved;
  int64_t batch[SHX_MAX_BATCH_DIMS];
  int64_t batchStrideA[SHX_MAX_BATCH_DIMS];
  int64_t batchStrideB[SHX_MAX_BATCH_DIMS];
  int64_t batchStrideC[SHX_MAX_BATCH_DIMS];
} ShxGemm;
// workspace: LibraryModel::gemm(desc) bytes of Workspace.h; null for 0, as in
// every call.
void shx_gemm(ShxContext *ctx, const ShxGemm *desc, const void *a,
              const void *b, void *c, void *workspace);
// A product with an epilogue. bias and aux are read or written, as it says;
// what it does not use is null.
void shx_gemm_epilogue(ShxContext *ctx, const ShxGemm *desc, const void *a,
                       const void *b, void *c, void *bias, void *aux,
                       void *workspace);

// ---- Floats of 8 bits (CUDA only). What is stored, times its step, is the
// value: steps are f32 in memory, powers of two.
//
// C = stepA·stepB·(A·Bᵀ) (+ C when accumulate, + addend unless that is null): A
// is m×k, B stored n×k (transB). Steps are one for each operand, or with
// SHX_GEMM_ROW_STEPS m of A and n of B. The addend has C's dtype: laid out as
// C, or with SHX_EPILOGUE_BIAS n elements. Everything lies on 16 bytes.
void shx_f8_gemm(ShxContext *ctx, const ShxGemm *desc, const void *a,
                 const void *b, const float *stepA, const float *stepB, void *c,
                 void *addend, void *workspace);
// rows[i, j] = columns[j, i] = f8(x[i, j] / step); what is null is not written.
// All have contiguous last axes.
typedef struct ShxF8Cast {
  int64_t rows, columns; // of x
  int64_t ldx, ldRows, ldColumns;
  int64_t rowStep, columnStep; // step[i·rowStep + j·columnStep]
  int32_t dtypeX, dtype;       // dtype: of what is written
} ShxF8Cast;
void shx_f8_cast(ShxContext *ctx, const ShxF8Cast *desc, const void *x,
                 const float *step, void *rows, void *columns);

// softmax(scale·q·kᵀ + mask)·v for each head, without a score matrix. q and
// out are [batch, seqQ, heads, headDim], k and v [batch, seqK, kvHeads,
// headDim] (head h reads kv head h·kvHeads/heads); strides are of (batch, seq,
// head), the head dim is contiguous. lse is f32 [batch, heads, seqQ],
// contiguous: the log of the sum of exponents, natural base. A query that sees
// no key gives zeros, and -infinity in lse.
typedef struct ShxAttention {
  int64_t batch, heads, kvHeads, seqQ, seqK, headDim;
  int64_t qStride[3], kStride[3], vStride[3], outStride[3];
  int64_t dqStride[3], dkStride[3], dvStride[3], doutStride[3]; // grad only
  int64_t maskStride[3]; // of (batch, head, query), key contiguous
  float scale;
  float softcap; // 0: none; else cap·tanh(score/cap)
  // 0: -inf; else the score of a key that is not visible, or what is added to
  // it, before an added mask. A query that no key is visible to, whose largest
  // score is less than SHX_ATTENTION_UNSEEN, weighs those; its lse is that
  // score.
  float hidden;
  int32_t reserved;
  int32_t causal; // query i sees keys ≤ i + seqK - seqQ
  int32_t dtype;  // of q, k, v, out and their gradients
  // SHX_F32: added to scores; SHX_I1: 1 = visible; SHX_I32: the first key that
  // each query sees, which never falls along the queries.
  int32_t maskDtype;
  int32_t flags;  // of ShxAttentionFlags
  int64_t window; // 0: none; else the last `window` visible keys
  // 0, or on a GPU: the first keys are those of documents that fill the
  // samples, at most so many where cuDNN does it. lse is [batch, seqQ, heads].
  int64_t documents;
} ShxAttention;
#define SHX_ATTENTION_UNSEEN (-2048.0f)
typedef enum ShxAttentionFlags {
  SHX_ATTENTION_DETERMINISTIC = 1, // the same bits in every run
  // A query all of whose scores are -inf gets NaN, in lse too, and not zeros.
  SHX_ATTENTION_UNGUARDED = 2,
  SHX_ATTENTION_ADDED = 4, // `hidden` is added to scores
} ShxAttentionFlags;
// mask may be null. workspace: LibraryModel::attention(desc).
void shx_attention(ShxContext *ctx, const ShxAttention *desc, const void *q,
                   const void *k, const void *v, const void *mask, void *out,
                   float *lse, void *workspace);
// workspace: LibraryModel::attentionGrad(desc).
void shx_attention_grad(ShxContext *ctx, const ShxAttention *desc,
                        const void *q, const void *k, const void *v,
                        const void *mask, const void *out, const float *lse,
                        const void *dout, void *dq, void *dk, void *dv,
                        void *workspace);

// out[i, :] = table[ids[i], :]. Negative ids count from the end of the table;
// one outside of it ends the program (on a GPU the step) with an error.
typedef struct ShxEmbedding {
  int64_t rows, width, vocab;   // rows: how many ids
  int64_t ldOut;                // row stride of out / of dy
  int32_t tableDtype, outDtype; // grad: dtypes of dtable and dy
  int32_t accumulate;           // grad: add to dtable instead of zeroing it
  int32_t idDtype;              // SHX_I64 or SHX_I32
  int64_t paddingIdx;           // grad skips this id; -1: none
} ShxEmbedding;
void shx_embedding(ShxContext *ctx, const ShxEmbedding *desc, const void *table,
                   const void *ids, void *out);
// dtable[ids[i], :] += dy[i, :]; the rows of an id are added in an order that
// the ids alone decide, on the CPU that of i. workspace:
// LibraryModel::embeddingGrad(desc).
void shx_embedding_grad(ShxContext *ctx, const ShxEmbedding *desc,
                        const void *ids, const void *dy, void *dtable,
                        void *workspace);

// Cross-entropy of logits x·wᵀ (+ its gradients) in row chunks, logits never
// whole: loss = Σ -log softmax(x·wᵀ)[label] over labels ≠ ignoreIndex, and with
// s = *seed: dx = s·∂loss/∂x, dw (+)= s·∂loss/∂w. dx and dw may be null, seed
// too when both are. The loss is f32 whatever the dtypes.
typedef struct ShxLinearCrossEntropy {
  int64_t rows, width, vocab, chunkRows;
  int64_t ignoreIndex;
  int64_t ldx, lddx;
  int32_t transW; // 0: w is [width, vocab]; 1: w is [vocab, width]
  int32_t dtypeX, dtypeW, dtypeDw; // dx has dtypeX
  int32_t accumulateDw;
  int32_t labelDtype; // SHX_I64 or SHX_I32
  float softcap;      // 0: none; else logits are cap·tanh(logits/cap)
  int32_t flags;      // of ShxGemmFlags, for its products
} ShxLinearCrossEntropy;
// workspace: LibraryModel::linearCrossEntropy(desc).
void shx_linear_cross_entropy(ShxContext *ctx,
                              const ShxLinearCrossEntropy *desc, const void *x,
                              const void *w, const void *labels,
                              const float *seed, float *loss, void *dx,
                              void *dw, void *workspace);

// Cross-entropy of given logits [rows, classes]: loss as above; dlogits (may
// be null) = s·∂loss/∂logits, in dtype. logits and dlogits may be one buffer.
typedef struct ShxCrossEntropy {
  int64_t rows, classes, ignoreIndex;
  int32_t dtype, labelDtype;
} ShxCrossEntropy;
void shx_cross_entropy(ShxContext *ctx, const ShxCrossEntropy *desc,
                       const void *logits, const void *labels,
                       const float *seed, float *loss, void *dlogits);

#define SHX_MAX_RANK 8
// dst[i…] = convert(src[i…]) with arbitrary strides (transpose, slice, concat).
typedef struct ShxCopy {
  int64_t dims[SHX_MAX_RANK], srcStride[SHX_MAX_RANK], dstStride[SHX_MAX_RANK];
  int32_t rank, srcDtype, dstDtype;
  int32_t accumulate; // floats only: dst += src
} ShxCopy;
void shx_copy(ShxContext *ctx, const ShxCopy *desc, const void *src, void *dst);

// to[i] = Σ from[j] over the elements j ≤ i of its line: in at least f32, or
// wrapping integers. Lines are counted by dims, elements of a line lie the axis
// strides apart; from and to may be one buffer.
typedef struct ShxCumSum {
  int64_t dims[SHX_MAX_RANK]; // of the lines
  int64_t fromStride[SHX_MAX_RANK], toStride[SHX_MAX_RANK];
  int64_t size; // of a line
  int64_t fromAxisStride, toAxisStride;
  int32_t rank; // of the lines
  int32_t dtype;
  int32_t exclusive; // j < i
  int32_t reverse;   // j ≥ i, or j > i
} ShxCumSum;
void shx_cumsum(ShxContext *ctx, const ShxCumSum *desc, const void *from,
                void *to);

// A packed weight [rows, columns] (Packing.h) decoded into dtype, row-major.
typedef struct ShxUnpack {
  int64_t rows, columns;
  int32_t packing; // Packing
  int32_t dtype;   // of `to`
} ShxUnpack;
void shx_unpack(ShxContext *ctx, const ShxUnpack *desc, const void *packed,
                void *to);

// Fills bytes with zero on the pool.
void shx_zero(ShxContext *ctx, void *dst, int64_t bytes);

// ---- Collectives. Each unit is a contiguous buffer; rank r owns the r-th
// contiguous slice (Layout.h). Start returns at once; the work is done by the
// rank's communication thread in the order of the starts of its queue.

// Makes params[unit] valid: waits until no rank still reads what lies under
// that buffer, writes this rank's slice (cast to param_dtype), and publishes
// it.
void shx_gather_start(ShxContext *ctx, int32_t unit);
// Returns when every rank's slice of the last started gather is in place.
void shx_gather_wait(ShxContext *ctx, int32_t unit);
// This rank reads params[unit] no more until the next gather of the unit.
void shx_gather_free(ShxContext *ctx, int32_t unit);
// As gather_free, but of a unit with a reshard group of K: the rank keeps the
// (groupRank % K)-th K-th of params[unit], and the next gather of the unit
// collects those of K consecutive ranks. Where ranks share the gathered unit
// there is nothing to keep.
void shx_gather_reshard(ShxContext *ctx, int32_t unit);

// Before the first write of a microbatch into grads[unit]: waits until no rank
// still reads what lies under that buffer.
void shx_grad_acquire(ShxContext *ctx, int32_t unit);
// The gradients of the unit are complete on this rank. Each rank's owned slice
// of the sum over ranks goes to its reduced gradient (added when accumulate).
// For a replicated unit (no_shard) the owned slice is the whole unit.
void shx_reduce_start(ShxContext *ctx, int32_t unit, int32_t accumulate);
// Returns when this rank's reduced slice is complete.
void shx_reduce_wait(ShxContext *ctx, int32_t unit);

// The loss of the microbatch (a sum, not yet scaled by SHX_LOSS_SCALE).
void shx_loss(ShxContext *ctx, const float *loss);

// ---- Update.
// Global norm of the reduced gradients; sets SHX_CLIP and SHX_SKIP. Waits for
// all ranks.
void shx_clip_grad_norm(ShxContext *ctx);
// CUDA only: behind all optimizers, the steps of weights (nn.f8_weight_step),
// and of units that are gathered in 8 bits these. Waits for all ranks.
void shx_weight_steps(ShxContext *ctx);
// Which elements of its buffers an optimizer's kernel updates.
typedef struct ShxPiece {
  // The first element's place in its unit, and the unit's number in the upper
  // 24 bits: what is rounded at random is so by this alone.
  int64_t first;
  int64_t begin, end;
} ShxPiece;
#define SHX_UNIT_SHIFT 40

// Runs the optimizer kernel over the owned slice of the unit, interval by
// interval (weight decay differs). Kernel args: master in the unit's
// master_dtype, grad f32, state0, state1 (in optimizer_dtype; null when there
// are fewer), what products read in param_dtype (null where that is the
// master), scalars, of states in int8 the f32 scales of their blocks of 256
// (else null), ShxPiece. Over blocks the kernel's parallel dimension is these,
// the first beginning where the buffers do; else elements.
void shx_optimizer(ShxContext *ctx, int32_t unit, ShxKernel kernel);
// As above on CUDA: the piece's members are the kernel's last parameters.
void shx_optimizer_device(ShxContext *ctx, int32_t unit,
                          const ShxDeviceKernel *kernel);

// Muon, for the matrices that come first in a unit. Start: the kernel, with the
// arguments of shx_optimizer's, takes the gradients into the momentum and
// writes the step's direction as bf16 where it has its params. Finish: the
// owner of each matrix makes it orthogonal (by Newton-Schulz), and the kernel
// takes it, as its gradient, from the masters; its first scale is the matrix's
// factor on SHX_MUON_LR. At most kMuonWindow units are between the two
// (Layout.h); every unit's finish stands before its shx_optimizer, which
// updates the rest.
void shx_muon_start(ShxContext *ctx, int32_t unit, ShxKernel kernel);
void shx_muon_finish(ShxContext *ctx, int32_t unit, ShxKernel kernel);
void shx_muon_start_device(ShxContext *ctx, int32_t unit,
                           const ShxDeviceKernel *kernel);
void shx_muon_finish_device(ShxContext *ctx, int32_t unit,
                            const ShxDeviceKernel *kernel);

// ---- What a program exports.
// JSON, see docs/manifest.md; lies in the ELF section `.shardonnx` so that
// `shardonnx inspect EXE` reads it without running the program.
extern const char shx_manifest[];
extern const uint64_t shx_manifest_size;
void shx_first_microbatch(ShxContext *ctx); // writes reduced gradients
void shx_next_microbatch(ShxContext *ctx);  // adds to them
void shx_update(ShxContext *ctx);
void shx_eval_microbatch(ShxContext *ctx); // forward and loss only
// A CUDA program exports these as well.
extern const ShxDeviceImage shx_device_images[];
extern const int32_t shx_device_image_count;
extern const uint8_t shx_constants[]; // what ShxContext::constants is made of
extern const uint64_t shx_constants_size;

#ifdef __cplusplus
}
#endif

#endif // SHARDONNX_RUNTIME_ABI_H
