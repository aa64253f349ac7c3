// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=block | FileCheck %s
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=block -cse | FileCheck %s
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute | FileCheck %s --check-prefix=NONE
// RUN: shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=every:2 | FileCheck %s --check-prefix=EVERY
// RUN: not shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=every:0 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=all 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shardonnx-opt %S/Inputs/two-blocks.mlir -fsdp-recompute=recompute=budget:1GB 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: sed 's/^module {/module attributes {fsdp.recompute_plan = {h.0 = "block"}} {/' %S/Inputs/two-blocks.mlir \
// RUN:   | shardonnx-opt -fsdp-recompute=recompute=block | FileCheck %s --check-prefix=PLAN

// ZERO: --recompute: 'every:0': every: wants a positive number of blocks
// WORD: --recompute: 'all' is not one of none|block|every:N|selective|budget:BYTES
// BUDGET: --recompute: 'budget:1GB': a budget comes as a plan in 'fsdp.recompute_plan'

// The second of two blocks.
// EVERY:     fsdp.recompute_plan = {h.1 = "block"}
// EVERY:     {place = #nn.place<@h.1, recompute>}
// EVERY-NOT: {place = #nn.place<@h.0, recompute>}

// A plan that stands there is kept.
// PLAN:     fsdp.recompute_plan = {h.0 = "block"}
// PLAN-NOT: {place = #nn.place<@h.1, recompute>}
// PLAN:     {place = #nn.place<@h.0, recompute>}

// NONE-NOT: recompute>

// CHECK-LABEL: func.func @microbatch
// CHECK:         %[[X0:.*]] = nn.embedding
// CHECK:         %[[X1:.*]] = nn.add %[[X0]]
// CHECK:         %[[X2:.*]] = nn.add %[[X1]]
// Only what backward reads is computed again: the relu's argument, not the relu
// nor the residual sum; from the block's input; before the block's backward.
// CHECK:         %[[DX2:.*]] = nn.matmul {{.*}}transpose_rhs
// CHECK:         %[[M1:.*]] = nn.matmul %[[X1]], %{{.*}} {place = #nn.place<@h.1, recompute>}
// CHECK-NEXT:    %[[A1:.*]] = nn.add %[[M1]], %{{.*}} {place = #nn.place<@h.1, recompute>}
// CHECK-NEXT:    nn.compare gt %[[A1]]
// CHECK:         %[[M0:.*]] = nn.matmul %[[X0]], %{{.*}} {place = #nn.place<@h.0, recompute>}
// CHECK-NEXT:    %[[A0:.*]] = nn.add %[[M0]], %{{.*}} {place = #nn.place<@h.0, recompute>}
// CHECK-NEXT:    nn.compare gt %[[A0]]
// CHECK-NOT:     recompute>
