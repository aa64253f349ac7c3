// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime's work on slices: casts, sums of slices, the gradient norm and
// the clip factor, the loss.

#include "../../runtime/core/GatherImage.h"
#include "../../runtime/cuda/state/Slices.h"
#include "cuda_kernels_util.h"
#include "shardonnx/runtime/GatherCodes.h"
#include <cstring>

using namespace shardonnx;
using namespace shardonnx::rt::cuda;
using shardonnx::test::Buffer;
using shardonnx::test::CudaDevice;
using shardonnx::test::DeviceBuffer;
using shardonnx::test::DeviceValue;

namespace {

// Neither whole packs nor whole blocks; the last one is more than a grid.
const int64_t kSizes[] = {0, 1, 7, 8, 16, 255, 4096, 10007};

TEST(CudaSlices, CastsMasters) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(1);
  for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16})
    for (int64_t count : kSizes)
      for (int64_t offset : {0, 4}) {
        Buffer from(SHX_F32, count), to(dtype, count);
        from.fillRandom(random);
        DeviceBuffer onFrom(from, offset), onTo(to);
        device.call([&] {
          castSlice(device.context(), device.stream(),
                    static_cast<float *>(onFrom.data()), dtype, onTo.data(),
                    count);
        });
        Buffer result = onTo.download();
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(result.get(i), test::roundToDtype(dtype, from.get(i)));
      }
}

// The same bits as on the host; to encode what has been rounded, and to decode
// it, changes nothing.
TEST(CudaSlices, RoundsAndSends) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(3);
  constexpr int64_t kSlice = 3 * kStateBlock, kRanks = 2;
  constexpr int64_t kLength = (2 * kRanks - 1) * kSlice / 2 / 256 * 256;
  Manifest::Unit unit;
  unit.length = kLength;
  for (GatherDtype type :
       {GatherDtype::BF16, GatherDtype::Int8, GatherDtype::F8})
    for (auto [master, param] : {std::pair(SHX_F32, SHX_F32),
                                 {SHX_F32, SHX_BF16},
                                 {SHX_BF16, SHX_BF16}}) {
      unit.gatherType = type;
      unit.masterType = master;
      unit.paramType = param;
      Buffer masters(master, kRanks * kSlice), whole(param, kRanks * kSlice);
      Buffer host(param, kRanks * kSlice);
      masters.fillRandom(random);
      for (int64_t i = 0; i < kStateBlock; ++i)
        masters.set(i, masters.get(i) * std::pow(2, i % 24 - 20));
      rt::roundAsGathered(type, master,
                          static_cast<const uint8_t *>(masters.data()), param,
                          static_cast<uint8_t *>(host.data()), masters.size());
      int64_t image = gatherImageBytes(type, kSlice);
      DeviceBuffer from(masters), rounded(whole), gathered(whole),
          images(Buffer(SHX_I32, kRanks * image / 4));
      device.call([&] {
        roundSlice(device.context(), unit, from.data(), rounded.data(),
                   masters.size());
        for (int64_t r = 0; r < kRanks; ++r)
          encodeSlice(device.context(), device.stream(), unit,
                      static_cast<uint8_t *>(rounded.data()) +
                          r * kSlice * dtypeBytes(param),
                      static_cast<uint8_t *>(images.data()) + r * image,
                      kSlice);
        decodeImages(device.context(), device.stream(), unit, images.data(),
                     kSlice, gathered.data());
      });
      Buffer result = rounded.download(), decoded = gathered.download();
      for (int64_t i = 0; i < masters.size(); ++i) {
        ASSERT_EQ(result.get(i), host.get(i)) << spell(type) << " at " << i;
        if (i < kLength)
          ASSERT_EQ(decoded.get(i), host.get(i)) << spell(type) << " at " << i;
      }
    }
}

TEST(CudaSlices, SumsInOrder) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(2);
  for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16})
    for (int64_t count : kSizes)
      for (int32_t slices : {1, 3})
        for (bool accumulate : {false, true}) {
          int64_t stride = count + (count % 8 ? 0 : 8);
          Buffer from(dtype, stride * slices), to(SHX_F32, count);
          from.fillRandom(random);
          to.fillRandom(random);
          DeviceBuffer onFrom(from), onTo(to);
          device.call([&] {
            sumSlices(device.context(), device.stream(), dtype, onFrom.data(),
                      stride, slices, static_cast<float *>(onTo.data()), count,
                      accumulate);
          });
          Buffer result = onTo.download();
          for (int64_t i = 0; i < count; ++i) {
            float sum = accumulate ? float(to.get(i)) : 0;
            for (int64_t s = 0; s < slices; ++s)
              sum += float(from.get(s * stride + i));
            ASSERT_EQ(result.get(i), sum)
                << dtype << " " << count << " at " << i;
          }
        }
}

double normSquared(const Buffer &x, int64_t offset) {
  CudaDevice &device = CudaDevice::get();
  int64_t parts = squaresPartials(x.size());
  DeviceBuffer onX(x, offset), partials(Buffer(SHX_I64, parts));
  DeviceValue<double> sum(NAN);
  device.call([&] {
    squares(device.context(), device.stream(), static_cast<float *>(onX.data()),
            x.size(), static_cast<double *>(partials.data()));
    sumDoubles(device.context(), device.stream(),
               static_cast<double *>(partials.data()), parts, sum.data());
  });
  partials.download(); // its guards
  return sum.get();
}

TEST(CudaSlices, SumsSquares) {
  std::mt19937 random(3);
  for (int64_t count : {0, 1, 5, 4096, 32768, 70001}) {
    Buffer x(SHX_F32, count);
    x.fillRandom(random);
    double expected = 0;
    for (int64_t i = 0; i < count; ++i)
      expected += x.get(i) * x.get(i);
    double aligned = normSquared(x, 0);
    EXPECT_NEAR(aligned, expected, 1e-13 * expected);
    EXPECT_NEAR(normSquared(x, 4), expected, 1e-13 * expected);
    EXPECT_EQ(normSquared(x, 0), aligned);
  }
  Buffer large(SHX_F32, 2);
  large.fill(1e30); // squares beyond f32
  EXPECT_NEAR(normSquared(large, 0), 2e60, 1e54);
}

TEST(CudaSlices, SumsAndSquaresInOnePass) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(5);
  for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16})
    for (int64_t count : {0, 1, 7, 4096, 32768, 70001})
      for (bool accumulate : {false, true}) {
        Buffer from(dtype, count), to(SHX_F32, count);
        from.fillRandom(random);
        to.fillRandom(random);
        int64_t parts = squaresPartials(count);
        DeviceBuffer onFrom(from), onTo(to), partials(Buffer(SHX_I64, parts));
        DeviceValue<double> sum(NAN);
        device.call([&] {
          auto *squares = static_cast<double *>(partials.data());
          sumWithSquares(device.context(), device.stream(), dtype,
                         onFrom.data(), static_cast<float *>(onTo.data()),
                         count, accumulate, squares);
          sumDoubles(device.context(), device.stream(), squares, parts,
                     sum.data());
        });
        partials.download(); // its guards
        Buffer result = onTo.download();
        double expected = 0;
        for (int64_t i = 0; i < count; ++i) {
          float value =
              float(from.get(i)) + (accumulate ? float(to.get(i)) : 0.0f);
          ASSERT_EQ(result.get(i), value) << dtype << " " << count << " " << i;
          expected += double(value) * double(value);
        }
        EXPECT_NEAR(sum.get(), expected, 1e-13 * expected);
      }
}

// Of parts, whichever comes first, and of what is not finite; then their steps.
TEST(CudaSlices, TakesStepsOfTheLargest) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(5);
  for (int32_t dtype : {SHX_F32, SHX_BF16, SHX_F16})
    for (int64_t count : {1, 7, 4096, 10007})
      for (float largest : {0.f, 0.0625f, 448.f, 450.f, 900.f, INFINITY}) {
        Buffer x(dtype, count);
        x.fillRandom(random);
        for (int64_t i = 0; i < count; ++i)
          x.set(i, std::fmod(x.get(i), 1) * (largest > 0 ? 1 / 32. : 0));
        x.set(count / 2, -largest);
        DeviceBuffer onX(x);
        int64_t half = count / 3;
        test::DeviceBytes cells((2 + 2 * SHX_STEP_STRIDE) * sizeof(float));
        auto *bits = static_cast<uint32_t *>(cells.data());
        float numbers[2 + 2 * SHX_STEP_STRIDE] = {0, 0, 7, 7};
        cells.upload(numbers);
        auto join = [&](int64_t begin, int64_t end, uint32_t *to) {
          joinLargest(device.context(), dtype,
                      static_cast<uint8_t *>(onX.data()) +
                          begin * dtypeBytes(ShxDType(dtype)),
                      end - begin, /*toBF16=*/false, to);
        };
        device.call([&] {
          join(0, half, bits);
          join(half, count, bits);
          join(half, count, bits + 1);
          join(0, half, bits + 1);
          takeF8Steps(device.context(), bits,
                      reinterpret_cast<float *>(bits + 2), 2);
        });
        cells.download(numbers);
        float expected = std::fabs(x.get(count / 2)), step = INFINITY;
        if (std::isfinite(expected)) // the least power of two that holds it
          for (step = std::exp2(-48); 448 * step < expected;)
            step *= 2;
        EXPECT_EQ(numbers[0], expected);
        EXPECT_EQ(numbers[1], expected);
        EXPECT_EQ(numbers[2], step) << dtype << " " << count << " " << largest;
        EXPECT_EQ(numbers[3], 7); // nothing lies between two
        EXPECT_EQ(numbers[2 + SHX_STEP_STRIDE], step);
      }
}

// What the largest is in bf16, and what gathers then send: the nearest of
// e4m3, of two the even one.
TEST(CudaSlices, CastsToCodes) {
  CudaDevice &device = CudaDevice::get();
  for (int32_t dtype : {SHX_F32, SHX_BF16}) {
    const float values[] = {0,     -0.f, 1,    17, 18,  -19,  1.0625, 448, 449,
                            0.001, 3.5,  -0.9, 8,  460, 2e-3, -1e-3,  1000};
    const int64_t count = std::size(values);
    Buffer x(dtype, count);
    for (int64_t i = 0; i < count; ++i)
      x.set(i, values[i]);
    DeviceBuffer onX(x);
    test::DeviceBytes cells(2 * sizeof(float)), codes(count);
    float numbers[2] = {0, 0};
    cells.upload(numbers);
    auto *at = static_cast<uint32_t *>(cells.data());
    auto *step = reinterpret_cast<float *>(at + 1);
    device.call([&] {
      joinLargest(device.context(), dtype, onX.data(), count, /*toBF16=*/true,
                  at);
      takeF8Steps(device.context(), at, step, 1);
      castToCodes(device.context(), dtype, onX.data(), step,
                  static_cast<uint8_t *>(codes.data()), count);
    });
    cells.download(numbers);
    EXPECT_EQ(numbers[0], 1000);
    ASSERT_EQ(numbers[1], 4);
    std::vector<uint8_t> result(static_cast<size_t>(count));
    codes.download(result.data());
    for (int64_t i = 0; i < count; ++i) {
      float y = test::roundToDtype(SHX_BF16, values[i]) / 4;
      float apart = std::exp2(std::max(std::ilogb(std::fabs(y)), -6) - 3);
      float nearest = y == 0 ? y : std::nearbyint(y / apart) * apart;
      EXPECT_EQ(valueOfCode(true, result[size_t(i)]), nearest) << values[i];
    }
  }
}

struct Finished {
  double norm;
  float factor, skip;
};
Finished finish(std::vector<double> ranks, double limit, float unscale = 1) {
  CudaDevice &device = CudaDevice::get();
  test::DeviceBytes squares(int64_t(ranks.size() * sizeof(double)));
  squares.upload(ranks.data());
  DeviceValue<double> norm(NAN);
  std::vector<float> scalars(2 * SHX_NUM_SCALARS, NAN);
  scalars[SHX_CLIP] = unscale;
  int64_t bytes = int64_t(scalars.size() * sizeof(float));
  test::DeviceBytes cells(bytes);
  cells.upload(scalars.data());
  auto *values = static_cast<float *>(cells.data());
  device.call([&] {
    finishNorm(device.context(), device.stream(),
               static_cast<double *>(squares.data()), int32_t(ranks.size()),
               limit, norm.data(), values, values + SHX_NUM_SCALARS);
  });
  cells.download(scalars.data());
  const float *other = scalars.data() + SHX_NUM_SCALARS; // without decay
  EXPECT_EQ(std::memcmp(&scalars[SHX_CLIP], other + SHX_CLIP, 4), 0);
  EXPECT_EQ(scalars[SHX_SKIP], other[SHX_SKIP]);
  return {norm.get(), scalars[SHX_CLIP], scalars[SHX_SKIP]};
}

// As torch.nn.utils.clip_grad_norm_ does.
TEST(CudaSlices, ClipsTheNorm) {
  for (double limit : {0., 10.}) {
    Finished f = finish({9, 16}, limit);
    EXPECT_EQ(f.norm, 5);
    EXPECT_EQ(f.factor, 1);
    EXPECT_EQ(f.skip, 0);
  }
  Finished f = finish({9, 16}, 1);
  EXPECT_EQ(f.norm, 5);
  EXPECT_EQ(f.factor, float(1 / (5 + 1e-6)));
  f = finish({0}, 1);
  EXPECT_EQ(f.norm, 0);
  EXPECT_EQ(f.factor, 1);
}

TEST(CudaSlices, TheNormIsWithoutTheLossScale) {
  Finished f = finish({9 * 64, 16 * 64}, 1, 0.125f);
  EXPECT_EQ(f.norm, 5);
  EXPECT_EQ(f.factor, float(1 / (5 + 1e-6) * 0.125));
  EXPECT_EQ(finish({9 * 64}, 0, 0.125f).factor, 0.125f);
}

TEST(CudaSlices, AStepThatIsNotFiniteIsSkipped) {
  EXPECT_EQ(finish({1, NAN}, 1).skip, 1);
  EXPECT_EQ(finish({INFINITY, 1}, 0).skip, 1);
  EXPECT_EQ(finish({1, 1}, 0).skip, 0);
  EXPECT_TRUE(std::isnan(finish({1, NAN}, 1).norm));
}

TEST(CudaSlices, AddsTheLoss) {
  CudaDevice &device = CudaDevice::get();
  DeviceValue<float> loss(2.5f);
  DeviceValue<double> sum(100);
  auto add = [&](bool accumulate) {
    device.call([&] {
      addLoss(device.context(), device.stream(), loss.data(), sum.data(),
              accumulate);
    });
    return sum.get();
  };
  EXPECT_EQ(add(false), 2.5);
  EXPECT_EQ(add(true), 5);
}

} // namespace
