// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gathers, scatters and ranks on the device: every type, with and without
// 16-byte accesses, positions that meet on few threads and on many.

#include "cuda_kernels_util.h"
#include "index_problem.h"
#include <array>

using namespace shardonnx::test;

namespace {

TEST(CudaIndex, Gathers) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(1);
  for (int i = 0; i < 60 && !HasFatalFailure(); ++i) {
    IndexProblem p = drawIndexing(random);
    Buffer data = drawData(p.d.dtype, p.dataSize, random);
    Buffer indices = drawIndices(p, random), values(p.d.dtype, p.valueSize);
    int64_t offset = bytesOf(p.d.dtype) * int64_t(random() % 2);
    DeviceBuffer onData(data, offset), onIndices(indices), onValues(values);
    device.call([&] {
      shx_gather(&device.context(), &p.d, onData.data(), onIndices.data(),
                 onValues.data(), "");
    });
    onValues.download(values);
    walk(p, indices, [&](int64_t from, int64_t to) {
      ASSERT_EQ(values.get(to), data.get(from));
    });
  }
}

void expectScattered(IndexProblem &p, std::mt19937 &random) {
  CudaDevice &device = CudaDevice::get();
  p.d.reduction = int32_t(random() % 5);
  Buffer data = drawData(p.d.dtype, p.dataSize, random);
  Buffer indices = drawIndices(p, random);
  Buffer values = drawData(p.d.dtype, p.valueSize, random);
  double largest;
  std::vector<double> expected = scattered(p, data, indices, values, largest);
  DeviceBuffer onData(data), onIndices(indices), onValues(values);
  auto call = [&] {
    shx_scatter(&device.context(), &p.d, onIndices.data(), onValues.data(),
                onData.data(), "");
  };
  device.prepare(call);
  onData.upload(data);
  device.enqueue(call);
  onData.download(data);
  // Larger products are not what a double holds exactly.
  for (int64_t e = 0; largest < 1e6 && e < data.size(); ++e)
    ASSERT_EQ(data.get(e), expected[size_t(e)]) << "element " << e;
}

TEST(CudaIndex, ScattersInOrder) {
  std::mt19937 random(2);
  for (int i = 0; i < 60 && !HasFatalFailure(); ++i) {
    IndexProblem p = drawIndexing(random);
    expectScattered(p, random);
  }
}

// Hundreds of positions that may all meet: warps share them.
TEST(CudaIndex, ScattersManyToFew) {
  std::mt19937 random(3);
  for (int64_t width : {1, 40}) {
    IndexProblem p;
    addAxis(p, 700, 0, 1);
    addAxis(p, width, 1, 0);
    p.d.components = 1;
    p.d.indexedSize[0] = 50;
    p.d.indexedStride[0] = width;
    p.indexSize = 700;
    p.dataSize = 50 * width;
    finish(p, random);
    expectScattered(p, random);
  }
}

// Whose index it was is told, and nothing beyond the axis is touched.
TEST(CudaIndex, SaysWhatIsOutside) {
  CudaDevice &device = CudaDevice::get();
  ShxIndexing d{};
  d.rank = d.components = 1;
  d.dims[0] = d.indexStride[0] = d.valueStride[0] = d.indexedStride[0] = 1;
  d.indexedSize[0] = 5;
  d.indexDtype = SHX_I64;
  const char *what = "node 'g' (Gather)";
  for (bool reads : {true, false}) {
    Buffer data(SHX_F32, 5), index(SHX_I64, 1), value(SHX_F32, 1);
    data.fill(1);
    value.fill(2);
    index.set(0, reads ? 5 : -6);
    DeviceBuffer onData(data), onIndex(index), onValue(value);
    DeviceValue<std::array<int64_t, 3>> outside;
    device.context().cells.outside = outside.data()->data();
    device.call([&] {
      if (reads)
        shx_gather(&device.context(), &d, onData.data(), onIndex.data(),
                   onValue.data(), what);
      else
        shx_scatter(&device.context(), &d, onIndex.data(), onValue.data(),
                    onData.data(), what);
    });
    device.context().cells.outside = nullptr;
    EXPECT_EQ(onData.download(), data);
    EXPECT_EQ(onValue.download(), value);
    std::array<int64_t, 3> told = outside.get();
    EXPECT_EQ(reinterpret_cast<const char *>(told[0]), what);
    EXPECT_EQ(told[1], reads ? 5 : -6);
    EXPECT_EQ(told[2], 5);
  }
}

// By warps, and by blocks.
TEST(CudaTopK, RanksLines) {
  CudaDevice &device = CudaDevice::get();
  std::mt19937 random(3);
  for (int i = 0; i < 40 && !HasFatalFailure(); ++i) {
    TopKProblem p(random, {1, 5, 60, 1100});
    Buffer values(p.d.dtype, p.lines * p.d.k),
        indices(SHX_I64, p.lines * p.d.k);
    DeviceBuffer from(p.from), onValues(values), onIndices(indices);
    device.call([&] {
      shx_top_k(&device.context(), &p.d, from.data(), onValues.data(),
                static_cast<int64_t *>(onIndices.data()));
    });
    onValues.download(values);
    onIndices.download(indices);
    p.expectRanks(values, indices);
  }
}

} // namespace
