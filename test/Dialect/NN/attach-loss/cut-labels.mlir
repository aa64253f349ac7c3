// RUN: shardonnx-opt %s -nn-attach-loss -split-input-file | FileCheck %s

// A mean over other labels than all that the data holds is not divided by the
// number of these: the last one of each sample is left out.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "batches"} : tensor<f32>
func.func @forward(%logits: tensor<6x8xf32>, %labels: tensor<2x4xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %cut = nn.slice %labels {offsets = array<i64: 0, 0>, sizes = array<i64: 2, 3>} : (tensor<2x4xi64>) -> tensor<2x3xi64>
  %flat = nn.reshape %cut : tensor<2x3xi64> -> tensor<6xi64>
  %sum = nn.cross_entropy %logits, %flat : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %counts = nn.compare ne %flat, %skip : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %ones = nn.cast %counts : tensor<6xi1> -> tensor<6xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  %mean = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}

// -----

// The first label of the batch alone is left out.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "batches"} : tensor<f32>
func.func @forward(%logits: tensor<7x8xf32>, %labels: tensor<2x4xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %flat = nn.reshape %labels : tensor<2x4xi64> -> tensor<8xi64>
  %cut = nn.slice %flat {offsets = array<i64: 1>, sizes = array<i64: 7>} : (tensor<8xi64>) -> tensor<7xi64>
  %sum = nn.cross_entropy %logits, %cut : (tensor<7x8xf32>, tensor<7xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %counts = nn.compare ne %cut, %skip : (tensor<7xi64>, tensor<i64>) -> tensor<7xi1>
  %ones = nn.cast %counts : tensor<7xi1> -> tensor<7xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<7xf32>) -> tensor<f32>
  %mean = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}

// -----

// Each label twice.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "batches"} : tensor<f32>
func.func @forward(%logits: tensor<8x8xf32>, %labels: tensor<4xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %twice = nn.concat %labels, %labels {axis = 0 : i64} : (tensor<4xi64>, tensor<4xi64>) -> tensor<8xi64>
  %sum = nn.cross_entropy %logits, %twice : (tensor<8x8xf32>, tensor<8xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %counts = nn.compare ne %twice, %skip : (tensor<8xi64>, tensor<i64>) -> tensor<8xi1>
  %ones = nn.cast %counts : tensor<8xi1> -> tensor<8xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %mean = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}
