// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loss of ranks that share a vocabulary, against that of the whole of it.

#include "../../runtime/cpu/kernels/SharedVocabulary.h"
#include "shardonnx/runtime/Workspace.h"
#include "shared_loss_problem.h"

using namespace shardonnx;
using namespace shardonnx::test;

namespace {

float run(LossPart &part, bool gradients, const ShareExchange &exchange) {
  float loss = NAN;
  Workspace workspace(cpuLibraries().linearCrossEntropy(part.d) +
                      sharedLossBytes(part.d.chunkRows, part.desc.parts));
  rt::lossOfPart(part.desc, part.rank, part.whole.x.data(), part.w.data(),
                 part.whole.labels.data(), &part.whole.seed, &loss,
                 gradients ? part.dx.data() : nullptr,
                 gradients ? part.dw.data() : nullptr, workspace.data(),
                 exchange);
  EXPECT_TRUE(workspace.intact());
  return loss;
}

TEST(CpuSharedLoss, IsThatOfTheWholeVocabulary) {
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) {
    int64_t parts = pick(random, {2, 3, 4});
    ShxLinearCrossEntropy d = randomSharedLoss(random, parts);
    checkLossParts(d, parts, {1e-5, precision(d.dtypeX), precision(d.dtypeDw)},
                   run);
    if (HasFatalFailure())
      return;
  }
}

TEST(CpuSharedLoss, RanksApart) { checkPartsApart(run); }

} // namespace
