#!/bin/sh
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# round-trip.sh MODEL [OPTION...]: each level, printed, read and printed again.

set -eu
for level in onnx nn grad fsdp schedule memory; do
  shardonnx compile "$@" --emit=$level -o once.mlir
  shardonnx-opt once.mlir -o twice.mlir
  cmp once.mlir twice.mlir
done
