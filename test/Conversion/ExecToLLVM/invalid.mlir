// RUN: shardonnx-opt %s -exec-to-llvm=arch=x86-64-v3 -split-input-file -verify-diagnostics
// RUN: not shardonnx-opt %s -split-input-file -exec-to-llvm=arch=pentium4 2>&1 | FileCheck %s --check-prefix=ARCH
// ARCH: processor 'pentium4' has no AVX2

func.func @first_microbatch() {
  // expected-error @+1 {{has no lowering: run exec-plan-memory first}}
  %0 = exec.alloc : memref<4xf32>
  return
}

// -----

// expected-error @+1 {{is no function of a step}}
func.func @other() {
  return
}
