#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports every architecture in every variant and records what must come out.

    .deps/torch/bin/python test/architectures/record.py FOLDER
                           [--filter REGEX] [--jobs N] [--shipped]

For each variant of variants.py FOLDER receives NAME.onnx; NAME.npz, the inputs
of a forward pass and ONNX Runtime's outputs; NAME.json, 20 steps of PyTorch or
the message with which the exporter or ONNX Runtime refuses. Variants that are
there are not made again. `--shipped` makes the few small ones that the
repository holds in recorded/.
"""

import argparse
import concurrent.futures
import json
import os
import re

import variants


def tokens(model):
    """Samples as the executables deal them from models/data/tokens.bin."""
    import numpy

    length = model.seq
    path = os.path.join(variants.ROOT, "models", "data", "tokens.bin")
    ids = numpy.fromfile(path, dtype="<u2").astype(numpy.int64)
    count = (len(ids) - 1) // length
    return {"input_ids": ids[:count * length].reshape(count, length),
            "labels": ids[1:count * length + 1].reshape(count, length)}


class Model:
    """One variant: the module, its options and its samples."""

    def __init__(self, words):
        import export

        self.options = export.parse(words.split())
        self.shape = export.shape_of(self.options)
        self.seq = self.shape["seq"]
        self.architecture = variants.architectures.ARCHITECTURES[
            self.options.architecture]
        self.module = export.build(self.options)
        samples = self.architecture.samples
        self.samples = samples(self.shape) if samples else tokens(self)

    def loss(self, batch):
        """The sum over labels, and how many there are."""
        import torch

        inputs = {k: v for k, v in batch.items() if k != "labels"}
        labels = batch["labels"]
        logits = self.module(**inputs).logits.float()
        if self.options.labels and not self.architecture.samples:
            # The graph shifts by itself: the last place has no label.
            logits, labels = logits[:, :-1], labels[:, :-1]
        loss = torch.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]), labels.reshape(-1),
            ignore_index=-100, reduction="sum")
        return loss, int((labels != -100).sum())


def train(model):
    """Losses and gradient norms of AdamW with the executables' defaults."""
    import torch

    samples = {k: torch.from_numpy(v) for k, v in model.samples.items()}
    parameters = [p for p in model.module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95),
                                  eps=1e-8, weight_decay=0.1)
    result = dict(loss=[], grad_norm=[], lr=[])
    for step in range(variants.STEPS):
        first = step * variants.GLOBAL_BATCH
        which = [(first + i) % len(samples["labels"])
                 for i in range(variants.GLOBAL_BATCH)]
        loss, count = model.loss({k: v[which] for k, v in samples.items()})
        optimizer.zero_grad()
        (loss / count).backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        result["loss"].append(loss.item() / count)
        result["grad_norm"].append(norm.item())
        result["lr"].append(1e-3)
    return result


def expected_ops(model):
    """What the raised graph must hold: norms and attentions as often as the
    module calls them, and each softmax elsewhere."""
    import torch
    from torch.overrides import TorchFunctionMode

    calls = {"attention": 0, "norm": 0, "unrecognised softmax": 0}

    def is_attention(module):
        # Some wrap what computes.
        return type(module).__name__.endswith("Attention") and not any(
            is_attention(inner) for inner in module.modules()
            if inner is not module)

    class Softmaxes(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            if getattr(function, "__name__", "") == "softmax":
                calls["unrecognised softmax"] += 1
            return function(*args, **(kwargs or {}))

    def count(module, kind):
        known = {}

        def enter(*_):
            calls[kind] += 1
            known["softmaxes"] = calls["unrecognised softmax"]

        def leave(*_):
            calls["unrecognised softmax"] = known["softmaxes"]

        return [module.register_forward_pre_hook(enter),
                module.register_forward_hook(leave)]

    hooks = []
    for module in model.module.modules():
        if is_attention(module):
            hooks += count(module, "attention")
        elif "Norm" in type(module).__name__:
            hooks += count(module, "norm")
    batch = {k: torch.from_numpy(v[:1]) for k, v in model.samples.items()
             if k != "labels"}
    with torch.no_grad(), Softmaxes():
        model.module(**batch)
    for hook in hooks:
        hook.remove()
    return calls


def forward(model, path):
    """The inputs of one pass and what ONNX Runtime makes of them."""
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options,
                                           ["CPUExecutionProvider"])
    shape = (variants.BATCH, model.seq)
    known = {k: v[:variants.BATCH] for k, v in model.samples.items()}
    known.setdefault("attention_mask", numpy.ones(shape, numpy.int64))
    known.setdefault("position_ids", numpy.ascontiguousarray(
        numpy.broadcast_to(numpy.arange(shape[1]), shape)))
    feed = {i.name: known[i.name] for i in session.get_inputs()}
    names = [o.name for o in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, feed)))
    return ({f"in.{k}": v for k, v in feed.items()}
            | {f"out.{k}": v for k, v in outputs.items()})


def strip(path):
    """Drops the metadata that the importer does not read."""
    import onnx

    unread = {"namespace", "pkg.torch.onnx.class_hierarchy"}
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key not in unread]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def first_line(error):
    """The cause where the exporter names one, without colours."""
    while error.__cause__:
        error = error.__cause__
    text = re.sub("\x1b\\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]


def record(name, words, folder):
    """Makes the files of one variant; returns a line that says how it went."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    import numpy
    import torch

    import export

    torch.set_num_threads(1)
    path = os.path.join(folder, name)
    result = dict(name=name, words=words)
    try:
        model = Model(words)
        export.export(model.options, path + ".onnx", model.module)
        strip(path + ".onnx")
    except Exception as error:  # whatever the exporter throws
        result["exporter"] = first_line(error)
    else:
        try:
            outputs = forward(model, path + ".onnx")
            numpy.savez_compressed(path + ".npz", **outputs)
        except Exception as error:
            result["onnxruntime"] = first_line(error)
        if model.architecture.samples:
            result["data"] = name + ".samples.npz"
            numpy.savez(os.path.join(folder, result["data"]), **model.samples)
        if len(model.architecture.outputs) > 1 and not model.options.labels:
            result["logits"] = model.architecture.outputs[0]
        result["ops"] = expected_ops(model)
        result.update(train(model))
    with open(path + ".json", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    refused = result.get("exporter") or result.get("onnxruntime")
    return f"{name}: {refused or 'recorded'}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--filter", default="", metavar="REGEX",
                        help="only variants whose name matches")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--shipped", action="store_true",
                        help="those that the repository holds")
    options = parser.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    wanted = (variants.shipped() if options.shipped else
              variants.variants(lambda n: re.search(options.filter, n)))
    missing = {name: words for name, words in wanted.items() if not
               os.path.exists(os.path.join(options.folder, name + ".json"))}
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(record, name, words, options.folder)
                   for name, words in missing.items()]
        for future in concurrent.futures.as_completed(futures):
            print(future.result(), flush=True)


if __name__ == "__main__":
    main()
