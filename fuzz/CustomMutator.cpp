// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How libFuzzer changes models: mostly as messages. One mutation in eight
// changes bytes all the same.

#include "ModelMutator.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <random>
#include <string>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  onnx::ModelProto model;
  if (seed % 8 == 0 || !model.ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, maxSize);
  std::minstd_rand random(seed);
  do {
    auto next = static_cast<unsigned>(random());
    if (random() % 2)
      shardonnx::fuzz::mutateMessage(model, next, LLVMFuzzerMutate);
    else
      shardonnx::fuzz::mutateGraph(model, next);
  } while (random() % 3);
  std::string bytes;
  if (!model.SerializePartialToString(&bytes) || bytes.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::copy(bytes.begin(), bytes.end(), data);
  return bytes.size();
}
