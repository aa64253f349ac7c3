// RUN: shardonnx-opt %s -exec-to-llvm=arch=x86-64-v3 | FileCheck %s

// ShxCumSum begins with the dims of the lines and ends with how many there are,
// f32's number, not exclusive, reverse.
// CHECK: llvm.mlir.global internal constant @[[D:.*cumsum.*]]("\02\00\00\00\00\00\00\00\00
// CHECK-SAME: \01\00\00\00\00\00\00\00\00\00\00\00\01\00\00\00")
fsdp.unit @a sharded f32 reduce f32 length 0 []

// CHECK-LABEL: llvm.func @shx_first_microbatch
// CHECK: %[[DESC:.*]] = llvm.mlir.addressof @[[D]]
// CHECK: llvm.call @shx_cumsum(%arg0, %[[DESC]], %{{.*}}, %{{.*}})
func.func @first_microbatch() {
  %x = exec.buffer input 0 : memref<2x4xf32>
  %y = exec.buffer private 0 : memref<2x4xf32>
  exec.cumsum %x into %y {axis = 1 : i64, reverse} : memref<2x4xf32>, memref<2x4xf32>
  return
}
func.func @next_microbatch() {
  return
}
func.func @update() {
  return
}
func.func @eval() {
  return
}
