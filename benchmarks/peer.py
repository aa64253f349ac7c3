#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One rank of PyTorch training what our executable trains, as fast as it can.

Sdpa, fused AdamW, the same samples and step as the executable; f32, or bf16
with f32 masters and moments: autocast, or FSDP2's policy in its modes; fp8 is
bf16 but for torchao's products of the blocks. With --lora, PEFT's adapters are
trained and the rest is frozen.
Rank and world size come from the environment, as torchrun sets them; threads
from OMP_NUM_THREADS. Rank 0 writes a JSON line a step. Several jobs may be
given at once, parted by `+`: they share one start of PyTorch.
"""

import argparse
import collections
import contextlib
import json
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "models"))

import torch
import torch.nn.functional as functional

import drawn
import export

# Modes with a process for each rank.
DISTRIBUTED = ("ddp", "fsdp2", "fsdp2-compile")

# torchao's names of the executable's products of 8 bits.
RECIPES = {"fp8": "tensorwise", "fp8:rowwise": "rowwise_with_gw_hp"}


def causal_attention(module, query, key, value, attention_mask, scaling=None,
                     **_):
    """sdpa that is told to be causal.

    With a mask in its place, which transformers makes while torch.compile
    traces, no flash kernel would be taken.
    """
    output = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, scale=scaling,
        enable_gqa=key.shape[1] != query.shape[1])
    return output.transpose(1, 2), None


def build(options):
    """The model on its device, in transformers' words but with fast parts."""
    from transformers import AttentionInterface, AttentionMaskInterface

    with torch.device(options.device):
        model = export.build(exported(options))
    if samples(options) is None:
        AttentionInterface.register("causal", causal_attention)
        AttentionMaskInterface.register("causal", lambda *_, **__: None)
        model.set_attn_implementation("causal")
    if hasattr(model.config, "num_experts"):
        # Of a mixture's rows, each with its expert's weights alone; exported
        # are products with all of them.
        model.set_experts_implementation("grouped_mm")
    for block in blocks(model):
        # transformers writes GPT-2's GELU in six operations.
        mlp = getattr(block, "mlp", None)
        if type(getattr(mlp, "act", None)).__name__ == "NewGELUActivation":
            mlp.act = torch.nn.GELU(approximate="tanh")
    if options.weights:
        load(model, options.weights)
    if options.draw is not None:
        drawn.draw(model, options.draw,
                   dict(words.split("=") for words in options.drawn_as))
    if options.recompute == "block":
        model.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False})
    if options.precision in RECIPES:
        multiply_eight_bits(model, RECIPES[options.precision])
    if options.lora:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(
            r=options.lora, target_modules="all-linear"))
    return model.train()


def multiply_eight_bits(model, recipe):
    """Gives the blocks' linear layers products of 8 bits, as torchao has
    them; the head keeps its own, as it does in the executable."""
    from torchao.float8 import Float8LinearConfig, convert_to_float8_training

    convert_to_float8_training(
        model, config=Float8LinearConfig.from_recipe_name(recipe),
        module_filter_fn=lambda _, name: "lm_head" not in name)


def exported(options):
    """The options that export.py would make the same model with."""
    words = [options.model] + (["--seq", options.seq] if options.seq else [])
    return export.parse(words + options.shape.split())


def load(model, path):
    """Takes the weights of a file, which must hold every parameter."""
    from safetensors.torch import load_file

    found = load_file(path)
    named = dict(model.named_parameters(remove_duplicate=False))
    shared = collections.defaultdict(list)
    for name, parameter in named.items():
        shared[parameter].append(name)
    with torch.no_grad():
        for parameter, names in shared.items():
            name = next((n for n in names if n in found), None)
            if name is None:
                raise SystemExit(f"peer.py: error: {path} has no {names[0]}")
            parameter.copy_(found[name])


def wrap(model, options, world):
    """The model as its mode wants it; FSDP2 shards a unit a block, and the
    root."""
    if options.mode in DISTRIBUTED and not torch.distributed.is_initialized():
        torch.distributed.init_process_group(
            "nccl" if options.device == "cuda" else "gloo")
    if options.mode == "ddp":
        return torch.nn.parallel.DistributedDataParallel(
            model, gradient_as_bucket_view=True)
    if options.mode.startswith("fsdp2"):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        settings = {"mesh": init_device_mesh(options.device, (world,)),
                    # One rank has nothing to give back after the forward.
                    "reshard_after_forward": world > 1}
        if options.precision != "f32":
            settings["mp_policy"] = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in blocks(model):
            if options.mode == "fsdp2-compile":
                block.compile()
            fully_shard(block, **settings)
        fully_shard(model, **settings)
    elif options.mode == "compile":
        model.compile()
    return model


def blocks(model):
    """The layers, which every model here keeps in its first list."""
    return next(module for module in model.modules()
                if isinstance(module, torch.nn.ModuleList))


def attention_backend(config, options):
    """What sdpa may use: on a GPU, the kernel that is fastest at this shape.

    f32 there is computed step by step, for the fused kernels may round more.
    The result is a function, for these contexts can be entered only once.
    """
    if options.device != "cuda":
        return contextlib.nullcontext, "default"
    from torch.nn.attention import SDPBackend, sdpa_kernel

    if options.precision == "f32":
        return lambda: sdpa_kernel(SDPBackend.MATH), "math"
    backends = {"cudnn": SDPBackend.CUDNN_ATTENTION,
                "flash": SDPBackend.FLASH_ATTENTION}
    times = {}
    for name, backend in backends.items():
        with contextlib.suppress(RuntimeError), sdpa_kernel(backend):
            times[name] = time_attention(config, options)
    if not times:
        return contextlib.nullcontext, "default"
    best = min(times, key=times.get)
    return lambda: sdpa_kernel(backends[best]), best


def time_attention(config, options):
    """Milliseconds of attention, forward and backward, at the run's shape."""
    heads = config.num_attention_heads
    sizes = [heads] + 2 * [getattr(config, "num_key_value_heads", heads)]
    inputs = [torch.randn(options.batch, n, config.max_position_embeddings,
                          config.hidden_size // heads, device="cuda",
                          dtype=torch.bfloat16, requires_grad=True)
              for n in sizes]
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for turn in range(6):
        if turn == 2:
            start.record()
        output, _ = causal_attention(None, *inputs, None)
        output.backward(torch.ones_like(output))
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def samples(options):
    """What a model is fed that takes more than tokens; None for the others."""
    return export.samples_of(exported(options))


def batches(options, length, rank, world):
    """Inputs by name and labels of each step, in the executable's order."""
    import numpy

    if options.data.endswith(".npz"):
        arrays = dict(numpy.load(options.data))
    else:
        tokens = numpy.fromfile(options.data, dtype="<u2").astype(numpy.int64)
        count = (len(tokens) - 1) // length
        # Samples that overlap by the token that is a label of one of them.
        arrays = {name: tokens[at:at + count * length].reshape(count, length)
                  for name, at in (("input_ids", 0), ("labels", 1))}
    count = len(arrays["labels"])
    sample = rank * options.batch
    while True:
        rows = [(sample + k) % count for k in range(options.batch)]
        inputs = {name: torch.from_numpy(array[rows])
                  for name, array in arrays.items()}
        yield inputs, inputs.pop("labels")
        sample += world * options.batch


class HostClock:
    """Times steps of the CPU; each ends when its loss is there."""

    def __init__(self, world, write):
        self.world, self.write = world, write

    def start(self):
        self.began = time.perf_counter()

    def stop(self, step, loss, norm):
        value = loss.item()
        elapsed = time.perf_counter() - self.began
        if self.world > 1:
            if hasattr(norm, "full_tensor"):
                norm = norm.full_tensor()
            mean = torch.tensor(value)
            torch.distributed.all_reduce(mean)
            value = mean.item() / self.world
        self.write(step=step, loss=value, grad_norm=norm.item(),
                   step_ms=elapsed * 1e3)

    def finish(self):
        pass


class DeviceClock:
    """Times steps of the GPU by its own events.

    A step is read when two later ones are queued, so that reading a loss
    never leaves the GPU without work.
    """

    def __init__(self, _, write):
        self.write = write
        self.pending = collections.deque()
        self.last = torch.cuda.Event(enable_timing=True)
        self.last.record()

    def start(self):
        pass

    def stop(self, step, loss, norm):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        if hasattr(norm, "full_tensor"):
            norm = norm.full_tensor()
        self.pending.append((step, loss.detach(), norm, event))
        if len(self.pending) > 2:
            self.read()

    def read(self):
        step, loss, norm, event = self.pending.popleft()
        event.synchronize()
        self.write(step=step, loss=loss.item(), grad_norm=norm.item(),
                   step_ms=self.last.elapsed_time(event),
                   peak_bytes=torch.cuda.max_memory_allocated(),
                   reserved_bytes=torch.cuda.max_memory_reserved())
        self.last = event

    def finish(self):
        while self.pending:
            self.read()


def train(model, config, options, rank, world, log):
    # The optimizer is made after sharding, so that it sees the slices.
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad], lr=options.lr,
        betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1, fused=True)
    backend, named = attention_backend(config, options)

    def write(**line):
        if log:
            print(json.dumps(dict(line, sdpa=named)), file=log, flush=True)

    kind = DeviceClock if options.device == "cuda" else HostClock
    if options.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    clock = kind(world, write)
    autocast = options.precision != "f32" and "fsdp2" not in options.mode
    data = batches(options, getattr(config, "max_position_embeddings", None),
                   rank, world)
    profile = Profile(options)
    for step in range(1, options.steps + 1):
        profile.before(step)
        clock.start()
        inputs, labels = next(data)
        inputs = {name: value.to(options.device, non_blocking=True)
                  for name, value in inputs.items()}
        labels = labels.to(options.device, non_blocking=True)
        with backend(), torch.autocast(options.device, torch.bfloat16,
                                     enabled=autocast):
            logits = model(**inputs).logits
            loss = functional.cross_entropy(logits.flatten(0, -2).float(),
                                            labels.flatten())
        del logits
        with backend():
            loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        clock.stop(step, loss, norm)
    clock.finish()
    profile.finish()


class Profile:
    """PyTorch's own profiler over the last steps, if a file is wanted."""

    def __init__(self, options):
        self.path, self.device = options.profile, options.device
        self.first = options.steps - options.profile_steps + 1
        self.profiler = None

    def synchronise(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def before(self, step):
        if not self.path or step != self.first:
            return
        kinds = torch.profiler.ProfilerActivity
        self.synchronise()
        self.profiler = torch.profiler.profile(activities=[
            kinds.CUDA if self.device == "cuda" else kinds.CPU])
        self.profiler.start()

    def finish(self):
        if self.profiler:
            self.synchronise()
            self.profiler.stop()
            self.profiler.export_chrome_trace(self.path)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", choices=sorted(export.PRESETS))
    parser.add_argument("--mode", default="eager",
                        choices=("eager", "compile", *DISTRIBUTED))
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--precision", default="f32",
                        choices=("f32", "bf16", *RECIPES))
    parser.add_argument("--recompute", default="none",
                        choices=("none", "block"))
    parser.add_argument("--seq", metavar="N")
    parser.add_argument("--shape", default="", metavar="'--layers N …'",
                        help="changes of the preset, as export.py takes them")
    parser.add_argument("--lora", type=int, metavar="RANK",
                        help="train adapters on all linear layers alone")
    parser.add_argument("--weights", metavar="FILE.safetensors")
    parser.add_argument("--draw", type=int, metavar="SEED", help="start from "
                        "the weights that an executable draws with "
                        "--init=random --seed=SEED")
    parser.add_argument("--drawn-as", action="append", default=[],
                        metavar="NAME=NAME", help="a parameter that the "
                        "executable calls otherwise")
    parser.add_argument("--profile", metavar="FILE.json",
                        help="write PyTorch's trace of the last steps")
    parser.add_argument("--profile-steps", type=int, default=3, metavar="N")
    parser.add_argument("--data", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--log", required=True)
    return parser.parse_args(words)


def jobs(words):
    """The command lines between the `+`."""
    while "+" in words:
        cut = words.index("+")
        yield parse(words[:cut])
        words = words[cut + 1:]
    yield parse(words)


def main():
    rank = int(os.environ.get("RANK", 0))
    world = int(os.environ.get("WORLD_SIZE", 1))
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    for options in list(jobs(sys.argv[1:])):
        log = open(options.log, "w") if rank == 0 else None
        model = build(options)
        config = model.config
        train(wrap(model, options, world), config, options, rank, world, log)
    if torch.distributed.is_initialized():
        # Nobody leaves while another rank still talks to it.
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
