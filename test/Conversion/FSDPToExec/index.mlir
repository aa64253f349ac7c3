// RUN: shardonnx-opt %s -fsdp-to-exec -exec-plan-memory -verify-exec -split-input-file | FileCheck %s
// GPUs get the same calls.
// RUN: shardonnx-opt %s -fsdp-to-exec=target=cuda -exec-plan-memory -verify-exec -split-input-file | FileCheck %s

// Windows of three, two apart, overlap: a view. Their sum is zeros and one
// copy for each of the three places.
// CHECK-LABEL: func.func @eval()
// CHECK: exec.zero %[[SUM:.*]] : memref<2x7xf32>
// CHECK: %[[X:.*]] = exec.buffer input 0 : memref<2x7xf32>
// CHECK: %[[FROM:.*]] = exec.view %[[X]][0] : memref<2x7xf32> to memref<2x3xf32, strided<[7, 2]>>
// CHECK: %[[TO:.*]] = exec.view %[[SUM]][0] : memref<2x7xf32> to memref<2x3xf32, strided<[7, 2]>>
// CHECK: exec.copy %[[FROM]] into %[[TO]] accumulate
// CHECK: %[[FROM:.*]] = exec.view %[[X]][1]
// CHECK: %[[TO:.*]] = exec.view %[[SUM]][1]
// CHECK: exec.copy %[[FROM]] into %[[TO]] accumulate
// CHECK: %[[FROM:.*]] = exec.view %[[X]][2]
// CHECK: %[[TO:.*]] = exec.view %[[SUM]][2]
// CHECK: exec.copy %[[FROM]] into %[[TO]] accumulate
func.func @eval(%x: tensor<2x7xf32>) {
  %w = nn.windows %x {axes = array<i64: 1>, sizes = array<i64: 3>, strides = array<i64: 2>, dilations = array<i64: 1>} : (tensor<2x7xf32>) -> tensor<2x3x3xf32>
  %s = nn.overlap_add %w {axes = array<i64: 1>, strides = array<i64: 2>, dilations = array<i64: 1>} : tensor<2x3x3xf32> -> tensor<2x7xf32>
  return
}

// -----

// Gathered from where the data lies; scattered into zeros, or a copy.
// CHECK-LABEL: func.func @eval()
// CHECK: %[[X:.*]] = exec.buffer input 0 : memref<4x3xf32>
// CHECK: %[[T:.*]] = exec.view %[[X]][0] : memref<4x3xf32> to memref<3x4xf32, strided<[1, 3]>>
// CHECK: exec.gather_elements %[[T]], %{{.*}} into %[[G:.*]] {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>}
// CHECK: exec.zero %[[Z:.*]] : memref<3x4xf32>
// CHECK: exec.scatter %{{.*}}, %[[G]] into %[[Z]] {{.*}}reduction = 1 : i64
// CHECK: exec.copy %[[Z]] into %[[M:.*]] : memref<3x4xf32>, memref<3x4xf32>
// CHECK: exec.scatter %{{.*}}, %[[G]] into %[[M]] {{.*}}reduction = 4 : i64
// CHECK: exec.top_k %[[M]] into %{{.*}}, %{{.*}} {axis = 0 : i64} : memref<3x4xf32>, memref<2x4xf32>, memref<2x4xi64>
func.func @eval(%x: tensor<4x3xf32>, %i: tensor<2x1xi64>) {
  %t = nn.transpose %x {permutation = array<i64: 1, 0>} : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %g = nn.gather %t, %i {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>} : (tensor<3x4xf32>, tensor<2x1xi64>) -> tensor<2x4xf32>
  %z = nn.scatter add %i, %g {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>} : (tensor<2x1xi64>, tensor<2x4xf32>) -> tensor<3x4xf32>
  %m = nn.scatter max %i, %g, %z {data_axes = array<i64: -1, 1>, index_axes = array<i64: 0, -1>, indexed_axes = array<i64: 0>} : (tensor<2x1xi64>, tensor<2x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %v:2 = nn.top_k %m {axis = 0 : i64, k = 2 : i64} : (tensor<3x4xf32>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
  return
}

// -----

// Rows are read at their distance, and sorted once for all products of the same
// indices; the gradient of the matrices is one call.
// CHECK-LABEL: func.func @eval()
// CHECK: %[[X:.*]] = exec.view %{{.*}}[0] : memref<5x8xf32> to memref<5x3xf32, strided<[8, 1]>>
// CHECK: exec.group_rows %{{.*}} into %[[R:.*]] {groups = 4 : i64} : memref<5xi64>, memref<10xi32>
// CHECK: exec.grouped_gemm %[[X]], %{{.*}}, %[[R]] into %[[Y:.*]] {transposed} : memref<5x3xf32, strided<[8, 1]>>, memref<4x2x3xf32>, memref<10xi32>, memref<5x2xf32>
// CHECK-NOT: exec.group_rows
// CHECK: exec.grouped_gemm_grad %[[Y]], %[[X]], %[[R]] into %{{.*}} : {{.*}}, memref<4x2x3xf32>
func.func @eval(%all: tensor<5x8xf32>, %w: tensor<4x2x3xf32>, %i: tensor<5xi64>) {
  %x = nn.slice %all {offsets = array<i64: 0, 0>, sizes = array<i64: 5, 3>} : (tensor<5x8xf32>) -> tensor<5x3xf32>
  %y = nn.grouped_matmul %x, %w, %i {transposed} : (tensor<5x3xf32>, tensor<4x2x3xf32>, tensor<5xi64>) -> tensor<5x2xf32>
  %dw = nn.grouped_matmul_grad %y, %x, %i : (tensor<5x2xf32>, tensor<5x3xf32>, tensor<5xi64>) -> tensor<4x2x3xf32>
  return
}
