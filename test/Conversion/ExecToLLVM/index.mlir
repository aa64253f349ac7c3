// RUN: shardonnx-opt %s -exec-to-llvm=arch=x86-64-v3 | FileCheck %s

// ShxIndexing begins with the dims of the values, 2 and 4; the data's strides
// are 0 (the indices say where) and 1. The message about an index outside
// names the node.
// CHECK: llvm.mlir.global internal constant @[[D:.*indexing.*]]("\02\00\00\00\00\00\00\00\04\00\00\00\00\00\00\00
// CHECK: llvm.mlir.global internal constant @[[NAME:.*name.*]]("node 'g' (Gather)\00")
fsdp.unit @a sharded f32 reduce f32 length 0 []

// CHECK-LABEL: llvm.func @shx_first_microbatch
// CHECK: %[[WHAT:.*]] = llvm.mlir.addressof @[[NAME]]
// CHECK: llvm.call @shx_gather(%arg0, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %[[WHAT]])
// CHECK: llvm.call @shx_scatter(
// CHECK: llvm.call @shx_top_k(
// CHECK: llvm.call @shx_group_rows(%arg0, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK: llvm.call @shx_grouped_gemm(
// CHECK: llvm.call @shx_grouped_gemm_grad(
func.func @first_microbatch() {
  %x = exec.buffer input 0 : memref<3x4xf32>
  %i = exec.buffer input 1 : memref<2x1xi64>
  %g = exec.buffer private 0 : memref<2x4xf32>
  exec.gather_elements %x, %i into %g {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>} : memref<3x4xf32>, memref<2x1xi64>, memref<2x4xf32> loc(fused<{node = "g", op = "Gather"}>["g"])
  %s = exec.buffer private 64 : memref<3x4xf32>
  exec.zero %s : memref<3x4xf32>
  exec.scatter %i, %g into %s {reduction = 1 : i64, data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>} : memref<2x1xi64>, memref<2x4xf32>, memref<3x4xf32>
  %v = exec.buffer private 128 : memref<1x4xf32>
  %k = exec.buffer private 192 : memref<1x4xi64>
  exec.top_k %s into %v, %k {axis = 0 : i64} : memref<3x4xf32>, memref<1x4xf32>, memref<1x4xi64>
  %r = exec.buffer input 2 : memref<2x4xf32>
  %m = exec.buffer input 3 : memref<5x4x3xf32>
  %n = exec.buffer input 4 : memref<2xi64>
  %y = exec.buffer private 256 : memref<2x3xf32>
  %o = exec.buffer private 384 : memref<8xi32>
  exec.group_rows %n into %o {groups = 5 : i64} : memref<2xi64>, memref<8xi32>
  exec.grouped_gemm %r, %m, %o into %y : memref<2x4xf32>, memref<5x4x3xf32>, memref<8xi32>, memref<2x3xf32>
  %d = exec.buffer private 320 : memref<5x4x3xf32>
  exec.grouped_gemm_grad %r, %y, %o into %d : memref<2x4xf32>, memref<2x3xf32>, memref<8xi32>, memref<5x4x3xf32>
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
