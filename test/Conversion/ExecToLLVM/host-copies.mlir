// RUN: shardonnx-opt %s -exec-to-llvm=arch=x86-64-v3 | FileCheck %s

// A copy is its number, the buffer's address, its place in host memory and its
// bytes.
// CHECK-LABEL: llvm.func @shx_first_microbatch
// CHECK: %[[PRIVATE:.*]] = llvm.load
// CHECK: %[[COPY:.*]] = llvm.mlir.constant(3 : i64)
// CHECK: %[[PLACE:.*]] = llvm.mlir.constant(128 : i64)
// CHECK: %[[BYTES:.*]] = llvm.mlir.constant(64 : i64)
// CHECK: llvm.call @shx_offload_start(%arg0, %[[COPY]], %[[PRIVATE]], %[[PLACE]], %[[BYTES]])
// CHECK: llvm.call @shx_offload_wait(%arg0, %{{.*}}) : (!llvm.ptr, i64) -> ()
// CHECK: llvm.call @shx_reload_start(%arg0, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
// CHECK: llvm.call @shx_reload_wait(%arg0, %{{.*}}) : (!llvm.ptr, i64) -> ()
func.func @first_microbatch() {
  %a = exec.buffer private 0 : memref<16xf32>
  %b = exec.buffer private 64 : memref<16xf32>
  %h = exec.buffer host 128 : memref<16xf32>
  exec.zero %a : memref<16xf32>
  exec.offload_start 3 %a into %h : memref<16xf32>
  exec.offload_wait 3 %a : memref<16xf32>
  exec.reload_start 3 %h into %b : memref<16xf32>
  exec.reload_wait 3 %b : memref<16xf32>
  return
}
func.func @update() {
  return
}
