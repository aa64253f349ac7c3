// RUN: shardonnx-opt %s -nn-cse-across-modules | FileCheck %s
// RUN: shardonnx-opt %s -cse | FileCheck %s --check-prefix=APART

// What two modules compute alike is the first one's.
// CHECK-LABEL: func.func @mask
// CHECK-NEXT: %[[MASK:.*]] = nn.exp %arg0 {place = #nn.place<"h.0">}
// CHECK-NEXT: nn.neg %[[MASK]] {place = #nn.place<"h.0">}
// CHECK-NEXT: nn.sin %[[MASK]] {place = #nn.place<"h.1">}
// CHECK-NEXT: return
// APART-COUNT-2: nn.exp
func.func @mask(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.exp %x {place = #nn.place<"h.0">} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.neg %0 {place = #nn.place<"h.0">} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nn.exp %x {place = #nn.place<"h.1">} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nn.sin %2 {place = #nn.place<"h.1">} : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %3 : tensor<4xf32>, tensor<4xf32>
}
