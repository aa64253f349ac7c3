// What the module's fsdp.recompute_plan allows beside elementwise ops.
// RUN: shardonnx-opt %S/Inputs/row-sums.mlir -nn-recompute | FileCheck %s --check-prefix=NONE
// RUN: sed 's/module {/module attributes {fsdp.recompute_plan = {h.0 = "selective"}} {/' %S/Inputs/row-sums.mlir \
// RUN:   | shardonnx-opt -nn-recompute | FileCheck %s --check-prefix=SELECTIVE
// RUN: sed 's/module {/module attributes {fsdp.recompute_plan = {h.0 = 4}} {/' %S/Inputs/row-sums.mlir \
// RUN:   | shardonnx-opt -nn-recompute | FileCheck %s --check-prefix=SELECTIVE
// RUN: sed 's/module {/module attributes {fsdp.recompute_plan = {h.0 = 5}} {/' %S/Inputs/row-sums.mlir \
// RUN:   | shardonnx-opt -nn-recompute | FileCheck %s --check-prefix=PRICE

// Row sums are kept: a reduction is no elementwise op.
// NONE:      nn.loss_scale
// NONE-NOT:  nn.reduce_sum {{.*}} recompute>
// NONE-NOT:  nn.matmul {{.*}} {place = #nn.place<{{.*}}recompute>

// Selective: of the product and the 16 bytes of its row sums, the product is
// kept and the sums are taken again.
// SELECTIVE:     %[[M:.*]] = nn.matmul %arg0
// SELECTIVE:     nn.loss_scale
// SELECTIVE-NOT: nn.matmul {{.*}} {place = #nn.place<{{.*}}recompute>
// SELECTIVE:     nn.reduce_sum %[[M]] {axes = array<i64: 1>, {{.*}}recompute>

// The product takes 2·4·8·8 = 512 FLOPs and leaves 4·8·4 = 128 bytes: 4 FLOPs a
// byte. At a price of 4 it is kept, at 5 it is computed again from the input.
// PRICE: nn.loss_scale
// PRICE: %[[M:.*]] = nn.matmul %arg0, %{{.*}} {place = #nn.place<@h.0, recompute>}
// PRICE: nn.reduce_sum %[[M]] {axes = array<i64: 1>, {{.*}}recompute>
// PRICE: %[[N:.*]] = nn.mul %[[M]], %{{.*}} {place = #nn.place<{{.*}}recompute>
// PRICE: nn.matmul %[[N]], %{{.*}} {place = #nn.place<{{.*}}recompute>
