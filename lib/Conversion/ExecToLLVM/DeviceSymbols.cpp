// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What only a GPU program has: descriptors of its kernels, their images, and
// its constants as one piece that the runtime copies to the device.

#include "FunctionLowering.h"
#include "shardonnx/runtime/Layout.h"

#include <cstddef>

using namespace mlir;
using namespace shardonnx;

static_assert(offsetof(ShxDeviceKernel, name) == 0 &&
                  offsetof(ShxDeviceKernel, blockThreads) == 8 &&
                  offsetof(ShxDeviceKernel, sharedBytes) == 12 &&
                  offsetof(ShxDeviceKernel, blocks) == 16 &&
                  offsetof(ShxDeviceKernel, elementsPerBlock) == 24 &&
                  offsetof(ShxDeviceKernel, args) == 32,
              "the struct below is laid out as the C one");
static_assert(offsetof(ShxDeviceImage, kind) == 0 &&
                  offsetof(ShxDeviceImage, arch) == 4 &&
                  offsetof(ShxDeviceImage, data) == 8 &&
                  offsetof(ShxDeviceImage, size) == 16,
              "the struct below is laid out as the C one");

namespace {

// Fills a constant struct field by field.
class StructBuilder {
public:
  StructBuilder(OpBuilder &b, Location loc, Type type)
      : b(b), loc(loc), value(LLVM::UndefOp::create(b, loc, type)) {}
  void field(Value element) {
    value = LLVM::InsertValueOp::create(b, loc, value, element, next++);
  }
  void i32(int64_t number) { integer(b.getI32Type(), number); }
  void i64(int64_t number) { integer(b.getI64Type(), number); }
  void address(LLVM::GlobalOp global) {
    field(LLVM::AddressOfOp::create(b, loc, global));
  }
  Value get() const { return value; }

private:
  void integer(Type type, int64_t number) {
    field(
        LLVM::ConstantOp::create(b, loc, type, b.getIntegerAttr(type, number)));
  }

  OpBuilder &b;
  Location loc;
  Value value;
  int64_t next = 0;
};

LLVM::GlobalOp makeGlobal(OpBuilder &b, Location loc, Type type,
                          LLVM::Linkage linkage, StringRef name,
                          llvm::function_ref<Value(OpBuilder &)> initializer) {
  auto global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                                       linkage, name, Attribute(), 8);
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&global.getInitializerRegion());
  LLVM::ReturnOp::create(b, loc, initializer(b));
  return global;
}

} // namespace

LLVM::GlobalOp
ProgramSymbols::deviceKernel(const kernels::DeviceLaunch &launch) {
  LLVM::GlobalOp &global = deviceKernels[launch.symbol];
  if (global)
    return global;
  LLVM::GlobalOp name = bytes(launch.symbol + '\0', "name", /*alignment=*/1);
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto type = LLVM::LLVMStructType::getLiteral(
      builder.getContext(), {pointer, i32, i32, i64, i64, i64});
  global = makeGlobal(builder, module.getLoc(), type, LLVM::Linkage::Internal,
                      "..kernel." + launch.symbol, [&](OpBuilder &b) {
                        StructBuilder fields(b, module.getLoc(), type);
                        fields.address(name);
                        fields.i32(launch.blockThreads);
                        fields.i32(launch.sharedBytes);
                        fields.i64(launch.blocks);
                        fields.i64(launch.elementsPerBlock);
                        fields.i64(int64_t(launch.args.size()));
                        return fields.get();
                      });
  return global;
}

int64_t ProgramSymbols::constantOffset(FlatSymbolRefAttr name) {
  auto [it, isNew] = constantOffsets.try_emplace(name.getAttr(), 0);
  if (isNew) {
    constantBytes.resize(size_t(
        alignTo(int64_t(constantBytes.size()), kConstantAlignmentBytes)));
    it->second = int64_t(constantBytes.size());
    constantBytes += bytesOf(constants.lookup(name.getAttr()).getValue());
  }
  return it->second;
}

void ProgramSymbols::addDeviceSymbols() {
  Location loc = module.getLoc();
  builder.setInsertionPointToEnd(module.getBody());
  Type i32 = builder.getI32Type(), i64 = builder.getI64Type();
  auto number = [&](StringRef name, Type type, int64_t value) {
    LLVM::GlobalOp::create(builder, loc, type, /*isConstant=*/true,
                           LLVM::Linkage::External, name,
                           builder.getIntegerAttr(type, value));
  };
  std::string content =
      constantBytes.empty() ? std::string(1, '\0') : constantBytes;
  auto blob = LLVM::LLVMArrayType::get(builder.getI8Type(), content.size());
  LLVM::GlobalOp::create(builder, loc, blob, /*isConstant=*/true,
                         LLVM::Linkage::External, "shx_constants",
                         builder.getStringAttr(content), 64);
  number("shx_constants_size", i64, int64_t(constantBytes.size()));
  number("shx_device_image_count", i32, int64_t(device->images.size()));
  SmallVector<LLVM::GlobalOp> data;
  for (const DeviceProgram::Image &image : device->images)
    data.push_back(bytes(image.bytes, "image", /*alignment=*/64));
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto type = LLVM::LLVMStructType::getLiteral(builder.getContext(),
                                               {i32, i32, pointer, i64});
  auto table = LLVM::LLVMArrayType::get(type, data.size());
  makeGlobal(builder, loc, table, LLVM::Linkage::External, "shx_device_images",
             [&](OpBuilder &b) {
               StructBuilder entries(b, loc, table);
               for (auto [image, global] :
                    llvm::zip_equal(device->images, data)) {
                 StructBuilder fields(b, loc, type);
                 fields.i32(image.kind);
                 fields.i32(image.arch);
                 fields.address(global);
                 fields.i64(int64_t(image.bytes.size()));
                 entries.field(fields.get());
               }
               return entries.get();
             });
}
