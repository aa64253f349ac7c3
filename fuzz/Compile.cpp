// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model of any content through whole compilations. It becomes LLVM IR that
// verifies, or it is refused with messages of one line, none of which says that
// the compiler is at fault.

#include "CompileModel.h"
#include "Scratch.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

using namespace shardonnx;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
  static fuzz::Scratch scratch;
  std::string path = scratch.write("model.onnx", bytes, size);
  std::string model(reinterpret_cast<const char *>(bytes), size);
  for (fuzz::Made made : {fuzz::Made::Training, fuzz::Made::Gradients}) {
    fuzz::Compiled result = fuzz::compileModel(path, model, made);
    if (result.complaint.empty())
      continue;
    std::fprintf(stderr, "fuzz_compile: %s: '%s'\n", result.complaint.c_str(),
                 result.messages.c_str());
    std::abort();
  }
  return 0;
}
