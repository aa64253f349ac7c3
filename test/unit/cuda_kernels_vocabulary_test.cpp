// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A vocabulary that ranks share, on the device: the loss, lookups and their
// gradients of each rank's words, against those of the whole.

#include "../../runtime/cuda/collectives/SingleRank.h"
#include "../../runtime/cuda/plan/LossPlan.h"
#include "cuda_kernels_util.h"
#include "shardonnx/runtime/Workspace.h"
#include "shared_loss_problem.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

// One rank of the axis: the test says what the others tell it.
class Told : public rt::cuda::SingleRank {
public:
  Told(int64_t rank, ShareExchange exchange)
      : SingleRank(CudaDevice::get().context()), rank(int(rank)),
        exchange(std::move(exchange)) {
    CudaDevice::get().context().collectives = this;
  }
  ~Told() override { CudaDevice::get().context().collectives = nullptr; }

  int axisRank(MeshAxis) const override { return rank; }
  void exchangeAlong(const rt::cuda::AxisExchange &what) override {
    CudaDevice &device = CudaDevice::get();
    if (device.context().preparing())
      return;
    EXPECT_EQ(what.call, SHX_AXIS_ALL_GATHER);
    device.synchronize();
    auto count = what.bytes / int64_t(sizeof(float));
    std::vector<float> mine(static_cast<size_t>(count)), all(mine.size() * 4);
    rt::cuda::check(rt::cuda::driver().cuMemcpyDtoH(
                        mine.data(), rt::cuda::deviceAddress(what.from),
                        mine.size() * sizeof(float)),
                    "reading shares");
    exchange(mine.data(), all.data(), count);
    rt::cuda::writeNow(rt::cuda::deviceAddress(what.to), all.data(),
                       parts * what.bytes, "telling shares");
  }

  int64_t parts = 1;

private:
  int rank;
  ShareExchange exchange;
};

float run(LossPart &part, bool gradients, const ShareExchange &exchange) {
  CudaDevice &device = CudaDevice::get();
  Told others(part.rank, exchange);
  others.parts = part.desc.parts;
  DeviceBuffer x(part.whole.x), w(part.w), labels(part.whole.labels),
      dx(part.dx), dw(part.dw);
  DeviceValue<float> seed(part.whole.seed), loss(NAN);
  DeviceBytes workspace(cudaLibraries().linearCrossEntropy(part.d) +
                        sharedLossBytes(part.d.chunkRows, part.desc.parts));
  device.call([&] {
    if (!device.context().preparing())
      dw.upload(part.dw); // what tuning has written is no gradient
    shx_linear_cross_entropy_part(
        &device.context(), &part.desc, x.data(), w.data(), labels.data(),
        gradients ? seed.data() : nullptr, loss.data(),
        gradients ? dx.data() : nullptr, gradients ? dw.data() : nullptr,
        workspace.data());
  });
  EXPECT_TRUE(workspace.intact());
  dx.download(part.dx);
  dw.download(part.dw);
  return loss.get();
}

// Logits are rounded to the operands' type, if that has 16 bits, and so is each
// rank's summand of the operand's gradient. One row's gradient may be far
// smaller than its logits: the bars are those of many.
TEST(CudaSharedLoss, IsThatOfTheWholeVocabulary) {
  std::mt19937 random(3);
  for (int i = 0; i < 24; ++i) {
    int64_t parts = pick(random, {2, 3, 4});
    ShxLinearCrossEntropy d = randomSharedLoss(random, parts);
    d.dtypeX = d.dtypeW = int32_t(i % 3);
    if (d.dtypeX != SHX_F32)
      d.rows = 33;
    if (d.dtypeDw != SHX_F32)
      d.dtypeDw = d.dtypeX;
    double loss = d.dtypeX == SHX_F32    ? 1e-5
                  : d.dtypeX == SHX_BF16 ? 5e-3
                                         : 1e-3;
    double operands = precision(rt::cuda::logitsDtype(d));
    checkLossParts(d, parts,
                   {loss, double(parts) * precision(d.dtypeX) + operands,
                    precision(d.dtypeDw) + operands},
                   run);
    if (HasFatalFailure())
      return;
  }
}

TEST(CudaSharedLoss, RanksApart) { checkPartsApart(run); }

// A label that is no rank's word is seen in the loss.
TEST(CudaSharedLoss, LabelsOutside) {
  std::mt19937 random(4);
  ShxLinearCrossEntropy d = randomSharedLoss(random, 2);
  for (double label : {-1.0, double(d.vocab)}) {
    LossProblem whole(d);
    whole.labels.set(0, label);
    SharesSaid said;
    for (int64_t r = 0; r < 2; ++r) {
      LossPart part(whole, 2, r);
      run(part, true, listening(said, r));
    }
    LossPart part(whole, 2, 0);
    EXPECT_TRUE(std::isnan(run(part, true, answering(said, 2)))) << label;
  }
}

ShxEmbeddingPart embeddingPart(std::mt19937 &random, int64_t parts) {
  ShxEmbeddingPart d{};
  d.table.rows = pick(random, {1, 50, 129, 600});
  d.table.width = pick(random, {1, 7, 8, 264});
  d.table.vocab = pick(random, {1, 5, 60, 512});
  d.table.ldOut = d.table.width;
  d.table.tableDtype = d.table.outDtype = int32_t(random() % 3);
  d.table.idDtype = random() % 2 ? SHX_I64 : SHX_I32;
  d.table.paddingIdx = -1;
  d.words = parts * d.table.vocab - (d.table.vocab > 1 ? 1 : 0);
  d.parts = int32_t(parts);
  return d;
}

// Ids of all words, some counted from their end.
Buffer randomIds(std::mt19937 &random, const ShxEmbeddingPart &d) {
  Buffer ids(d.table.idDtype, d.table.rows);
  for (int64_t r = 0; r < d.table.rows; ++r)
    ids.set(r, double(int64_t(random()) % d.words) -
                   (random() % 4 ? 0 : double(d.words)));
  return ids;
}

// The row of this rank's table, or nothing.
std::optional<int64_t> rowOf(double id, const ShxEmbeddingPart &d,
                             int64_t rank) {
  int64_t row = (int64_t(id) + d.words) % d.words - rank * d.table.vocab;
  bool here = row >= 0 && row < d.table.vocab;
  return here ? std::optional(row) : std::nullopt;
}

TEST(CudaSharedEmbedding, LooksUpItsWords) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(5);
  for (int i = 0; i < 24; ++i) {
    int64_t parts = pick(random, {2, 3}), rank = int64_t(random()) % parts;
    ShxEmbeddingPart d = embeddingPart(random, parts);
    Told others(rank, nullptr);
    Buffer table(d.table.tableDtype, d.table.vocab * d.table.width),
        ids = randomIds(random, d),
        out(d.table.outDtype, d.table.rows * d.table.width);
    table.fillRandom(random);
    DeviceBuffer onTable(table), onIds(ids), onOut(out);
    device.call([&] {
      shx_embedding_part(&device.context(), &d, onTable.data(), onIds.data(),
                         onOut.data());
    });
    Buffer result = onOut.download();
    for (int64_t r = 0; r < d.table.rows; ++r)
      for (int64_t x = 0; x < d.table.width; ++x) {
        std::optional<int64_t> row = rowOf(ids.get(r), d, rank);
        ASSERT_EQ(result.get(r * d.table.width + x),
                  row ? table.get(*row * d.table.width + x) : 0);
      }
  }
}

TEST(CudaSharedEmbedding, AddsToItsWords) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(6);
  for (int i = 0; i < 24; ++i) {
    int64_t parts = pick(random, {2, 3}), rank = int64_t(random()) % parts;
    ShxEmbeddingPart d = embeddingPart(random, parts);
    d.table.accumulate = random() % 2;
    Told others(rank, nullptr);
    Buffer ids = randomIds(random, d),
           dy(d.table.outDtype, d.table.rows * d.table.width),
           dtable(d.table.tableDtype, d.table.vocab * d.table.width);
    dy.fillRandom(random);
    dtable.fillRandom(random);
    std::vector<double> expected;
    for (int64_t x = 0; x < dtable.size(); ++x)
      expected.push_back(d.table.accumulate ? dtable.get(x) : 0);
    for (int64_t r = 0; r < d.table.rows; ++r)
      for (int64_t x = 0; x < d.table.width; ++x)
        if (std::optional<int64_t> row = rowOf(ids.get(r), d, rank))
          expected[size_t(*row * d.table.width + x)] +=
              dy.get(r * d.table.width + x);
    DeviceBuffer onIds(ids), onDy(dy), onTable(dtable);
    ShxEmbedding withOthers = d.table;
    ++withOthers.vocab;
    DeviceBytes workspace(cudaLibraries().embeddingGrad(withOthers));
    device.call([&] {
      if (!device.context().preparing())
        onTable.upload(dtable);
      shx_embedding_part_grad(&device.context(), &d, onIds.data(), onDy.data(),
                              onTable.data(), workspace.data());
    });
    EXPECT_TRUE(workspace.intact());
    // Of hundreds of rows; half a unit in the last place of what has 16 bits,
    // where the sum is rounded once.
    double tolerance = d.table.tableDtype == SHX_F32    ? 1e-5
                       : d.table.tableDtype == SHX_BF16 ? 0.501 / 128
                                                        : 0.501 / 1024;
    expectClose(onTable.download(), expected, tolerance, "dtable");
    if (HasFatalFailure())
      return;
  }
}

} // namespace
