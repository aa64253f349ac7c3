// RUN: shardonnx-opt %s -exec-plan-memory -exec-print-plan -o /dev/null | FileCheck %s
// RUN: shardonnx-opt %s -exec-plan-memory -exec-print-plan=json=true -o /dev/null | FileCheck %s --check-prefix=JSON

// %0 (4096 bytes) and %1 (1024) live together at the copy between them; then
// %2 (2048) takes the place of %0. A unit of 256 f32 is 1024 bytes.
// CHECK: private: 5120 bytes, lower bound 5120 (1.000)
// CHECK-NEXT: at the peak, in first_microbatch (exec.copy):
// CHECK-NEXT: 4096 bytes at {{.*}} memref<1024xf32>
// CHECK-NEXT: 1024 bytes at {{.*}} memref<256xf32>
// CHECK-NEXT: params: 1024 bytes, lower bound 1024 (1.000)
// CHECK-NEXT: at the peak, in first_microbatch (exec.gather_start):
// CHECK-NEXT: 1024 bytes at {{ *}}0 b

// Units are counted in the order of the module: @b is the second.
// JSON:      "functions": [
// JSON:      "op": "gather_start",
// JSON-NEXT: "unit": 1
// JSON:      "op": "gather_wait",
// JSON:      "op": "gather_free",
// JSON:      "name": "first_microbatch"
// JSON:      "op": "clip_grad_norm"
// JSON-NEXT: }
// JSON:      "op": "optimizer",
// JSON-NEXT: "unit": 0
// JSON:      "name": "update"
// JSON:      "gather": {
// JSON-NEXT: "bytes": 1024,
// JSON:      "private": {
// JSON:      "lower_bound_bytes": 5120,
// JSON-NEXT: "peak_at": "first_microbatch (exec.copy)"
fsdp.unit @a sharded f32 reduce f32 length 256 []
fsdp.unit @b sharded f32 reduce f32 length 256 []
func.func @first_microbatch() {
  exec.gather_start @b
  exec.gather_wait @b
  exec.gather_free @b
  %0 = exec.alloc : memref<1024xf32>
  exec.zero %0 : memref<1024xf32>
  %1 = exec.alloc : memref<256xf32>
  %3 = exec.view %0[0] : memref<1024xf32> to memref<256xf32>
  exec.copy %3 into %1 : memref<256xf32>, memref<256xf32>
  %2 = exec.alloc : memref<512xf32>
  exec.zero %2 : memref<512xf32>
  exec.zero %1 : memref<256xf32>
  return
}
func.func @update() {
  exec.clip_grad_norm
  exec.optimizer @a
  return
}
