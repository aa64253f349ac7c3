// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Images.h.

#include "Images.h"
#include <cstdlib>
#include <cstring>

namespace shardonnx::rt::cuda {
namespace {

// The driver's own switch; we choose the images, so it is ours to honour.
bool ptxIsForced() {
  const char *text = std::getenv("CUDA_FORCE_PTX_JIT");
  return text && std::strcmp(text, "1") == 0;
}

std::string architectures(const ImageTable &table) {
  std::string text;
  for (int32_t i = 0; i < table.count; ++i)
    text += concat(i ? ", " : "",
                   table.images[i].kind == SHX_CUBIN ? "sm_" : "compute_",
                   table.images[i].arch);
  return text.empty() ? "none" : text;
}

// Machine code and PTX have the names of their kernels in them, so a module
// that lacks the name need not be loaded to know.
bool mayHave(const ShxDeviceImage &image, const char *kernel) {
  return ::memmem(image.data, image.size, kernel, std::strlen(kernel));
}

std::string firstLine(const char *text) {
  return std::string(text, std::strcspn(text, "\n"));
}

} // namespace

const ShxDeviceImage *chooseImage(const ImageTable &table, int major, int minor,
                                  bool forcePtx) {
  const ShxDeviceImage *machineCode = nullptr, *ptx = nullptr;
  for (int32_t i = 0; i < table.count; ++i) {
    const ShxDeviceImage &image = table.images[i];
    if (image.kind == SHX_CUBIN) {
      if (image.arch / 10 == major && image.arch % 10 <= minor &&
          (!machineCode || image.arch > machineCode->arch))
        machineCode = &image;
    } else if (image.arch <= major * 10 + minor &&
               (!ptx || image.arch > ptx->arch)) {
      ptx = &image;
    }
  }
  return machineCode && !forcePtx ? machineCode : ptx;
}

Images::Images(const Device &device, std::vector<ImageTable> tables)
    : device(device) {
  for (const ImageTable &table : tables)
    modules.push_back({table, chooseImage(table, device.major(), device.minor(),
                                          ptxIsForced())});
}

Images::~Images() {
  for (const Loaded &loaded : modules)
    if (loaded.module)
      driver().cuModuleUnload(loaded.module);
}

void Images::load(Loaded &loaded) const {
  const ImageTable &table = loaded.table;
  const ShxDeviceImage *image = loaded.image;
  if (!image)
    fail(table.name, " has no code for '", device.name(), "' (sm_",
         device.arch(), "), only for ", architectures(table),
         ": compile it again with --gpu-arch=sm_", device.arch());
  char log[4096] = {};
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER,
                            CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  CUresult result = driver().cuModuleLoadDataEx(&loaded.module, image->data, 2,
                                                options, values);
  check(result, "loading the ",
        image->kind == SHX_CUBIN ? "machine code" : "PTX", " of ", table.name,
        " for ", device.name(), *log ? " (" + firstLine(log) + ")" : "");
}

void Images::find(const char *name, Function &found) {
  for (Loaded &loaded : modules) {
    if (loaded.image && !mayHave(*loaded.image, name))
      continue;
    if (!loaded.module)
      load(loaded);
    CUfunction function = nullptr;
    CUresult result =
        driver().cuModuleGetFunction(&function, loaded.module, name);
    if (result == CUDA_SUCCESS) {
      // Not at its first launch, which a graph may be capturing.
      if (driver().cuFuncLoad)
        check(driver().cuFuncLoad(function), "loading kernel ", name);
      found.handle = function;
      found.arch = loaded.image ? loaded.image->arch : 0;
      return;
    }
    if (result != CUDA_ERROR_NOT_FOUND)
      failCuda(result, concat("looking for kernel ", name));
  }
  fail("no kernel '", name,
       "' in this program: it and its runtime do not "
       "belong together; compile it again");
}

CUfunction Images::function(const char *name, unsigned sharedBytes) {
  Function &entry = functions[name];
  if (!entry.handle)
    find(name, entry);
  // More than 48 KiB, a kernel's static shared memory included, must be asked
  // for.
  if (sharedBytes > entry.sharedBytes) {
    check(driver().cuFuncSetAttribute(
              entry.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
              static_cast<int>(sharedBytes)),
          "giving kernel ", name, " ", sharedBytes, " bytes of shared memory");
    entry.sharedBytes = sharedBytes;
  }
  return entry.handle;
}

int Images::arch(const char *name) {
  function(name);
  return functions[name].arch;
}

} // namespace shardonnx::rt::cuda
