// RUN: shardonnx-opt %s -split-input-file \
// RUN:   -exec-offload-activations="flops-per-second=1 bytes-per-second=1024 host-bytes-per-second=1024 copy-seconds=0" \
// RUN:   | FileCheck %s
// RUN: shardonnx-opt %s -split-input-file \
// RUN:   -exec-offload-activations="flops-per-second=1 bytes-per-second=1024 host-bytes-per-second=1024 copy-seconds=0" \
// RUN:   -exec-plan-memory -verify-exec | FileCheck %s --check-prefix=PLAN
// RUN: shardonnx-opt %s -split-input-file \
// RUN:   -exec-offload-activations="flops-per-second=1 bytes-per-second=1024 host-bytes-per-second=64 copy-seconds=0" \
// RUN:   | FileCheck %s --check-prefix=SLOW
// RUN: shardonnx-opt %s -split-input-file -exec-plan-memory | FileCheck %s --check-prefix=NONE

// Each buffer has 1024 bytes, which cross to the host in a second. So an
// exec.zero takes a second, and an exec.copy two.
//
//   0 x0   1 f0   3 f1   5 f2   7 f3   9 b3   11 b2   13 b1   15 b0
//
// x0 leaves from 3 to 4, so f2 may have its memory. It comes back from 14 to
// 15, so its copy begins before b1. x1 leaves from 5 to 6 and comes back from
// 12 to 13. x2 would have left at 8, which is before b3, and has to come back
// from 10 on: nobody would have its memory meanwhile. x3 is needed at once.
//
// f2 and f3 then have three buffers each: what they read and write, and the one
// that is leaving; b2 and b1 likewise.
// PLAN: exec.space host bytes 2048 lower_bound 2048
// PLAN: exec.space private bytes 3072 lower_bound 3072
// NONE: exec.space private bytes 5120 lower_bound 5120
// NONE-NOT: exec.space host
// CHECK-LABEL: @first_microbatch
func.func @first_microbatch() {
  // CHECK: %[[X0:.*]] = exec.alloc : memref<256xf32>
  %x0 = exec.alloc : memref<256xf32>
  // CHECK: %[[X1:.*]] = exec.alloc : memref<256xf32>
  %x1 = exec.alloc : memref<256xf32>
  // CHECK: %[[X2:.*]] = exec.alloc : memref<256xf32>
  %x2 = exec.alloc : memref<256xf32>
  // CHECK: exec.alloc : memref<256xf32>
  %x3 = exec.alloc : memref<256xf32>
  // CHECK: exec.alloc : memref<256xf32>
  %x4 = exec.alloc : memref<256xf32>
  // CHECK: %[[G:.*]] = exec.alloc : memref<256xf32>
  // CHECK: exec.zero %[[X0]]
  %g = exec.alloc : memref<256xf32>
  exec.zero %x0 : memref<256xf32> loc(#root)
  // CHECK: exec.copy %[[X0]] into %[[X1]]
  exec.copy %x0 into %x1 : memref<256xf32>, memref<256xf32> loc(#f0)
  // CHECK-NEXT: %[[H0:.*]] = exec.alloc host : memref<256xf32>
  // CHECK-NEXT: exec.offload_start 0 %[[X0]] into %[[H0]] : memref<256xf32>
  // CHECK-NEXT: exec.copy %[[X1]] into %[[X2]]
  exec.copy %x1 into %x2 : memref<256xf32>, memref<256xf32> loc(#f1)
  // CHECK-NEXT: %[[H1:.*]] = exec.alloc host : memref<256xf32>
  // CHECK-NEXT: exec.offload_start 1 %[[X1]] into %[[H1]] : memref<256xf32>
  // CHECK-NEXT: exec.offload_wait 0 %[[X0]] : memref<256xf32>
  // CHECK-NEXT: exec.copy %[[X2]] into
  exec.copy %x2 into %x3 : memref<256xf32>, memref<256xf32> loc(#f2)
  // CHECK-NEXT: exec.offload_wait 1 %[[X1]] : memref<256xf32>
  // CHECK-NEXT: exec.copy
  exec.copy %x3 into %x4 : memref<256xf32>, memref<256xf32> loc(#f3)
  // CHECK-NEXT: exec.copy
  exec.copy %x3 into %g : memref<256xf32>, memref<256xf32> loc(#b3)
  // CHECK-NEXT: %[[Y1:.*]] = exec.alloc : memref<256xf32>
  // CHECK-NEXT: exec.reload_start 1 %[[H1]] into %[[Y1]] : memref<256xf32>
  // CHECK-NEXT: exec.copy %[[X2]] into %[[G]]
  exec.copy %x2 into %g : memref<256xf32>, memref<256xf32> loc(#b2)
  // CHECK-NEXT: %[[Y0:.*]] = exec.alloc : memref<256xf32>
  // CHECK-NEXT: exec.reload_start 0 %[[H0]] into %[[Y0]] : memref<256xf32>
  // CHECK-NEXT: exec.reload_wait 1 %[[Y1]] : memref<256xf32>
  // CHECK-NEXT: exec.copy %[[Y1]] into %[[G]]
  exec.copy %x1 into %g : memref<256xf32>, memref<256xf32> loc(#b1)
  // CHECK-NEXT: exec.reload_wait 0 %[[Y0]] : memref<256xf32>
  // CHECK-NEXT: exec.copy %[[Y0]] into %[[G]]
  exec.copy %x0 into %g : memref<256xf32>, memref<256xf32> loc(#b0)
  return
}

#root = loc(fused<#nn.place<@root>>["x"])
#f0 = loc(fused<#nn.place<@h.0>>["f0"])
#f1 = loc(fused<#nn.place<@h.1>>["f1"])
#f2 = loc(fused<#nn.place<@h.2>>["f2"])
#f3 = loc(fused<#nn.place<@h.3>>["f3"])
#b3 = loc(fused<#nn.place<@h.3, backward>>["b3"])
#b2 = loc(fused<#nn.place<@h.2, backward>>["b2"])
#b1 = loc(fused<#nn.place<@h.1, backward>>["b1"])
#b0 = loc(fused<#nn.place<@h.0, backward>>["b0"])

// -----

// What a unit keeps for itself leaves where no copy has the step wait: here it
// has left at 3, before the 3 of f1's end, and at 64 bytes a second at 18. It
// is read through a view, which the buffer that has come back then has, too.
// Views that nobody reads any more are gone.
// SLOW-LABEL: @next_microbatch
// SLOW-NOT: exec.offload_start
// CHECK-LABEL: @next_microbatch
func.func @next_microbatch() {
  // CHECK: %[[S:.*]] = exec.alloc : memref<2x128xf32>
  %s = exec.alloc : memref<2x128xf32>
  %a = exec.alloc : memref<256xf32>
  %g = exec.alloc : memref<128xf32>
  // CHECK-NOT: exec.view
  %v = exec.view %s[128] : memref<2x128xf32> to memref<128xf32>
  // CHECK: exec.zero %[[S]]
  exec.zero %s : memref<2x128xf32> loc(#s)
  // CHECK: exec.offload_start 0 %[[S]]
  exec.zero %a : memref<256xf32> loc(#t)
  exec.zero %a : memref<256xf32> loc(#t)
  // CHECK: exec.offload_wait 0 %[[S]]
  exec.zero %a : memref<256xf32> loc(#u)
  exec.zero %a : memref<256xf32> loc(#u)
  // CHECK: exec.reload_start 0 %{{.*}} into %[[T:.*]] : memref<2x128xf32>
  exec.zero %a : memref<256xf32> loc(#u)
  // CHECK: exec.reload_wait 0 %[[T]]
  // CHECK: %[[V:.*]] = exec.view %[[T]][128] : memref<2x128xf32> to memref<128xf32>
  // CHECK: exec.copy %[[V]] into
  exec.copy %v into %g : memref<128xf32>, memref<128xf32> loc(#w)
  return
}

#s = loc(fused<#nn.place<@h.0>>["s"])
#t = loc(fused<#nn.place<@h.1>>["t"])
#u = loc(fused<#nn.place<@h.1, backward>>["u"])
#w = loc(fused<#nn.place<@h.0, backward>>["w"])

// -----

// A function without backward keeps nothing.
// CHECK-LABEL: @eval
// CHECK-NOT: exec.offload_start
func.func @eval() {
  %a = exec.alloc : memref<256xf32>
  exec.zero %a : memref<256xf32> loc(#e)
  exec.copy %a into %a : memref<256xf32>, memref<256xf32> loc(#e)
  return
}

#e = loc(fused<#nn.place<@h.0>>["e"])

// -----

// Where no input has to wait, it may stand in the queue behind what is larger:
// k leaves from 8 to 16, and x1, which f1 has done with at 11, from 16 to 17.
// That is before backward begins at 18.
// SLOW-LABEL: @first_microbatch
// CHECK-LABEL: @first_microbatch
func.func @first_microbatch() {
  // CHECK: %[[K:.*]] = exec.alloc : memref<2048xf32>
  %k = exec.alloc : memref<2048xf32>
  // CHECK: %[[X1:.*]] = exec.alloc : memref<256xf32>
  %x1 = exec.alloc : memref<256xf32>
  %a = exec.alloc : memref<256xf32>
  %b = exec.alloc : memref<2048xf32>
  exec.zero %k : memref<2048xf32> loc(#k0)
  // CHECK: exec.offload_start 0 %[[K]]
  exec.zero %x1 : memref<256xf32> loc(#k0)
  exec.copy %x1 into %a : memref<256xf32>, memref<256xf32> loc(#k1)
  // CHECK: exec.offload_start 1 %[[X1]]
  // CHECK-NEXT: exec.copy
  exec.copy %a into %a : memref<256xf32>, memref<256xf32> loc(#k2)
  // CHECK-NEXT: exec.zero
  exec.zero %a : memref<256xf32> loc(#k3)
  // CHECK-NEXT: exec.zero
  exec.zero %a : memref<256xf32> loc(#k3)
  // CHECK-NEXT: exec.zero
  exec.zero %a : memref<256xf32> loc(#k3)
  // CHECK-NEXT: exec.offload_wait 0 %[[K]]
  // CHECK-NEXT: exec.zero
  exec.zero %a : memref<256xf32> loc(#k3)
  // CHECK-NEXT: exec.offload_wait 1 %[[X1]]
  // CHECK-NEXT: exec.zero
  exec.zero %a : memref<256xf32> loc(#k3)
  exec.zero %b : memref<2048xf32> loc(#l3)
  exec.copy %x1 into %a : memref<256xf32>, memref<256xf32> loc(#l1)
  exec.copy %k into %b : memref<2048xf32>, memref<2048xf32> loc(#l0)
  return
}

#k0 = loc(fused<#nn.place<@h.0>>["k0"])
#k1 = loc(fused<#nn.place<@h.1>>["k1"])
#k2 = loc(fused<#nn.place<@h.2>>["k2"])
#k3 = loc(fused<#nn.place<@h.3>>["k3"])
#l3 = loc(fused<#nn.place<@h.3, backward>>["l3"])
#l1 = loc(fused<#nn.place<@h.1, backward>>["l1"])
#l0 = loc(fused<#nn.place<@h.0, backward>>["l0"])
