// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parts of the CUDA runtime on a device, which may be the emulated one.

#include "../../runtime/cuda/collectives/SingleRank.h"
#include "../../runtime/cuda/driver/Noise.h"
#include "../../runtime/cuda/driver/Numa.h"
#include "../../runtime/cuda/io/Inputs.h"
#include "../../runtime/cuda/io/Numbers.h"
#include "../../runtime/cuda/io/Upload.h"
#include "../../runtime/cuda/launch/Function.h"
#include "../../runtime/cuda/launch/Launch.h"
#include "../../runtime/cuda/state/Slices.h"
#include "../../runtime/cuda/state/State.h"
#include "emulated.h"
#include "shardonnx/runtime/ByteSize.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <set>
#include <sys/stat.h>

asm(".section .rodata\n"
    "test_ptx: .incbin \"" TEST_PTX "\"\n"
    "test_ptx_end: .byte 0\n"
    ".previous\n");
extern "C" const char test_ptx[], test_ptx_end[];

using namespace shardonnx;
using namespace shardonnx::rt;
using namespace shardonnx::rt::cuda;
using shardonnx::test::isEmulated;

namespace {

template <typename T> std::vector<T> download(const void *from, size_t count) {
  std::vector<T> values(count);
  check(driver().cuMemcpyDtoH(values.data(), deviceAddress(from),
                              count * sizeof(T)),
        "reading back");
  return values;
}

template <typename T>
void fill(const DeviceMemory &to, const std::vector<T> &values) {
  writeNow(to.address(), values.data(), int64_t(values.size() * sizeof(T)),
           "writing");
}

const ShxDeviceImage &testImage() {
  static const ShxDeviceImage image = {
      SHX_PTX, 80, test_ptx,
      static_cast<uint64_t>(test_ptx_end - test_ptx) + 1};
  return image;
}

// A context as the engine makes one.
class OnDevice : public testing::Test {
protected:
  OnDevice()
      : device(0), program(device, {{"the test", &testImage(), 1}}),
        runtime(device, {shx_runtime_images,
                         shx_runtime_images + shx_runtime_image_tables}),
        collectives(context) {
    context.device = &device;
    context.compute = compute;
    context.programImages = &program;
    context.runtimeImages = &runtime;
    context.collectives = &collectives;
  }
  void wait() { compute.synchronize("waiting"); }
  Device device;
  Stream compute, copy;
  Images program, runtime;
  Context context;
  SingleRank collectives;
};

TEST_F(OnDevice, IsOneThatProgramsRunOn) {
  EXPECT_GE(device.major(), kOldestMajor);
  EXPECT_FALSE(device.name().empty());
  EXPECT_GT(device.multiprocessors(), 0);
  EXPECT_GE(device.sharedBytesPerBlock(), 48 << 10);
  EXPECT_GT(device.memory().total, 0);
}

TEST_F(OnDevice, MemoryIsZeroAndGivenBack) {
  int64_t before = device.memory().free;
  {
    DeviceMemory memory(64 << 20, "a test");
    EXPECT_LE(device.memory().free, before - (64 << 20));
    for (float value : download<float>(memory.data(), 1000))
      EXPECT_EQ(value, 0);
    DeviceMemory moved = std::move(memory);
    EXPECT_EQ(memory.data(), nullptr);
    EXPECT_NE(moved.data(), nullptr);
  }
  EXPECT_EQ(device.memory().free, before);
}

// Whatever it is read as: finite, about 1, and with many values.
TEST_F(OnDevice, NoiseIsNumbersOfEveryDtype) {
  DeviceMemory memory((3 << 20) + 6, "noise");
  fillWithNoise(memory, compute);
  std::vector<uint32_t> words =
      download<uint32_t>(memory.data(), (3 << 20) / 4 + 1);
  std::set<uint32_t> different;
  int negative = 0;
  for (uint32_t word : words) {
    float whole;
    std::memcpy(&whole, &word, 4);
    ASSERT_TRUE(std::fabs(whole) >= 0.5f && std::fabs(whole) < 2) << whole;
    negative += whole < 0;
    for (uint16_t half : {uint16_t(word), uint16_t(word >> 16)})
      ASSERT_EQ(half & 0x7f00, 0x3f00); // of bf16 [0.5, 2), of f16 [1.75, 2)
    different.insert(word);
  }
  EXPECT_GT(different.size(), 100'000u);
  EXPECT_NEAR(double(negative) / double(words.size()), 0.5, 0.05);
  EXPECT_NE(words[0], words[4096]);
}

TEST(Numa, TheNodeIsThePciDevices) {
  std::string folder = testing::TempDir() + "numa-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  auto write = [&](const char *bus, const char *text) {
    ::mkdir((folder + "/" + bus).c_str(), 0700);
    std::ofstream(folder + "/" + bus + "/numa_node") << text << '\n';
  };
  write("0000:19:00.0", "1");
  write("0000:1a:00.0", "-1");
  EXPECT_EQ(numaNodeOf("0000:19:00.0", folder), 1);
  EXPECT_EQ(numaNodeOf("0000:1a:00.0", folder), std::nullopt);
  EXPECT_EQ(numaNodeOf("0000:1b:00.0", folder), std::nullopt);
}

TEST_F(OnDevice, IsFoundOnItsBus) {
  if (isEmulated())
    EXPECT_EQ(device.pciBus(), "0000:01:00.0");
  EXPECT_THAT(device.pciBus(),
              testing::MatchesRegex("[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}.0"));
}

TEST_F(OnDevice, TooMuchMemoryIsToldWithWhatIsFree) {
  int64_t much = device.memory().total * 2;
  try {
    DeviceMemory memory(much, "activations");
    FAIL() << "there is not that much";
  } catch (const Error &e) {
    std::string message = e.what();
    EXPECT_NE(message.find("not enough memory for activations: " +
                           formatBytes(much) + " are needed"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("are free"), std::string::npos);
  }
}

TEST_F(OnDevice, AKernelThatIsNotThereIsTold) {
  EXPECT_THROW(program.function("no_such_kernel"), Error);
  EXPECT_NE(program.function("table_a"), nullptr);
}

TEST_F(OnDevice, NothingIsEnqueuedWhenPreparing) {
  DeviceMemory from(1024, "x"), to(1024, "y");
  fill(from, std::vector<float>(256, 2.f));
  context.mode = Mode::Prepare;
  castSlice(context, compute, reinterpret_cast<float *>(from.data()), SHX_F32,
            to.data(), 256);
  wait();
  EXPECT_EQ(download<float>(to.data(), 256), std::vector<float>(256, 0.f));
  context.mode = Mode::Enqueue;
  castSlice(context, compute, reinterpret_cast<float *>(from.data()), SHX_F32,
            to.data(), 256);
  wait();
  EXPECT_EQ(download<float>(to.data(), 256), std::vector<float>(256, 2.f));
}

TEST_F(OnDevice, ACapturedFunctionRunsWhenItIsLaunched) {
  DeviceMemory from(1024, "x"), sum(1024, "y");
  fill(from, std::vector<float>(256, 1.5f));
  Function function(context, "a test", [&] {
    accumulateSlice(context, compute, SHX_F32, from.data(),
                    reinterpret_cast<float *>(sum.data()), 256, true);
  });
  function.prepare();
  ASSERT_EQ(function.capture(), "");
  wait();
  EXPECT_EQ(download<float>(sum.data(), 1)[0], 0); // captured, not run
  function.run();
  function.run();
  wait();
  EXPECT_EQ(download<float>(sum.data(), 256), std::vector<float>(256, 3.f));
}

// What a capture does not allow is a reason, and the function still runs.
TEST_F(OnDevice, ARefusedCaptureSaysWhyAndTheFunctionRuns) {
  DeviceMemory from(1024, "x"), sum(1024, "y");
  fill(from, std::vector<float>(256, 1.f));
  Function function(context, "a test", [&] {
    accumulateSlice(context, compute, SHX_F32, from.data(),
                    reinterpret_cast<float *>(sum.data()), 256, true);
    check(driver().cuStreamSynchronize(compute), "synchronising");
  });
  function.prepare();
  std::string reason = function.capture();
  EXPECT_NE(reason.find("CUDA_ERROR_STREAM_CAPTURE"), std::string::npos)
      << reason;
  function.run();
  wait();
  EXPECT_EQ(download<float>(sum.data(), 256), std::vector<float>(256, 1.f));
}

// Of a captured stream, where it comes behind a kernel and nothing else.
TEST_F(OnDevice, AKernelThatWaitsIsLaunchedBeforeTheOneAheadHasEnded) {
  using Print = CUresult (*)(CUgraph, const char *, unsigned);
  if (!isEmulated())
    GTEST_SKIP() << "only the emulated device tells so in words";
  void *library = ::dlopen("libcuda.so.1", RTLD_LAZY);
  auto print =
      reinterpret_cast<Print>(::dlsym(library, "cuGraphDebugDotPrint"));
  static constexpr char kWaits[] =
      ".version 8.0\n.target sm_90\n.address_size 64\n"
      ".visible .entry waits()\n{\ngriddepcontrol.wait;\nret;\n}\n";
  std::string path = testing::TempDir() + "dependent.dot";
  auto dependent = [&](int arch) {
    ShxDeviceImage image = {SHX_PTX, arch, kWaits, sizeof(kWaits)};
    Images images(device, {{"waits", &image, 1}});
    context.programImages = &images;
    ShxDeviceKernel kernel = {"waits", 32, 0, 1, 0, 0};
    DeviceMemory from(256, "x"), to(256, "y");
    check(
        driver().cuStreamBeginCapture(compute, CU_STREAM_CAPTURE_MODE_RELAXED),
        "capturing");
    for (int i = 0; i < 5; ++i) {
      if (i == 3)
        copyBytes(context, compute, to.data(), from.data(), 256);
      launchGenerated(context, kernel, 1, nullptr);
    }
    CUgraph graph = nullptr;
    check(driver().cuStreamEndCapture(compute, &graph), "capturing");
    EXPECT_EQ(print(graph, path.c_str(), 0), CUDA_SUCCESS);
    driver().cuGraphDestroy(graph);
    context.programImages = &program;
    std::ifstream file(path);
    int count = 0;
    for (std::string line; std::getline(file, line);)
      count += line.find("programmatic") != line.npos;
    return count;
  };
  EXPECT_EQ(dependent(90), 0);
  context.dependent = compute;
  EXPECT_EQ(dependent(90), 3); // the second, third and last
  EXPECT_EQ(dependent(80), 0); // has no such instruction
}

Manifest tokenInput() {
  Manifest m;
  m.inputs.push_back({"x", Manifest::InputKind::Tokens, SHX_I64, {4, 8}, 100});
  m.inputs.push_back({"y", Manifest::InputKind::Data, SHX_F32, {3}, 0});
  return m;
}

TEST_F(OnDevice, InputsArriveInOrderAtFixedAddresses) {
  Manifest m = tokenInput();
  Inputs inputs(m);
  DeviceMemory seen(6 * 256, "copies");
  for (int64_t i = 0; i < 6; ++i) {
    auto *x = reinterpret_cast<int64_t *>(inputs.host()[0]);
    std::iota(x, x + 32, i * 100);
    *reinterpret_cast<float *>(inputs.host()[1]) = static_cast<float>(i);
    inputs.send(copy, compute);
    copyBytes(context, compute, seen.data() + i * 256, inputs.device()[0], 256);
  }
  wait();
  for (int64_t i = 0; i < 6; ++i) {
    auto values = download<int64_t>(seen.data() + i * 256, 32);
    EXPECT_EQ(values.front(), i * 100);
    EXPECT_EQ(values.back(), i * 100 + 31);
  }
  EXPECT_EQ(download<float>(inputs.device()[1], 1)[0], 5);
}

TEST_F(OnDevice, WeightsAreUploadedInParts) {
  std::vector<float> values((5 << 20) + 3);
  std::iota(values.begin(), values.end(), 0.f);
  auto count = static_cast<int64_t>(values.size());
  DeviceMemory f32(count * 4, "weights"), bf16(count * 2, "weights");
  Upload upload(copy);
  upload.write(f32.data(), SHX_F32, values.data(), count);
  upload.write(bf16.data(), SHX_BF16, values.data(), count);
  copy.synchronize("waiting");
  EXPECT_EQ(download<float>(f32.data(), values.size()), values);
  EXPECT_EQ(download<uint16_t>(bf16.data(), values.size())[256], 0x4380);
}

TEST_F(OnDevice, AStepsNumbersAreReadLater) {
  Numbers numbers(1, 10);
  Cells cells = numbers.cells();
  Scalars scalars{};
  DeviceMemory loss(4, "loss");
  for (int step = 1; step <= 5; ++step) {
    scalars[SHX_LR] = static_cast<float>(step);
    scalars[SHX_WEIGHT_DECAY] = 0.5f;
    scalars[SHX_CLIP] = 1;
    numbers.beginStep(compute, scalars);
    // The loss is the learning rate, the norm what clipping makes of 9·step².
    copyBytes(context, compute, loss.data(), cells.scalars + SHX_LR, 4);
    auto *from = reinterpret_cast<float *>(loss.data());
    addLoss(context, compute, from, cells.loss, true);
    addLoss(context, compute, from, cells.loss, true);
    collectives.allGather(cells.loss, cells.losses, 2);
    finishNorm(context, compute, cells.losses, 1, 0.25, cells.norm,
               cells.scalars, cells.scalarsWithoutDecay);
    numbers.endStep(compute);
    if (step == 1)
      continue;
    std::optional<StepResult> last = numbers.take(true, "waiting");
    ASSERT_TRUE(last);
    EXPECT_EQ(last->loss, 2 * (step - 1));
    EXPECT_DOUBLE_EQ(last->gradNorm, std::sqrt(2. * (step - 1)));
    EXPECT_GT(last->seconds, 0);
  }
  EXPECT_TRUE(numbers.take(true, "waiting"));
  EXPECT_FALSE(numbers.take(true, "waiting"));
  EXPECT_EQ(download<float>(cells.scalars + SHX_WEIGHT_DECAY, 1)[0], 0.5f);
  EXPECT_EQ(download<float>(cells.scalarsWithoutDecay + SHX_WEIGHT_DECAY, 1)[0],
            0);
  EXPECT_EQ(download<float>(cells.scalarsWithoutDecay + SHX_LR, 1)[0], 5);
}

// The step in which a kernel met an index outside of its axis ends with an
// error.
TEST_F(OnDevice, AnIndexOutsideIsTold) {
  Numbers numbers(2, 10);
  Cells cells = numbers.cells();
  for (bool outside : {false, true}) {
    numbers.beginStep(compute, Scalars{});
    const int64_t told[] = {1, -9, 8};
    if (outside)
      check(driver().cuMemcpyHtoDAsync(deviceAddress(cells.outside), told,
                                       sizeof(told), compute),
            "writing an index");
    numbers.endStep(compute);
    if (!outside) {
      EXPECT_TRUE(numbers.take(true, "waiting"));
      continue;
    }
    try {
      numbers.take(true, "waiting");
      ADD_FAILURE() << "no error";
    } catch (const Error &error) {
      EXPECT_STREQ(error.what(),
                   "index -9 of an embedding is outside of its axis of 8 "
                   "elements; mend the data that it comes from");
    }
  }
}

TEST_F(OnDevice, EvaluationsAddUp) {
  Numbers numbers(1, 1);
  Cells cells = numbers.cells();
  DeviceMemory loss(4, "loss");
  fill(loss, std::vector<float>{2.5f});
  for (int turn = 0; turn < 2; ++turn) {
    numbers.clearLoss(compute);
    for (int i = 0; i < 4; ++i)
      addLoss(context, compute, reinterpret_cast<float *>(loss.data()),
              cells.loss, true);
    numbers.setCount(compute, 7);
    collectives.allGather(cells.loss, cells.losses, 2);
    Engine::Evaluation sum = numbers.readLosses(compute, "waiting");
    EXPECT_EQ(sum.loss, 10);
    EXPECT_EQ(sum.count, 7);
  }
}

} // namespace
