// Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: not shardonnx-opt %s --exec-lower-kernels=arch=pentium9 2>&1 | FileCheck %s
// CHECK: unknown processor 'pentium9': use native

module {}
