#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports the models of cases.py and records PyTorch training them.

    models/make_env
    .deps/torch/bin/python test/training/record.py [--filter REGEX]

Writes models/NAME.onnx, data/ and recorded/CASE.json beside this file. A run
is recorded as mathematics, not as a distributed program: each step is one mean
over all labels of its 12 samples, one clip, one optimizer step.
"""

import argparse
import contextlib
import importlib.util
import json
import math
import os
import re
import sys

import cases

sys.path.insert(0, os.path.join(cases.ROOT, "models"))
sys.path.append(os.path.join(cases.HERE, "modules"))

import numpy
import onnx
import onnx.numpy_helper
import peft
import torch

import draws
import eight_bits
import export
import f8
import gathers
import muon
import reference

# Node metadata that the importer does not read: half of a small graph's bytes.
UNUSED_METADATA = {"namespace", "pkg.torch.onnx.class_hierarchy",
                   "pkg.torch.onnx.fx_node"}


class Regressor(torch.nn.Module):
    """Float inputs, float labels, no repeated block."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(20, 56)
        self.norm = torch.nn.LayerNorm(56)
        self.second = torch.nn.Linear(56, 12)

    def forward(self, x):
        hidden = torch.nn.functional.gelu(self.first(x))
        return self.second(self.norm(hidden))


class Classifier(torch.nn.Module):
    """Tokens in, one label a sample: embedding, mean over places, SiLU."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(50, 24)
        self.hidden = torch.nn.Linear(24, 40)
        self.head = torch.nn.Linear(40, 7)

    def forward(self, tokens):
        mean = self.embed(tokens).mean(dim=1)
        return self.head(torch.nn.functional.silu(self.hidden(mean)))


def module_inputs(module):
    if isinstance(module, Regressor):
        return {"x": torch.zeros(2, 20)}
    return {"tokens": torch.zeros(2, 9, dtype=torch.int64)}


def build(words):
    """The module, and a function that exports it to a path."""
    if words[0] == "module":
        torch.manual_seed(4)
        module = {"Regressor": Regressor, "Classifier": Classifier}[words[1]]()
        return module.eval(), lambda path: export_module(module, words, path)
    options = export.parse(words)
    module = export.build(options)
    return module, lambda path: export.export(options, path, module)


def export_module(module, words, path):
    inputs = module_inputs(module)
    batch = torch.export.Dim("batch")
    program = torch.onnx.export(
        module, (), kwargs=inputs, dynamo=True, optimize=False,
        opset_version=int(words[words.index("--opset") + 1]),
        input_names=list(inputs), output_names=["logits"],
        dynamic_shapes={name: {0: batch} for name in inputs}, verbose=False)
    for node in program.model.graph.all_nodes():
        node.metadata_props.pop("pkg.torch.onnx.stack_trace", None)
    program.save(path, external_data=False)


def strip(path):
    """Drops the metadata that would only fill the repository."""
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key not in UNUSED_METADATA]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def frozen_parameters(module, model):
    """Names of parameters that the graph no longer holds.

    One is there if an initializer has its bytes, as they are, transposed or,
    for position embeddings, under a batch of one.
    """
    held = set()
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        held.add((array.shape, array.tobytes()))
    frozen = []
    for name, parameter in module.named_parameters():
        array = parameter.detach().numpy()
        forms = [array, array.T, array[None]] if array.ndim == 2 else [array]
        if not any((f.shape, f.tobytes()) in held for f in forms):
            frozen.append(name)
    return frozen


@contextlib.contextmanager
def our_dropout(case, module, first):
    """Within it, PyTorch drops what a program drops."""
    if case.get("dropout") == "no attention":
        for layer in module.transformer.h:
            layer.attn.attn_dropout.p = 0.0
    module.train("dropout" in case)
    with draws.ours(first):
        yield


def separate_documents(case, module, batch):
    """An explicit mask of documents, and labels that stay within them."""
    ids = batch["input_ids"]
    ends = (ids == case["separator"]).long()
    document = ends.cumsum(1) - ends
    same = document[:, :, None] == document[:, None, :]
    length = ids.shape[1]
    seen = same & torch.ones(length, length, dtype=torch.bool).tril()
    batch["attention_mask"] = torch.zeros(seen.shape).masked_fill(
        ~seen, torch.finfo(torch.float32).min)[:, None]
    batch["labels"] = batch["labels"].masked_fill(ends.bool(), -100)
    if "--position-ids" in cases.MODELS[case["model"]]:
        place = torch.arange(length).expand_as(ids)
        begins = torch.nn.functional.pad(ends, (1, 0))[:, :-1].bool()
        begin = torch.where(begins, place, 0).cummax(1).values
        batch["position_ids"] = place - begin


def write_data():
    """The data files other than models/data/tokens.bin."""
    folder = os.path.join(cases.HERE, "data")
    os.makedirs(folder, exist_ok=True)
    random = numpy.random.default_rng(5)
    tokens = numpy.fromfile(cases.data_path(cases.TOKENS), dtype="<u2")
    tokens[:17 * 32 + 5].tofile(os.path.join(folder, "short.bin"))
    rows = tokens[:24 * 33].reshape(24, 33).astype(numpy.int64)
    labels = rows[:, 1:].copy()
    for i, row in enumerate(labels):
        row[:i] = -100
    numpy.savez(os.path.join(folder, "masked.npz"),
                input_ids=rows[:, :-1], labels=labels)
    x = random.standard_normal((60, 20), dtype=numpy.float32)
    y = numpy.tanh(x[:, :12] * x[:, 8:]).astype(numpy.float32)
    numpy.savez(os.path.join(folder, "regressor.npz"), x=x, labels=y)
    for model in cases.MODELS.values():
        words = model.split()
        if "--architecture" in words and words[0] == "tiny":
            write_samples(folder, words)
    words = random.integers(0, 50, (60, 9))
    numpy.savez(os.path.join(folder, "classifier.npz"), tokens=words,
                labels=words.sum(axis=1) % 7)


def write_samples(folder, words):
    """What an architecture is fed that reads more than tokens."""
    options = export.parse(words)
    samples = export.architectures.ARCHITECTURES[options.architecture].samples
    if samples:
        numpy.savez_compressed(
            os.path.join(folder, options.architecture + ".npz"),
            **samples(export.shape_of(options)))


def load_samples(case, module):
    """All samples as a dict of arrays: the graph's inputs and `labels`."""
    if case["data"].endswith(".npz"):
        return dict(numpy.load(cases.data_path(case["data"])))
    path = cases.data_path(case["data"])
    tokens = numpy.fromfile(path, dtype="<u2").astype(numpy.int64)
    length = case.get("seq") or sequence_length(module)
    count = (len(tokens) - 1) // length
    inputs = tokens[:count * length].reshape(count, length)
    return {"input_ids": inputs,
            "labels": tokens[1:count * length + 1].reshape(count, length)}


def sequence_length(module):
    return module.config.max_position_embeddings


def step_loss(case, module, batch):
    """The loss as a sum over labels, and how many labels there are."""
    inputs = {k: v for k, v in batch.items() if k != "labels"}
    labels = batch["labels"]
    if isinstance(module, torch.nn.Module) and hasattr(module, "config"):
        logits = module(**inputs).logits.float()
    else:
        logits = module(**inputs)
    if case.get("loss") == "mse":
        return ((logits - labels) ** 2).sum(), labels.numel()
    if ("--labels" in cases.MODELS[case["model"]]
            and case["data"] == cases.TOKENS):
        # The graph shifts by itself: the last place has no label.
        logits, labels = logits[:, :-1], labels[:, :-1]
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels.reshape(-1),
        ignore_index=-100, reduction="sum")
    return loss, int((labels != -100).sum())


def rate(case, step):
    """The learning rate of a step, counted from 1."""
    top, low = case.get("lr", 1e-3), case.get("min_lr", 0.0)
    warmup, last = case.get("warmup", 0), cases.STEPS
    if step <= warmup:
        return top * step / warmup
    kind = case.get("schedule", "constant")
    done = (step - warmup) / (last - warmup)
    if kind == "cosine":
        return low + (top - low) * 0.5 * (1 + math.cos(math.pi * done))
    if kind == "linear":
        return top + (low - top) * done
    decay = last // 5
    if kind == "wsd" and step > last - decay:
        return top + (low - top) * (step - (last - decay)) / decay
    return top


def make_optimizer(case, module):
    kept, plain = [], []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            no_decay = re.fullmatch(case.get("no_decay", r"(?!)"), name)
            (plain if no_decay else kept).append(parameter)
    groups = [dict(params=kept, weight_decay=0.1),
              dict(params=plain, weight_decay=0.0)]
    groups = [g for g in groups if g["params"]]
    kind, lr = case.get("optimizer", "adamw"), case.get("lr", 1e-3)
    if kind.endswith("-int8"):
        return eight_bits.Optimizer(groups, kind.split("-")[0], lr, (0.9, 0.95),
                                    1e-8, case.get("momentum", 0))
    if kind == "muon":
        return muon.Optimizer(case, module, groups, lr)
    if kind == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=case["momentum"])
    adam = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    return adam(groups, lr=lr, betas=(0.9, 0.95), eps=1e-8)


def backward(case, module, batch, labels_total):
    """Accumulates the gradients of one step and returns its loss."""
    if case.get("policy") != "bf16":
        # Scales of 8 bits are those of a microbatch.
        size = case["batch"] if "matmul" in case else cases.GLOBAL_BATCH
        total = 0.0
        for i in range(0, cases.GLOBAL_BATCH, size):
            part = {k: v[i:i + size] for k, v in batch.items()}
            loss, _ = step_loss(case, module, part)
            (loss / labels_total).backward()
            total += loss.item() / labels_total
        return total
    # As FSDP2's MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=f32):
    # rounded parameters in every microbatch, gradients summed in f32.
    total = 0.0
    for i in range(cases.GLOBAL_BATCH):
        rounded = {n: p.to(torch.bfloat16)
                   for n, p in module.named_parameters()}
        sample = {k: v[i:i + 1] for k, v in batch.items()}

        def call(**inputs):
            return torch.func.functional_call(
                module, rounded, (), {**inputs, "use_cache": False})

        call.config = module.config
        logits = call(input_ids=sample["input_ids"]).logits.float()
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), sample["labels"].reshape(-1),
            ignore_index=-100, reduction="sum") / labels_total
        loss.backward()
        total += loss.item()
    return total


def quantise_base(case, module):
    """What every linear layer but the head decodes to, of the base that
    bitsandbytes makes: its PyTorch kernels, with the exact mean of the scales
    (../unit/packing/record.py)."""
    spec = importlib.util.spec_from_file_location("packing", os.path.join(
        cases.ROOT, "test", "unit", "packing", "record.py"))
    packing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packing)
    decode = {"nf4": packing.nf4, "int8": packing.int8}[case["base"]]
    head = module.get_output_embeddings()
    for layer in module.modules():
        conv = type(layer).__name__ == "Conv1D"
        if layer is head or not (conv or isinstance(layer, torch.nn.Linear)):
            continue
        weight = layer.weight.data
        decoded = decode((weight.T if conv else weight).contiguous())[1]
        layer.weight.data = (decoded.T if conv else decoded).contiguous()


def add_adapters(case, module):
    """PEFT's adapters, drawn so that both halves have gradients, as its own
    save_pretrained writes them."""
    torch.manual_seed(11)
    adapted = peft.get_peft_model(module, peft.LoraConfig(**case["lora"]))
    for name, parameter in adapted.named_parameters():
        if ".lora_B." in name:
            torch.nn.init.normal_(parameter, std=0.05)
        if ".modules_to_save." in name:
            parameter.data += 0.05 * torch.randn_like(parameter)
    folder = cases.adapter_path(case["name"])
    adapted.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    return adapted


def record(case, module, model):
    """Trains, and returns what the executable's log must show."""
    frozen = frozen_parameters(module, model)
    if frozen and "--optimize" not in cases.MODELS[case["model"]]:
        raise SystemExit(f"{case['model']}.onnx does not hold the weights of "
                         f"{', '.join(frozen)}")
    for name, parameter in module.named_parameters():
        chosen = re.fullmatch(case.get("freeze", r"(?!)"), name)
        parameter.requires_grad_(name not in frozen and not chosen)
    samples = {k: torch.from_numpy(v)
               for k, v in load_samples(case, module).items()}
    if case.get("base"):
        quantise_base(case, module)
    if "lora" in case:
        module = add_adapters(case, module)
    if "matmul" in case:
        f8.convert(module, case["matmul"])
    count = len(samples["labels"])
    optimizer = make_optimizer(case, module)
    trained = [p for p in module.parameters() if p.requires_grad]
    clip = case.get("clip", 1.0)
    result = dict(case=case["name"], torch=torch.__version__, frozen=frozen,
                  trainable_parameters=sum(p.numel() for p in trained),
                  loss=[], grad_norm=[], lr=[])
    for step in range(1, cases.STEPS + 1):
        first = (step - 1) * cases.GLOBAL_BATCH
        which = [(first + i) % count for i in range(cases.GLOBAL_BATCH)]
        batch = {k: v[which] for k, v in samples.items()}
        if "separator" in case:
            separate_documents(case, module, batch)
        with our_dropout(case, module, first):
            _, labels_total = step_loss(case, module, batch)
        optimizer.zero_grad()
        with our_dropout(case, module, first), \
                gathers.gathered(module, case.get("gather")):
            loss = backward(case, module, batch, labels_total)
        norm = torch.nn.utils.clip_grad_norm_(trained, clip or math.inf)
        for group in optimizer.param_groups:
            group["lr"] = rate(case, step) * group.get("lr_ratio", 1)
        optimizer.step()
        result["loss"].append(loss)
        result["grad_norm"].append(norm.item())
        result["lr"].append(rate(case, step))
    return result


def record_own(case):
    """A module of modules/: its graph, its data and its training."""
    _, name, setting, *_ = cases.MODELS[case["model"]].split()
    return dict(case=case["name"], **reference.ship(
        name, setting, cases.model_path(case["model"]),
        cases.data_path(case["data"])))


def record_model(case, exported, keep):
    """A model of export.py or of this file, exported once."""
    name = case["model"]
    path = cases.model_path(name)
    module, save = build(cases.MODELS[name].split())
    if name not in exported:
        if name not in cases.SHIPPED and not (keep and os.path.exists(path)):
            save(path)
            strip(path)
        exported[name] = onnx.load(path)
    return record(case, module, exported[name])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only cases whose name matches")
    parser.add_argument("--keep-models", action="store_true",
                        help="use the exported files that are there")
    options = parser.parse_args()
    torch.set_num_threads(2)
    for folder in ("models", "recorded"):
        os.makedirs(os.path.join(cases.HERE, folder), exist_ok=True)
    write_data()
    exported = {}
    for case in cases.CASES:
        if not re.search(options.filter, case["name"]) or "like" in case:
            continue
        if cases.MODELS[case["model"]].startswith("own "):
            result = record_own(case)
        else:
            result = record_model(case, exported, options.keep_models)
        target = os.path.join(cases.HERE, "recorded", case["name"] + ".json")
        with open(target, "w") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        print(f"{case['name']}: loss {result['loss'][0]:.4f} -> "
              f"{result['loss'][-1]:.4f}, norm {result['grad_norm'][0]:.3f} "
              f"-> {result['grad_norm'][-1]:.3f}, frozen {result['frozen']}",
              flush=True)


if __name__ == "__main__":
    main()
