// RUN: shardonnx-opt %s -fsdp-make-units -fsdp-gather | FileCheck %s

nn.parameter @a.w : tensor<8x8xf32> {onnx_name = "a.w", place = #nn.place<@a>}
nn.parameter @a.s : tensor<8xf32> {onnx_name = "a.s", place = #nn.place<@a>}
nn.parameter @b.w : tensor<8x8xf32> {onnx_name = "b.w", place = #nn.place<@b>}

// CHECK-LABEL: func.func @eval
func.func @eval(%x: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %w = nn.get @a.w : tensor<8x8xbf16>
  %s = nn.get @a.s : tensor<8xf32>
  %v = nn.get @b.w : tensor<8x8xbf16>
  // The unit is gathered in f32, its widest reader's type: a narrower view is a
  // cast.
  // CHECK:      %[[A:.*]] = fsdp.all_gather @a
  // CHECK-NEXT: %[[W:.*]] = fsdp.view %[[A]][@a.w] : tensor<8x8xf32>
  // CHECK-NEXT: %[[N:.*]] = nn.cast %[[W]] {place = #nn.place<@a>} : tensor<8x8xf32> -> tensor<8x8xbf16>
  // CHECK-NEXT: %[[S:.*]] = fsdp.view %[[A]][@a.s] : tensor<8xf32>
  // CHECK-NEXT: nn.matmul %{{.*}}, %[[N]]
  %0 = nn.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  // CHECK-NEXT: nn.cast
  // CHECK-NEXT: nn.mul %{{.*}}, %[[S]]
  // CHECK-NEXT: fsdp.free %[[A]]
  %1 = nn.cast %0 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %2 = nn.mul %1, %s : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %3 = nn.cast %2 : tensor<4x8xf32> -> tensor<4x8xbf16>
  // A transpose may lie in the unit's memory: free behind its reader.
  // CHECK:      %[[B:.*]] = fsdp.all_gather @b
  // CHECK-NEXT: %[[V:.*]] = fsdp.view %[[B]][@b.w] : tensor<8x8xbf16>
  // CHECK-NEXT: %[[T:.*]] = nn.transpose %[[V]]
  // CHECK-NEXT: nn.matmul %{{.*}}, %[[T]]
  // CHECK-NEXT: fsdp.free %[[B]]
  %t = nn.transpose %v {permutation = array<i64: 1, 0>} : (tensor<8x8xbf16>) -> tensor<8x8xbf16>
  %4 = nn.matmul %3, %t : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  return %4 : tensor<4x8xbf16>
}
