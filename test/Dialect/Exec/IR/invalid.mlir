// RUN: shardonnx-opt %s -split-input-file -verify-diagnostics

func.func @f() {
  // expected-error @+1 {{needs the symbol of its unit or constant}}
  %0 = exec.buffer params 0 : memref<4xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{of this space has no symbol}}
  %0 = exec.buffer private @u 0 : memref<4xf32>
  return
}

// -----

func.func @f() {
  %0 = exec.alloc : memref<4x8xf32>
  // From 5 on, three rows of 8 and one of 4: the last element is 5 + 27.
  // expected-error @+1 {{reaches element 32 of a source of 32}}
  %1 = exec.view %0[5] : memref<4x8xf32> to memref<4x4xf32, strided<[8, 1]>>
  return
}

// -----

func.func @f() {
  %0 = exec.alloc : memref<4x8x2xf32>
  %v = exec.view %0[0] : memref<4x8x2xf32> to memref<4x8xf32, strided<[16, 2]>>
  %c = exec.alloc : memref<4x4xf32>
  %b = exec.alloc : memref<8x4xf32>
  // expected-error @+1 {{lhs must be contiguous along a matrix axis}}
  exec.gemm %v, %b into %c : memref<4x8xf32, strided<[16, 2]>>, memref<8x4xf32>, memref<4x4xf32>
  return
}

// -----

func.func @f() {
  %a = exec.alloc : memref<4x8xf32>
  %c = exec.alloc : memref<4x4xf32>
  // expected-error @+1 {{shapes do not multiply}}
  exec.gemm %a, %a into %c : memref<4x8xf32>, memref<4x8xf32>, memref<4x4xf32>
  return
}

// -----

exec.kernel @k rows [4, 8] [memref<4x8xf32>, memref<4x8xf32>] {
^bb0(%x: tensor<4x8xf32>):
  nn.yield %x : tensor<4x8xf32>
}
func.func @f() {
  %a = exec.alloc : memref<4x8xf32>
  %t = exec.view %a[0] : memref<4x8xf32> to memref<8x4xf32, strided<[1, 8]>>
  // expected-error @+1 {{operand #1 is 'memref<8x4xf32, strided<[1, 8]>>', the kernel takes 'memref<4x8xf32>'}}
  exec.launch @k(%a) into (%t) : (memref<4x8xf32>) -> (memref<8x4xf32, strided<[1, 8]>>)
  return
}

// -----

// expected-error @+1 {{operand type #1 is 'memref<8x4xf32>' for a 'tensor<4x8xf32>'}}
exec.kernel @k rows [4, 8] [memref<4x8xf32>, memref<8x4xf32>] {
^bb0(%x: tensor<4x8xf32>):
  nn.yield %x : tensor<4x8xf32>
}

// -----

func.func @f() {
  %0 = exec.alloc : memref<4xf32>
  // expected-error @+1 {{no exec.kernel @missing}}
  exec.launch @missing(%0) into (%0) : (memref<4xf32>) -> (memref<4xf32>)
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{no fsdp.unit @u}}
  exec.gather_start @u
  return
}

// -----

func.func @f() {
  %a = exec.alloc : memref<4x8xf32>
  %b = exec.alloc : memref<8x8xf32>
  %s = exec.alloc : memref<4xf32>
  // expected-error @+1 {{side is not what the epilogue reads}}
  exec.gemm_epilogue %a, %b side %s : memref<4xf32> into %a {epilogue = #nn<epilogue bias>} : memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>
  return
}

// -----

func.func @f() {
  %a = exec.alloc : memref<4x8xf32>
  %b = exec.alloc : memref<8x8xf32>
  // expected-error @+1 {{extra is not what the epilogue writes}}
  exec.gemm_epilogue %a, %b into %a {epilogue = #nn<epilogue bgrad>} : memref<4x8xf32>, memref<8x8xf32>, memref<4x8xf32>
  return
}

// -----

func.func @f() {
  %0 = exec.alloc : memref<64xf32>
  %1 = exec.alloc : memref<64xf32>
  // expected-error @+1 {{needs a host buffer of its copy}}
  exec.offload_start 0 %0 into %1 : memref<64xf32>
  return
}

// -----

func.func @f() {
  %0 = exec.buffer input 0 : memref<64xf32>
  %1 = exec.alloc host : memref<64xf32>
  // expected-error @+1 {{copies a buffer that is not private}}
  exec.reload_start 0 %1 into %0 : memref<64xf32>
  return
}
