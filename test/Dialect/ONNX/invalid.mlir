// RUN: shardonnx-opt %s -verify-diagnostics -split-input-file

// expected-error @+1 {{needs either the file of its bytes or a value}}
onnx.initializer @w : tensor<4xf32>

// -----

// expected-error @+1 {{needs 16 bytes for 'tensor<4xf32>', not 15}}
onnx.initializer @w : tensor<4xf32> from "m.onnx"[0, 15]

// -----

// expected-error @+1 {{has a negative offset or length}}
onnx.initializer @w : tensor<4xf32> from "m.onnx"[-1, 16]

// -----

// expected-error @+1 {{file '../m.onnx' leaves the model's folder}}
onnx.initializer @w : tensor<4xf32> from "../m.onnx"[0, 16]

// -----

// expected-error @+1 {{file '/m.onnx' leaves the model's folder}}
onnx.initializer @w : tensor<4xf32> from "/m.onnx"[0, 16]

// -----

// expected-error @+1 {{needs a static shape}}
onnx.initializer @w : tensor<?xf32> from "m.onnx"[0, 16]

// -----

// expected-error @+1 {{has a value of another type}}
onnx.initializer @w : tensor<2xi64> = dense<1> : tensor<3xi64>

// -----

func.func @f() {
  // expected-error @+1 {{has no op type}}
  onnx.node ""() : () -> ()
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{cannot produce an absent value}}
  %0 = onnx.node "Relu"() : () -> none
  return
}
