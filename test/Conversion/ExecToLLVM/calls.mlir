// RUN: shardonnx-opt %s -exec-to-llvm=arch=x86-64-v3 | FileCheck %s

// The descriptor of the gemm is ShxGemm's bytes: m = 4, n = 16, k = 8,
// lda = 8, ldb = 16, ldc = 16, then zeros.
// CHECK: llvm.mlir.global internal constant @[[GEMM:.*gemm.*]]("\04\00\00\00\00\00\00\00\10\00\00\00\00\00\00\00\08\00\00\00\00\00\00\00\08\00\00\00\00\00\00\00\10\00\00\00\00\00\00\00\10\00
// CHECK-SAME: alignment = 8 : i64
// CHECK: llvm.mlir.global internal constant @[[NAME:.*name.*]]("double\00")
// CHECK: llvm.mlir.global internal constant @[[TABLE:.*table.*]]("\00\00\80?\00\00\00@") {{.*}}alignment = 64

nn.parameter @w : tensor<8x16xf32> trainable {onnx_name = "w"}
fsdp.unit @a sharded f32 reduce f32 length 0 []
fsdp.unit @b sharded f32 reduce f32 length 256 [@w at 0 size 128]
exec.constant @table = dense<[1.0, 2.0]> : tensor<2xf32>
exec.kernel @double rows [4, 16] [memref<4x16xf32>, memref<4x16xf32>] {
^bb0(%x: tensor<4x16xf32>):
  %y = nn.add %x, %x : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  nn.yield %y : tensor<4x16xf32>
}

// CHECK-LABEL: llvm.func internal @double
// CHECK-LABEL: llvm.func @shx_first_microbatch(%arg0: !llvm.ptr)
// CHECK: %[[ARGS:.*]] = llvm.alloca %{{.*}} x !llvm.ptr
// CHECK: %[[PRIVATE:.*]] = llvm.load %arg0
// @b is unit 1.
// CHECK: %[[ONE:.*]] = llvm.mlir.constant(1 : i32)
// CHECK: llvm.call @shx_gather_start(%arg0, %[[ONE]])
// CHECK: llvm.call @shx_gather_wait
// CHECK: llvm.call @shx_gemm(%arg0, %{{.*}}, %{{.*}}, %{{.*}}, %[[PRIVATE]], %{{.*}})
// The sums of the epilogue are its bias; it reads no pre-activation.
// CHECK: %[[NULL:.*]] = llvm.mlir.zero
// CHECK: llvm.call @shx_gemm_epilogue(%arg0, %{{.*}}, %{{.*}}, %{{.*}}, %[[PRIVATE]], %[[SUMS:[^,]*]], %[[NULL]], %{{.*}})
// CHECK: llvm.store %[[PRIVATE]]
// CHECK: %[[KERNEL:.*]] = llvm.mlir.addressof @double
// Flat: 64 elements in chunks of 4096.
// CHECK: %[[COUNT:.*]] = llvm.mlir.constant(64 : i64)
// CHECK: %[[GRAIN:.*]] = llvm.mlir.constant(4096 : i64)
// CHECK: llvm.call @shx_launch(%arg0, %[[KERNEL]], %[[ARGS]], %[[COUNT]], %[[GRAIN]], %{{.*}})
// CHECK: llvm.call @shx_copy
// CHECK: llvm.return
// CHECK-LABEL: llvm.func @shx_update
// CHECK: %[[OPTIMIZER:.*]] = llvm.mlir.addressof @shx_optimizer_kernel
// CHECK: llvm.call @shx_optimizer(%arg0, %{{.*}}, %[[OPTIMIZER]])
// CHECK-LABEL: llvm.func internal @shx_optimizer_kernel
// CHECK: llvm.mlir.global external constant @shx_manifest({{.*}}section = ".shardonnx"
func.func @first_microbatch() {
  exec.gather_start @b
  exec.gather_wait @b
  %x = exec.buffer input 0 : memref<4x8xf32>
  %w = exec.buffer params @b 0 : memref<8x16xf32>
  %y = exec.buffer private 0 : memref<4x16xf32>
  exec.gemm %x, %w into %y : memref<4x8xf32>, memref<8x16xf32>, memref<4x16xf32>
  %s = exec.buffer private 512 : memref<16xf32>
  exec.gemm_epilogue %x, %w into %y extra %s : memref<16xf32> {epilogue = #nn<epilogue bgrad>} : memref<4x8xf32>, memref<8x16xf32>, memref<4x16xf32>
  %z = exec.buffer private 256 : memref<4x16xf32>
  exec.launch @double(%y) into (%z) : (memref<4x16xf32>) -> (memref<4x16xf32>)
  %t = exec.buffer constant @table 0 : memref<2xf32>
  %v = exec.view %z[16] : memref<4x16xf32> to memref<2xf32>
  exec.copy %t into %v : memref<2xf32>, memref<2xf32>
  exec.gather_free @b
  return
}
func.func @update() {
  exec.optimizer @b
  return
}
