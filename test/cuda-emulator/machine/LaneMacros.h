// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Handlers of instructions that compute each lane by itself: an expression of
// a, b and c, in a function template over T whose argument n names the type.

#ifndef SHARDONNX_TEST_CUDAEMULATOR_LANEMACROS_H
#define SHARDONNX_TEST_CUDAEMULATOR_LANEMACROS_H

#include "Handlers.h"

#define UNARY(name, expression)                                                \
  table.add<T, T>(std::string(name) + "." + n, [](Warp &w, const Instr &i) {   \
    map1<T, T>(w, i, [](T a) { return static_cast<T>(expression); });          \
  })
#define BINARY(name, expression)                                               \
  table.add<T, T, T>(std::string(name) + "." + n, [](Warp &w,                  \
                                                     const Instr &i) {         \
    map2<T, T, T>(w, i, [](T a, T b) { return static_cast<T>(expression); });  \
  })
#define TERNARY(name, expression)                                              \
  table.add<T, T, T, T>(std::string(name) + "." + n,                           \
                        [](Warp &w, const Instr &i) {                          \
                          map3<T, T, T, T>(w, i, [](T a, T b, T c) {           \
                            return static_cast<T>(expression);                 \
                          });                                                  \
                        })

#endif // SHARDONNX_TEST_CUDAEMULATOR_LANEMACROS_H
