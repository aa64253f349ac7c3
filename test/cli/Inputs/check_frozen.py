# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_frozen.py flops FULL.mlir LORA.mlir | reductions LORA.mlir

import math
import re
import sys


def size(tensor):
    return math.prod(int(n) for n in tensor.split("x")[:-1])


def backward_flops(path):
    """Of products and attention behind the loss: 2·M·K·N, which is twice the root of M·K by K·N by M·N."""
    flops = 0
    for line in open(path):
        if "backward>" not in line:
            continue
        tensors = re.findall(r"tensor<([^>]*)>", line)
        if " = nn.matmul " in line:
            flops += 2 * math.isqrt(math.prod(map(size, tensors)))
        elif " = nn.attention_grad " in line:  # five products of [S, S] by heads of D
            batch, length, heads, depth = map(int, tensors[0].split("x")[:-1])
            flops += 5 * 2 * batch * heads * length**2 * depth
    return flops


def flops(full, lora):
    ratio = backward_flops(lora) / backward_flops(full)
    assert 0.4 < ratio <= 2 / 3, ratio


def reductions(path):
    """Units own, reduce and update adapters alone."""
    text = open(path).read()
    units = re.findall(r"fsdp\.unit @\S+ .*? length (\d+) \[(.*?)\](?: frozen \d+ \[(.*?)\])?", text, re.S)
    trained = [name for _, section, _ in units for name in re.findall(r"@([\w.]+)", section)]
    frozen = [name for _, _, section in units for name in re.findall(r"@([\w.]+)", section)]
    reduced = [name for names in re.findall(r"fsdp\.reduce_scatter @\S+ \[(.*?)\]", text) for name in re.findall(r"@([\w.]+)", names)]
    assert trained and all(".lora_" in name for name in trained), trained
    assert frozen and not any(".lora_" in name for name in frozen), frozen
    assert sorted(reduced) == sorted(trained), set(reduced) ^ set(trained)
    assert not re.search(r"nn\.grad @(?![\w.]*\.lora_)", text)


{"flops": flops, "reductions": reductions}[sys.argv[1]](*sys.argv[2:])
