// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels for the CPU, compiled into this process.

#include "kernel_harness.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "shardonnx/Object/Object.h"
#include "shardonnx/runtime/ABI.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace shardonnx;
using namespace shardonnx::test;

namespace {

/// The function @kernel of a module of lowered kernels.
class CompiledModule {
public:
  CompiledModule(ModuleOp module, const TargetSpec &target) {
    std::vector<ObjectBytes> objects;
    llvm::cantFail(emitObjects(module, target, /*cache=*/nullptr, objects));
    jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
    for (const ObjectBytes &object : objects)
      llvm::cantFail(jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(
          StringRef(object.data(), object.size()))));
    kernel = llvm::cantFail(jit->lookup("kernel")).toPtr<ShxKernel>();
  }
  ShxKernel kernel = nullptr;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

class CpuRunner : public KernelRunner {
public:
  void run(ArrayRef<Buffer *> buffers) override {
    module->kernel(addressesOf(buffers).data(), 0, launch.count);
  }
  void runOtherwise(ArrayRef<Buffer *> buffers, std::mt19937 &random) override;

  std::unique_ptr<CompiledModule> module;
  kernels::KernelLaunch launch{0, 0};
  kernels::Kernel::Mode mode = kernels::Kernel::Mode::Flat;

private:
  static SmallVector<void *> addressesOf(ArrayRef<Buffer *> buffers) {
    SmallVector<void *> addresses;
    for (Buffer *buffer : buffers)
      addresses.push_back(buffer->bytes.data());
    return addresses;
  }
};

class CpuOptimizer : public OptimizerRunner {
public:
  void run(const OptimizerSlices &slices, ArrayRef<float> scalars,
           int64_t begin, int64_t end) override {
    ShxPiece piece{0, begin, end};
    void *master = slices.master.data();
    if (types.halves)
      master = slices.lower->data();
    void *args[] = {master,
                    slices.gradient.data(),
                    slices.states[0].data(),
                    slices.states[1].data(),
                    slices.params.data(),
                    const_cast<float *>(scalars.data()),
                    slices.scales[0].data(),
                    slices.scales[1].data(),
                    &piece};
    int64_t step = types.state == SHX_I8 ? kStateBlock : 1;
    module->kernel(args, begin / step, (end + step - 1) / step);
  }
  kernels::OptimizerTypes types;
  std::unique_ptr<CompiledModule> module;
};

} // namespace

/// In chunks of random sizes, in random order. A column kernel is split at
/// multiples of its grain, as the runtime does: single columns and vectors of
/// them may round differently.
void CpuRunner::runOtherwise(ArrayRef<Buffer *> buffers, std::mt19937 &random) {
  std::vector<std::pair<int64_t, int64_t>> chunks;
  for (int64_t at = 0; at < launch.count;) {
    int64_t size = 1 + random() % (launch.count / 3 + 1);
    if (mode == kernels::Kernel::Mode::Columns)
      size = llvm::alignTo(size, launch.grain);
    int64_t end = std::min(at + size, launch.count);
    chunks.push_back({at, end});
    at = end;
  }
  std::shuffle(chunks.begin(), chunks.end(), random);
  SmallVector<void *> addresses = addressesOf(buffers);
  for (auto [begin, end] : chunks)
    module->kernel(addresses.data(), begin, end);
}

std::unique_ptr<KernelRunner> test::makeRunner(nn::FusedOp fused,
                                               ArrayRef<MemRefType> types,
                                               StringRef arch) {
  TargetSpec target =
      llvm::cantFail(resolveTarget(arch.empty() ? "native" : arch));
  auto kernel = kernels::Kernel::get(fused.getKind(), fused.getDomain(),
                                     fused.getBody().front(), types);
  if (failed(kernel))
    return nullptr;
  auto runner = std::make_unique<CpuRunner>();
  runner->launch = kernel->getLaunch();
  runner->mode = kernel->getMode();
  OwningOpRef<ModuleOp> code = ModuleOp::create(fused.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(code->getBody());
  auto emitted = kernels::emitKernel(builder, fused.getLoc(), "kernel", *kernel,
                                     kernels::kernelTargetOf(target));
  if (failed(kernels::lowerKernel(emitted)))
    return nullptr;
  runner->module = std::make_unique<CompiledModule>(*code, target);
  return runner;
}

static std::unique_ptr<OptimizerRunner>
makeOptimizerRunnerFor(const kernels::OptimizerTypes &types, StringRef arch) {
  MLIRContext context;
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  TargetSpec target = llvm::cantFail(resolveTarget(arch));
  if (failed(kernels::addOptimizerKernel(*module, "kernel", types, target)))
    return nullptr;
  auto runner = std::make_unique<CpuOptimizer>();
  runner->types = types;
  runner->module = std::make_unique<CompiledModule>(*module, target);
  return runner;
}

std::unique_ptr<OptimizerRunner>
test::makeOptimizerRunner(const kernels::OptimizerTypes &types) {
  return makeOptimizerRunnerFor(types, "native");
}

// Masters, codes and scales after some steps, from gradients of many sizes.
static std::vector<uint8_t> stepInBlocks(StringRef arch) {
  auto kernel =
      makeOptimizerRunnerFor({Optimizer::AdamW, SHX_F32, SHX_I8}, arch);
  constexpr int64_t kLength = 16 * kStateBlock;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> p(kLength), g(kLength), scales[2];
  std::vector<int8_t> codes[2];
  for (int i = 0; i < 2; ++i) {
    scales[i].resize(kLength / kStateBlock);
    codes[i].resize(kLength, i == 0 ? -1 : -128); // nothing
  }
  float scalars[SHX_NUM_SCALARS] = {};
  scalars[SHX_LR] = 1e-3f;
  scalars[SHX_BETA1] = 0.9f;
  scalars[SHX_BETA2] = 0.999f;
  scalars[SHX_ONE_MINUS_BETA1] = scalars[SHX_BIAS_CORRECTION1] = 0.1f;
  scalars[SHX_ONE_MINUS_BETA2] = scalars[SHX_BIAS_CORRECTION2] = 1e-3f;
  scalars[SHX_EPS] = 1e-8f;
  scalars[SHX_CLIP] = 0.7f;
  scalars[SHX_CLIP_VALUE] = INFINITY;
  for (int t = 0; t < 4; ++t) {
    for (float &value : g)
      value = normal(random) * std::exp(4 * normal(random));
    kernel->run({p,
                 g,
                 {rawBytes(codes[0]), rawBytes(codes[1])},
                 {},
                 {rawBytes(scales[0]), rawBytes(scales[1])}},
                scalars, 0, kLength);
  }
  std::vector<uint8_t> all;
  for (auto bytes : {rawBytes(p), rawBytes(codes[0]), rawBytes(codes[1]),
                     rawBytes(scales[0]), rawBytes(scales[1])})
    all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

TEST(WiderTargets, StateInBlocks) {
  if (!__builtin_cpu_supports("avx512bw"))
    GTEST_SKIP() << "needs AVX-512";
  EXPECT_EQ(stepInBlocks("x86-64-v3"), stepInBlocks("x86-64-v4"));
}

TEST(WiderTargets, Gelu) {
  if (!__builtin_cpu_supports("avx512bw"))
    GTEST_SKIP() << "needs AVX-512";
  checkGroup(R"(
    func.func @f(%a: tensor<4x37xbf16>) {
      %0 = nn.fused rows [4, 37] (%x = %a : tensor<4x37xbf16>) -> tensor<4x37xbf16> {
        %1 = nn.gelu %x : (tensor<4x37xbf16>) -> tensor<4x37xbf16>
        nn.yield %1 : tensor<4x37xbf16>
      }
      return
    })",
             Layout::Padded, 5, 1e-6, "x86-64-v4");
}
