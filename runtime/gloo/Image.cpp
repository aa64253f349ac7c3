// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// See Image.h. SHX_GLOO_LIBRARY is the library's path when this is built; the
// executable needs no file of ours, but libgloo.so.0 of the system.

#include "Image.h"
#include "../support/Error.h"
#include "../support/Mapping.h"
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

asm(".section .rodata.shx_gloo_image, \"a\"\n"
    ".balign 16\n"
    ".globl shx_gloo_image, shx_gloo_image_end\n"
    "shx_gloo_image:\n"
    ".incbin \"" SHX_GLOO_LIBRARY "\"\n"
    "shx_gloo_image_end:\n"
    ".text\n");

extern "C" const char shx_gloo_image[], shx_gloo_image_end[];

namespace shardonnx::rt {

const ShxGlooFunctions &loadGloo() {
  static const ShxGlooFunctions *functions = nullptr;
  if (functions)
    return *functions;
  FileDescriptor file(::memfd_create("libshardonnx_gloo", MFD_CLOEXEC));
  const char *at = shx_gloo_image;
  while (file && at < shx_gloo_image_end) {
    ssize_t n =
        ::write(file.get(), at, static_cast<size_t>(shx_gloo_image_end - at));
    if (n <= 0)
      fail("cannot unpack the library for Gloo: ", systemError());
    at += n;
  }
  void *library = ::dlopen(concat("/proc/self/fd/", file.get()).c_str(),
                           RTLD_NOW | RTLD_LOCAL);
  void *symbol = library ? ::dlsym(library, "shx_gloo") : nullptr;
  if (!symbol)
    fail("the ranks are on several machines and this one has no Gloo for the "
         "way between them (",
         ::dlerror(), "): install libgloo0 (apt install libgloo0)");
  functions = reinterpret_cast<const ShxGlooFunctions *(*)()>(symbol)();
  return *functions;
}

} // namespace shardonnx::rt
