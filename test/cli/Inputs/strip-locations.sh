#!/bin/sh
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# strip-locations.sh UNIT MODEL [OPTION...]: the planned program of a graph without
# locations, and of one whose locations name other nodes and modules, is one.

set -eu
unit=$1
shift
shardonnx compile "$@" --emit=onnx -o stripped.mlir
grep -q 'scope "' stripped.mlir
elsewhere='loc(fused<{node = "n", op = "Add", path = "layer.9.mlp"}>["n"])'
sed "/ = onnx.node /s/\$/ $elsewhere/" stripped.mlir > located.mlir
for graph in located stripped; do
  shardonnx-opt $graph.mlir -convert-onnx-to-nn -nn-cse-across-modules -raise-layout \
    -raise-norm -raise-activation -raise-rotary -raise-attention -raise-masks \
    -canonicalize -nn-cse-across-modules -nn-attach-loss -nn-assign-units="unit=$unit" \
    -nn-assign-dtypes=param-dtype=bf16 -nn-verify-places -nn-differentiate \
    -fsdp-recompute=recompute=every:2 -nn-decompose-step -nn-fuse \
    -nn-verify-places -fsdp-shard -fsdp-schedule -fsdp-to-exec \
    -exec-plan-memory -verify-exec -o $graph.txt
done
grep -q 'exec.gather_start @' located.txt
cmp located.txt stripped.txt
