// RUN: shardonnx-opt %s -nn-attach-loss -split-input-file | FileCheck %s

// A quotient is the mean of the labels if its divisor is their number. One that
// counts no label, too, is still theirs.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
func.func @forward(%logits: tensor<6x8xf32>, %labels: tensor<2x3xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %flat = nn.reshape %labels : tensor<2x3xi64> -> tensor<6xi64>
  %sum = nn.cross_entropy %logits, %flat : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<f32>
  %zero = nn.constant dense<0> : tensor<i64>
  %counts = nn.compare ge %labels, %zero : (tensor<2x3xi64>, tensor<i64>) -> tensor<2x3xi1>
  %ones = nn.cast %counts : tensor<2x3xi1> -> tensor<2x3xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %some = nn.max %count, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %mean = nn.div %sum, %some : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}

// -----

// One more than their number.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "batches"} : tensor<f32>
func.func @forward(%logits: tensor<6x8xf32>, %labels: tensor<6xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %sum = nn.cross_entropy %logits, %labels : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %counts = nn.compare ne %labels, %skip : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %ones = nn.cast %counts : tensor<6xi1> -> tensor<6xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %more = nn.add %count, %one : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %mean = nn.div %sum, %more : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}

// -----

// The number of other labels: those of one class count in the sum alone.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "batches"} : tensor<f32>
func.func @forward(%logits: tensor<6x8xf32>, %labels: tensor<6xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %sum = nn.cross_entropy %logits, %labels : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %class = nn.constant dense<7> : tensor<i64>
  %false = nn.constant dense<false> : tensor<i1>
  %counts = nn.compare ne %labels, %skip : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %others = nn.compare ne %labels, %class : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %both = nn.select %others, %counts, %false : (tensor<6xi1>, tensor<6xi1>, tensor<i1>) -> tensor<6xi1>
  %ones = nn.cast %both : tensor<6xi1> -> tensor<6xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  %mean = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}

// -----

// What is a mean of labels by half is no mean.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "batches"} : tensor<f32>
func.func @forward(%logits: tensor<6x8xf32>, %labels: tensor<6xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %sum = nn.cross_entropy %logits, %labels : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %counts = nn.compare ne %labels, %skip : (tensor<6xi64>, tensor<i64>) -> tensor<6xi1>
  %ones = nn.cast %counts : tensor<6xi1> -> tensor<6xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<6xf32>) -> tensor<f32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %twice = nn.mul %count, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %mean = nn.div %sum, %twice : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}

// -----

// Every class is looked at, unless there are too many for that: then nobody
// says that it is their number.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "batches"} : tensor<f32>
func.func @forward(%logits: tensor<3x2147483648xf32>, %labels: tensor<3xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %sum = nn.cross_entropy %logits, %labels : (tensor<3x2147483648xf32>, tensor<3xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %counts = nn.compare ne %labels, %skip : (tensor<3xi64>, tensor<i64>) -> tensor<3xi1>
  %ones = nn.cast %counts : tensor<3xi1> -> tensor<3xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<f32>
  %mean = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}

// -----

// A vocabulary of today is not, even with few labels.
// CHECK-LABEL: func.func @forward(
// CHECK: nn.loss %{{.*}} {denominator = "labels", denominator_arg = 1 : i64} : tensor<f32>
func.func @forward(%logits: tensor<8x262144xf32>, %labels: tensor<8xi64> {nn.name = "labels"}) -> (tensor<f32> {nn.name = "loss"}) {
  %sum = nn.cross_entropy %logits, %labels : (tensor<8x262144xf32>, tensor<8xi64>) -> tensor<f32>
  %skip = nn.constant dense<-100> : tensor<i64>
  %counts = nn.compare ne %labels, %skip : (tensor<8xi64>, tensor<i64>) -> tensor<8xi1>
  %ones = nn.cast %counts : tensor<8xi1> -> tensor<8xf32>
  %count = nn.reduce_sum %ones {axes = array<i64: 0>} : (tensor<8xf32>) -> tensor<f32>
  %mean = nn.div %sum, %count : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %mean : tensor<f32>
}
