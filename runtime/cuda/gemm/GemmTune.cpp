// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which algorithm a product gets. Rank 0 settles it, so that every rank adds
// in the same order: from the cache file; by timing what the library proposes,
// on the program's own buffers; or, where the same choice is wanted in every
// run, by taking the library's first proposal.

#include "../../support/Error.h"
#include "Gemm.h"
#include "GemmEpilogue.h"
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

namespace shardonnx::rt::cuda {
namespace {

constexpr int kCandidates = 8;
constexpr int kTimedBatches = 3;
// A batch of runs is about this long, at most kMostRuns: the GPU's events tell
// half a microsecond apart, which must not decide between two algorithms.
constexpr double kBatchMilliseconds = 1;
constexpr int kMostRuns = 256;
// A candidate so much slower than the best is not timed again.
constexpr double kHopeless = 1.5;

// What rank 0 tells the others of one problem.
struct Settled {
  uint64_t key = 0; // a hash of it
  uint64_t fused = 0;
  std::array<uint64_t, 8> algorithm{};
};

uint64_t hashOf(const std::string &text) { // FNV-1a
  uint64_t hash = 0xcbf29ce484222325u;
  for (char c : text)
    hash = (hash ^ uint8_t(c)) * 0x100000001b3u;
  return hash;
}

GemmChoice choiceFrom(const cublasLtMatmulAlgo_t &algorithm, bool fused) {
  GemmChoice choice;
  choice.fused = fused;
  std::copy_n(algorithm.data, choice.algorithm.size(),
              choice.algorithm.begin());
  return choice;
}

// SHARDONNX_TUNE=0: no timing.
bool tuningWanted() {
  const char *value = std::getenv("SHARDONNX_TUNE");
  return !value || std::string(value) != "0";
}

} // namespace

GemmCache &Gemm::cache() {
  if (!file) {
    GemmMachine machine{context.device->name(), context.device->major(),
                        context.device->minor(),
                        int64_t(cublasLt().cublasLtGetVersion()),
                        context.device->driverVersion()};
    file = std::make_unique<GemmCache>(cacheFolder, machine);
  }
  return *file;
}

bool Gemm::accepts(const Pending &p, const GemmChoice &choice) const {
  if (choice.fused && !mayFuseEpilogue(p.problem))
    return false;
  cublasLtMatmulAlgo_t algorithm;
  std::copy(choice.algorithm.begin(), choice.algorithm.end(), algorithm.data);
  return LtProduct(p.problem, p.operands, choice.fused)
      .accepts(handle, algorithm);
}

// The library's first proposal, with the epilogue if it can do that.
GemmChoice Gemm::firstOf(const GemmProblem &problem,
                         const GemmOperands &operands) {
  bool epilogue = problem.epilogue != SHX_EPILOGUE_NONE;
  if (epilogue && mayFuseEpilogue(problem)) {
    auto found = LtProduct(problem, operands, true).candidates(library(), 1);
    if (!found.empty())
      return choiceFrom(found.front(), true);
  }
  auto found = LtProduct(problem, operands, false).candidates(library(), 1);
  if (found.empty())
    failCublasLt(CUBLAS_STATUS_NOT_SUPPORTED, problem);
  return choiceFrom(found.front(), false);
}

// Milliseconds of a run; infinity when it fails.
double Gemm::timeOf(const Pending &p, const LtProduct &product,
                    const GemmChoice &choice, double best) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  Event begin(Event::Timing), end(Event::Timing);
  auto runs = [&](int count) {
    begin.record(context.compute);
    for (int i = 0; i < count; ++i)
      if (enqueue(product, p.problem, p.operands, choice, p.offset,
                  p.workspace) != CUBLAS_STATUS_SUCCESS)
        return kNever;
    end.record(context.compute);
    end.synchronize("timing a matrix product");
    return Event::milliseconds(begin, end) / count;
  };
  if (runs(1) == kNever) // loads the code as well
    return kNever;
  double fastest = runs(1);
  int count = int(std::clamp(kBatchMilliseconds / std::max(fastest, 1e-3), 1.0,
                             double(kMostRuns)));
  for (int batch = 0; batch < kTimedBatches && fastest < best * kHopeless;
       ++batch)
    fastest = std::min(fastest, runs(count));
  return fastest;
}

// Times what the library proposes, with the epilogue and without it.
GemmChoice Gemm::fastestOf(const Pending &p) {
  bool epilogue = p.problem.epilogue != SHX_EPILOGUE_NONE;
  double best = std::numeric_limits<double>::infinity();
  GemmChoice fastest = firstOf(p.problem, p.operands);
  for (bool fused : {true, false}) {
    if (fused && !(epilogue && mayFuseEpilogue(p.problem)))
      continue;
    LtProduct product(p.problem, p.operands, fused);
    for (const auto &algorithm : product.candidates(library(), kCandidates)) {
      GemmChoice choice = choiceFrom(algorithm, fused);
      double time = timeOf(p, product, choice, best);
      if (time < best) {
        best = time;
        fastest = choice;
      }
    }
  }
  return fastest;
}

bool Gemm::willTime() {
  if (context.rank != 0 || !tuningWanted() || pending.empty())
    return false;
  library();
  return std::any_of(pending.begin(), pending.end(), [this](const Pending &p) {
    const GemmChoice *kept = p.mayTime ? cache().find(p.key) : nullptr;
    return p.mayTime && !(kept && accepts(p, *kept));
  });
}

GemmChoice Gemm::settle(const Pending &p) {
  if (!p.mayTime || !tuningWanted())
    return ++anew, firstOf(p.problem, p.operands);
  const GemmChoice *kept = cache().find(p.key);
  if (kept && accepts(p, *kept))
    return *kept;
  GemmChoice choice = fastestOf(p);
  cache().add(p.key, choice);
  ++anew;
  return choice;
}

void Gemm::tune() {
  if (pending.empty())
    return;
  library();
  std::vector<Settled> settled(pending.size());
  Mode mode = std::exchange(context.mode, Mode::Enqueue); // products run
  if (context.rank == 0) {
    for (size_t i = 0; i < pending.size(); ++i) {
      GemmChoice choice = settle(pending[i]);
      settled[i] = {hashOf(pending[i].key), choice.fused, choice.algorithm};
    }
    if (file)
      file->save();
  }
  if (context.ranks > 1)
    context.collectives->broadcast(settled.data(),
                                   settled.size() * sizeof(Settled));
  for (size_t i = 0; i < pending.size(); ++i) {
    GemmChoice choice;
    choice.fused = settled[i].fused != 0;
    choice.algorithm = settled[i].algorithm;
    bool same = settled[i].key == hashOf(pending[i].key);
    // Another kind of GPU, or another library: its own choice.
    if (!same || !accepts(pending[i], choice))
      choice = firstOf(pending[i].problem, pending[i].operands);
    choices[pending[i].key] = choice;
    runOnce(pending[i], choice);
  }
  check(driver().cuStreamSynchronize(context.compute),
        "trying the algorithms of matrix products");
  context.mode = mode;
  pending.clear();
  known.clear();
}

// Loads the algorithm's code, which a stream that is captured may not, and
// finds out here what cannot run.
void Gemm::runOnce(const Pending &p, const GemmChoice &choice) {
  LtProduct product(p.problem, p.operands, choice.fused);
  cublasStatus_t status =
      enqueue(product, p.problem, p.operands, choice, p.offset, p.workspace);
  if (status != CUBLAS_STATUS_SUCCESS)
    failCublasLt(status, p.problem);
}

const GemmChoice &Gemm::choiceOf(const std::string &key,
                                 const GemmProblem &problem,
                                 const GemmOperands &operands) {
  auto it = choices.find(key);
  if (it == choices.end()) // not prepared: no time to time it
    it = choices.emplace(key, firstOf(problem, operands)).first;
  return it->second;
}

} // namespace shardonnx::rt::cuda
