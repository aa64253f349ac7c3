// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Documents of packed samples as cuDNN is given them: their tables, and what
// the runtime does around its plans, which another one takes the place of here.
// It reads lengths and offsets as cuDNN does, refuses what cuDNN would not
// forgive, and computes each document by itself with our own kernels.

#include "../../runtime/cuda/attention/Attention.h"
#include "../../runtime/cuda/attention/CudnnAttention.h"
#include "../../runtime/cuda/collectives/SingleRank.h"
#include "../../runtime/cuda/io/Inputs.h"
#include "../../runtime/cuda/launch/Documents.h"
#include "../../runtime/cuda/launch/Function.h"
#include "attention_problem.h"
#include "cuda_kernels_util.h"
#include "shardonnx/runtime/CudaAttention.h"
#include "shardonnx/runtime/Workspace.h"

using namespace shardonnx;
using namespace shardonnx::rt::cuda;
using namespace shardonnx::test;

namespace {

// ---- Tables

struct Tables {
  Tables(int64_t most, int64_t tokens, int64_t length)
      : most(most), host(size_t(documentTableBytes(most)), 0xff),
        documents(most, tokens, length, host.data()) {}

  // Here the tables stay on the host.
  std::vector<int32_t> read(const int32_t *from, int64_t count) const {
    return {from, from + count};
  }
  std::vector<int32_t> lengths() const {
    return read(documents.lengths(), most);
  }
  std::vector<int32_t> offsets(int64_t stride) {
    return read(documents.offsets(stride), most + 1);
  }

  int64_t most;
  std::vector<uint8_t> host;
  Documents documents;
};

using Numbers = std::vector<int32_t>;

TEST(CudaDocuments, LengthsAndOffsets) {
  Tables tables(6, 10, 5);
  tables.offsets(1);
  tables.offsets(24);
  const Numbers firstKeys = {0, 0, 2, 2, 2, 0, 1, 1, 1, 4};
  tables.documents.fill(firstKeys.data(), tables.host.data());
  EXPECT_EQ(tables.documents.count(), 5);
  EXPECT_TRUE(tables.documents.fit());
  EXPECT_EQ(tables.lengths(), (Numbers{2, 3, 1, 3, 1, 0}));
  EXPECT_EQ(tables.offsets(1), (Numbers{0, 2, 5, 6, 9, 10, 10}));
  EXPECT_EQ(tables.offsets(24), (Numbers{0, 48, 120, 144, 216, 240, 240}));
}

TEST(CudaDocuments, AsManyAsThereMayBe) {
  Tables tables(2, 6, 3);
  tables.offsets(1);
  tables.documents.fill(Numbers{0, 0, 0, 0, 0, 0}.data(), tables.host.data());
  EXPECT_TRUE(tables.documents.fit());
  EXPECT_EQ(tables.lengths(), (Numbers{3, 3}));
  EXPECT_EQ(tables.offsets(1), (Numbers{0, 3, 6}));
}

// cuDNN is not asked then; nothing of the last microbatch is left all the same.
TEST(CudaDocuments, TooManyHaveNoLengths) {
  Tables tables(2, 6, 3);
  tables.documents.fill(Numbers{0, 0, 0, 0, 0, 2}.data(), tables.host.data());
  EXPECT_FALSE(tables.documents.fit());
  EXPECT_EQ(tables.documents.count(), 3);
  EXPECT_EQ(tables.lengths(), (Numbers{0, 0}));
}

TEST(CudaDocuments, OneColumnForEachDistance) {
  Tables tables(2, 6, 3);
  for (int64_t stride = 1; stride <= kDocumentStrides; ++stride)
    EXPECT_NE(tables.documents.offsets(stride), nullptr);
  EXPECT_EQ(tables.documents.offsets(100), nullptr);
  EXPECT_EQ(tables.documents.offsets(3), tables.documents.offsets(3));
}

// ---- On the device

std::vector<int32_t> fromDevice(const int32_t *from, int64_t count) {
  std::vector<int32_t> numbers(static_cast<size_t>(count));
  check(driver().cuMemcpyDtoH(numbers.data(), deviceAddress(from),
                              numbers.size() * sizeof(int32_t)),
        "reading tables");
  return numbers;
}

Manifest::Input inputOf(InputKind kind, ShxDType dtype) {
  Manifest::Input input;
  input.kind = kind;
  input.dtype = dtype;
  input.shape = {2, 3};
  return input;
}

TEST(CudaDocuments, ComeBehindTheInputs) {
  CudaDevice &device = CudaDevice::get();
  Manifest manifest;
  manifest.inputs = {inputOf(InputKind::Tokens, SHX_I64),
                     inputOf(InputKind::FirstKeys, SHX_I32)};
  EXPECT_EQ(deviceInputBytes(manifest), 512);
  EXPECT_EQ(Inputs(manifest).documents(), nullptr);
  manifest.maxDocuments = 4;
  EXPECT_EQ(deviceInputBytes(manifest), 512 + documentTableBytes(4));
  Inputs inputs(manifest);
  ASSERT_NE(inputs.documents(), nullptr);
  Documents &documents = *inputs.documents();
  const int32_t *begins = documents.offsets(10);
  // Both of the buffers, and the first one again.
  for (const Numbers &firstKeys :
       {Numbers{0, 0, 2, 0, 0, 0}, Numbers{0, 0, 0, 0, 1, 1},
        Numbers{0, 1, 1, 0, 0, 2}}) {
    std::memcpy(inputs.host()[1], firstKeys.data(), 6 * sizeof(int32_t));
    inputs.send(device.stream(), device.stream());
    device.synchronize();
    Numbers lengths = fromDevice(documents.lengths(), 4);
    Numbers offsets = fromDevice(begins, 5);
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(offsets[i + 1] - offsets[i], 10 * lengths[i]);
    EXPECT_EQ(offsets[4], 60);
    EXPECT_EQ(lengths[0], firstKeys[1] == 1 ? 1 : firstKeys[2] == 2 ? 2 : 3);
  }
}

// ---- In cuDNN's place

class EachByItself final : public CudnnPlan {
public:
  EachByItself(Context &context, const ShxAttention &desc, bool grad,
               int64_t bytes)
      : context(context), d(desc), grad(grad), bytes(bytes) {}

  int64_t workspaceBytes() const override { return bytes; }
  std::string name() const override { return "each by itself"; }
  std::string run(const CudnnOperands &o, void *workspace) override {
    Documents &documents = *o.documents;
    for (int64_t stride : strides())
      documents.offsets(stride);
    if (context.preparing())
      return {};
    std::vector<int32_t> lengths = fromDevice(documents.lengths(), d.documents);
    requireSound(documents, lengths);
    Attention *outer = std::exchange(context.attention, nullptr);
    for (int64_t i = 0; i < d.documents; ++i)
      if (lengths[size_t(i)] > 0)
        run(o, i, lengths[size_t(i)], workspace);
    context.attention = outer;
    return {};
  }

private:
  std::vector<int64_t> strides() const {
    std::vector<int64_t> all = {d.qStride[1], d.kStride[1], d.vStride[1],
                                d.outStride[1], d.heads};
    if (grad)
      all.insert(all.end(), {d.doutStride[1], d.dqStride[1], d.dkStride[1],
                             d.dvStride[1]});
    return all;
  }

  // Where document i begins, as the tables have it.
  template <typename T>
  T *at(T *base, Documents &documents, int64_t i, int64_t stride) const {
    int64_t bytesEach = stride == d.heads ? 4 : 2; // lse, or 16-bit floats
    int64_t first =
        fromDevice(documents.offsets(stride), d.documents + 1)[size_t(i)];
    using Byte = std::conditional_t<std::is_const_v<T>, const uint8_t, uint8_t>;
    return reinterpret_cast<T *>(reinterpret_cast<Byte *>(base) +
                                 first * bytesEach);
  }

  void requireSound(Documents &documents,
                    const std::vector<int32_t> &lengths) const {
    int64_t tokens = 0;
    for (int32_t length : lengths) {
      ASSERT_GE(length, 0);
      ASSERT_LE(length, d.seqQ);
      tokens += length;
    }
    ASSERT_EQ(tokens, d.batch * d.seqQ);
    for (int64_t stride : strides()) {
      auto offsets = fromDevice(documents.offsets(stride), d.documents + 1);
      for (size_t i = 0; i < lengths.size(); ++i)
        ASSERT_EQ(offsets[i + 1] - offsets[i], lengths[i] * stride);
    }
  }

  void run(const CudnnOperands &o, int64_t i, int64_t length,
           void *workspace) const {
    ShxAttention one = d;
    one.batch = 1;
    one.seqQ = one.seqK = length;
    one.maskDtype = 0;
    Documents &t = *o.documents;
    const void *q = at(o.q, t, i, d.qStride[1]),
               *k = at(o.k, t, i, d.kStride[1]),
               *v = at(o.v, t, i, d.vStride[1]);
    void *out = at(o.out, t, i, d.outStride[1]);
    float *lse = at(o.lse, t, i, d.heads);
    if (!grad)
      return shx_attention(&context, &one, q, k, v, nullptr, out, lse,
                           workspace);
    shx_attention_grad(&context, &one, q, k, v, nullptr, out, lse,
                       at(o.dout, t, i, d.doutStride[1]),
                       at(o.dq, t, i, d.dqStride[1]),
                       at(o.dk, t, i, d.dkStride[1]),
                       at(o.dv, t, i, d.dvStride[1]), workspace);
  }

  Context &context;
  const ShxAttention d;
  const bool grad;
  const int64_t bytes;
};

// A microbatch whose attention asks that plan.
class Packed : public testing::Test {
protected:
  Packed() : context(CudaDevice::get().context()), attention(context) {
    attention.setPlanner([this](const ShxAttention &desc, bool grad,
                                int64_t bytes, std::string &) {
      ++plans;
      return std::make_unique<EachByItself>(context, desc, grad, bytes);
    });
    context.attention = &attention;
  }
  ~Packed() override {
    context.attention = nullptr;
    context.documents = nullptr;
    context.documentsFit = context.tookDocuments = false;
  }

  static AttentionCase packedCase(int64_t heads, int64_t kvHeads) {
    AttentionCase c;
    c.batch = 2;
    c.heads = heads;
    c.kvHeads = kvHeads;
    c.seqQ = c.seqK = 90;
    c.headDim = 32;
    c.causal = true;
    c.mask = Mask::FirstKeys;
    c.dtype = SHX_BF16;
    return c;
  }

  // `apart`: dk and dv lie between other tensors' rows.
  void check(const AttentionCase &c, bool apart, int64_t most = 64) {
    AttentionProblem p(c, 3);
    p.desc.documents = most;
    int64_t row = c.kvHeads * c.headDim;
    if (apart)
      for (int64_t *stride : {p.desc.dkStride, p.desc.dvStride}) {
        stride[1] = 3 * row;
        stride[0] = c.seqK * stride[1];
      }
    EXPECT_EQ(cudnnRefusal(p.desc, true, true), nullptr);
    run(p, apart ? row : 0);
    expectResults(p, AttentionReference(p));
  }

  void run(AttentionProblem &p, int64_t apart) {
    const AttentionCase &c = p.c;
    const int64_t most = p.desc.documents, tokens = c.batch * c.seqQ;
    DeviceBytes tables(documentTableBytes(most));
    Documents documents(most, tokens, c.seqQ,
                        static_cast<uint8_t *>(tables.data()));
    context.documents = &documents;
    context.documentsFit = true;
    Buffer keys(c.dtype, p.sizeK() * (apart ? 3 : 2));
    DeviceBuffer q(p.q), k(p.k), v(p.v), out(p.out), dout(p.dout), lse(p.lse),
        mask(p.mask), dq(p.dq), dkv(keys);
    DeviceBytes forward(cudaLibraries().attention(p.desc));
    DeviceBytes workspace(cudaLibraries().attentionGrad(p.desc));
    auto *sums = static_cast<float *>(lse.data());
    auto *dk = static_cast<uint8_t *>(dkv.data());
    uint8_t *dv = dk + (apart ? apart : p.sizeK()) * 2;
    auto body = [&] {
      shx_attention(&context, &p.desc, q.data(), k.data(), v.data(),
                    mask.data(), out.data(), sums, forward.data());
      shx_attention_grad(&context, &p.desc, q.data(), k.data(), v.data(),
                         mask.data(), out.data(), sums, dout.data(), dq.data(),
                         dk, dv, workspace.data());
    };
    CudaDevice::get().prepare(body);
    std::vector<uint8_t> host(size_t(tables.size));
    documents.fill(static_cast<const int32_t *>(p.mask.data()), host.data());
    tables.upload(host.data());
    context.documentsFit = documents.fit();
    CudaDevice::get().enqueue(body);
    EXPECT_TRUE(workspace.intact() && forward.intact());
    out.download(p.out);
    dq.download(p.dq);
    dkv.download(keys);
    int64_t width = c.kvHeads * c.headDim, step = apart ? 3 * width : width;
    for (int64_t i = 0; i < p.sizeK(); ++i) {
      int64_t from = i / width * step + i % width;
      p.dk.set(i, keys.get(from));
      p.dv.set(i, keys.get(from + (apart ? apart : p.sizeK())));
    }
    Buffer rows = lse.download();
    for (int64_t i = 0; i < p.lse.size(); ++i) {
      int64_t query = i % c.seqQ, head = i / c.seqQ % c.heads,
              batch = i / c.seqQ / c.heads;
      p.lse.set(i, rows.get((batch * c.seqQ + query) * c.heads + head));
    }
  }

  Context &context;
  Attention attention;
  int plans = 0;
};

TEST_F(Packed, ByPlansOfDocuments) {
  check(packedCase(2, 2), false);
  EXPECT_EQ(plans, 2);
  EXPECT_TRUE(attention.takesDocuments());
  EXPECT_TRUE(context.tookDocuments);
}

TEST_F(Packed, HeadsThatShareKeys) { check(packedCase(6, 2), false); }

TEST_F(Packed, KeysGradientsBetweenOthers) {
  check(packedCase(6, 2), true);
  check(packedCase(2, 2), true);
}

TEST_F(Packed, Window) {
  AttentionCase c = packedCase(2, 1);
  c.window = 20;
  check(c, false);
}

// More than a plan was made for: our own kernels, with the other layout of
// log-sum-exps.
TEST_F(Packed, MoreDocumentsThanPlannedFor) {
  check(packedCase(4, 2), false, /*most=*/2);
  EXPECT_EQ(plans, 2); // for the microbatches that fit
}

TEST_F(Packed, SwitchedOff) {
  ::setenv("SHARDONNX_CUDA_CUDNN_DOCUMENTS", "0", 1);
  check(packedCase(4, 2), false);
  ::unsetenv("SHARDONNX_CUDA_CUDNN_DOCUMENTS");
  EXPECT_EQ(plans, 0);
  EXPECT_FALSE(attention.takesDocuments());
}

// A plan that leaves a mark where the result would be.
class Marked final : public CudnnPlan {
public:
  static constexpr uint32_t kMark = 0x42424242;
  Marked(Context &context, int64_t words) : context(context), words(words) {}
  int64_t workspaceBytes() const override { return 0; }
  std::string name() const override { return "marked"; }
  std::string run(const CudnnOperands &o, void *) override {
    rt::cuda::check(driver().cuMemsetD32Async(deviceAddress(o.out), kMark,
                                              size_t(words), context.compute),
                    "marking");
    return {};
  }

private:
  Context &context;
  const int64_t words;
};

// The host counts, and one of a function's graphs is launched.
TEST_F(Packed, AFunctionHasAGraphForEachWay) {
  AttentionCase c = packedCase(2, 2);
  AttentionProblem p(c);
  p.desc.documents = 4;
  attention.setPlanner([&](const ShxAttention &, bool, int64_t, std::string &) {
    return std::make_unique<Marked>(context, p.sizeQ() / 2);
  });
  SingleRank collectives(context);
  context.collectives = &collectives;
  DeviceBytes tables(documentTableBytes(4));
  Documents documents(4, c.batch * c.seqQ, c.seqQ,
                      static_cast<uint8_t *>(tables.data()));
  context.documents = &documents;
  DeviceBuffer q(p.q), k(p.k), v(p.v), out(p.out), lse(p.lse), mask(p.mask);
  Function function(context, "a test", [&] {
    shx_attention(&context, &p.desc, q.data(), k.data(), v.data(), mask.data(),
                  out.data(), static_cast<float *>(lse.data()), nullptr);
  });
  function.prepare();
  auto marked = [&](bool fits) {
    std::vector<int32_t> firstKeys(size_t(c.batch * c.seqQ), 0);
    for (int32_t i = 0; i < 4 && !fits; ++i)
      firstKeys[size_t(i)] = i;
    std::vector<uint8_t> host(size_t(tables.size));
    documents.fill(firstKeys.data(), host.data());
    EXPECT_EQ(documents.fit(), fits);
    function.run();
    CudaDevice::get().synchronize();
    uint32_t first;
    rt::cuda::check(
        driver().cuMemcpyDtoH(&first, deviceAddress(out.data()), sizeof(first)),
        "reading back");
    return first == Marked::kMark;
  };
  for (bool captured : {false, true}) {
    if (captured)
      ASSERT_EQ(function.capture(), "");
    EXPECT_TRUE(marked(true));
    EXPECT_FALSE(marked(false));
    EXPECT_TRUE(marked(true));
  }
  context.collectives = nullptr;
}

// A plan for forward alone: our kernels' gradient reads its log-sum-exps.
TEST_F(Packed, ForwardAlone) {
  attention.setPlanner(
      [this](const ShxAttention &desc, bool grad, int64_t bytes,
             std::string &refusal) -> std::unique_ptr<CudnnPlan> {
        if (grad) {
          refusal = "a test has none backward";
          return nullptr;
        }
        return std::make_unique<EachByItself>(context, desc, grad, bytes);
      });
  check(packedCase(4, 2), false);
  EXPECT_TRUE(attention.takesDocuments());
}

} // namespace
