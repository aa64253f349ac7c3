#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank of PyTorch training what our executable trains, as fast as it can.

sdpa, fused AdamW, f32, the same weights, tokens and step as the executable.
Rank and world size come from the environment, as torchrun sets them; threads
from OMP_NUM_THREADS. Rank 0 writes a JSON line a step.
"""

import argparse
import json
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "models"))

import numpy
import torch
import torch.nn.functional as functional

import export


def wrap(model, mode, world):
    """The model as FSDP2 shards it: a unit a block, and the root."""
    if mode.startswith("fsdp2"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        torch.distributed.init_process_group("gloo")
        mesh = init_device_mesh("cpu", (world,))
        for block in blocks(model):
            if mode == "fsdp2-compile":
                block.compile()
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    elif mode == "compile":
        model.compile()
    return model


def blocks(model):
    return model.transformer.h if hasattr(model, "transformer") \
        else model.model.layers


def batches(path, length, batch, rank, world):
    """Input and label tokens of each step, in the executable's order."""
    tokens = numpy.fromfile(path, dtype="<u2").astype(numpy.int64)
    count = (len(tokens) - 1) // length
    sample = rank * batch
    while True:
        rows = [tokens[i * length:i * length + length + 1]
                for i in ((sample + k) % count for k in range(batch))]
        data = torch.from_numpy(numpy.stack(rows))
        yield data[:, :-1], data[:, 1:]
        sample += world * batch


def train(model, options, rank, world, log):
    # The optimizer is made after sharding, so that it sees the slices.
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4,
                                  betas=(0.9, 0.95), eps=1e-8,
                                  weight_decay=0.1, fused=True)
    length = model.config.max_position_embeddings
    data = batches(options.data, length, options.batch, rank, world)
    for step in range(1, options.steps + 1):
        start = time.perf_counter()
        inputs, labels = next(data)
        logits = model(input_ids=inputs, use_cache=False).logits
        loss = functional.cross_entropy(logits.flatten(0, 1),
                                        labels.flatten())
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        value = loss.item()
        elapsed = time.perf_counter() - start
        if world > 1:
            norm = norm.full_tensor()
            mean = torch.tensor(value)
            torch.distributed.all_reduce(mean)
            value = mean.item() / world
        if log:
            print(json.dumps(dict(step=step, loss=value,
                                  grad_norm=norm.item(),
                                  step_ms=elapsed * 1e3)),
                  file=log, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=("w1", "w2"))
    parser.add_argument("--mode", default="eager",
                        choices=("eager", "compile", "fsdp2",
                                 "fsdp2-compile"))
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--log", required=True)
    options = parser.parse_args()
    rank = int(os.environ.get("RANK", 0))
    world = int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    model = export.build(export.parse([options.model])).train()
    model = wrap(model, options.mode, world)
    log = open(options.log, "w") if rank == 0 else None
    train(model, options, rank, world, log)
    if world > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
