# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports a module in every setting and trains it with PyTorch."""

import contextlib
import copy
import json
import logging
import os
import re
import shutil
import sys
import warnings

import numpy
import onnx
import torch
from torch.nn import functional as F

import draws
import registry
import decoders, encoders, experts, losses, parameters, vision  # they enter modules

STEPS = 20
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                      *[os.pardir] * 3, "models")

# How people call the exporter.
SETTINGS = {
    "default": dict(dynamo=True),
    "unoptimized": dict(dynamo=True, optimize=False),
    "legacy": dict(dynamo=False),
    "legacy-unfolded": dict(dynamo=False, do_constant_folding=False),
}

# What a file need not carry: names of this machine's folders, and classes.
UNREAD = {"namespace", "pkg.torch.onnx.class_hierarchy"}
TRACE = "pkg.torch.onnx.stack_trace"


def batch_of(data, number):
    """The samples of a microbatch, counted from 0."""
    count = len(next(iter(data.values())))
    which = [(number * registry.BATCH + i) % count
             for i in range(registry.BATCH)]
    return {key: torch.from_numpy(numpy.ascontiguousarray(value[which]))
            for key, value in data.items()}


def loss_of(entry, module, batch):
    """The mean over labels, or what the module returns as its loss."""
    if entry.loss == "graph":
        made = module(**batch)
        made = made if isinstance(made, tuple) else (made,)
        return next(value for value in made if value.dim() == 0)
    labels = batch.pop("labels")
    scores = module(**batch)
    if entry.loss == "mse":
        return F.mse_loss(scores, labels)
    if scores.dim() > 3:
        return F.cross_entropy(scores, labels)
    return F.cross_entropy(scores.flatten(0, -2), labels.flatten())


def train(entry, module, data, microbatches=1):
    """20 steps with the executables' defaults; a step's loss is the mean of
    its microbatches'."""
    trained = [p for p in module.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3, betas=(0.9, 0.95),
                                  eps=1e-8, weight_decay=0.1)
    result = dict(loss=[], grad_norm=[], lr=[])
    for step in range(STEPS):
        loss = 0
        for number in range(step * microbatches, (step + 1) * microbatches):
            with draws.ours(number * registry.BATCH):
                loss += loss_of(entry, module, batch_of(data, number))
        loss /= microbatches
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        result["loss"].append(loss.item())
        result["grad_norm"].append(norm.item())
        result["lr"].append(1e-3)
    return result


def export(entry, module, data, setting, path):
    """Writes the graph as a call with nothing else but the setting does."""
    inputs = batch_of(data, 0)
    if entry.loss != "graph":
        inputs.pop("labels")
    module = copy.deepcopy(module)
    words = SETTINGS[setting]
    if words["dynamo"]:
        program = torch.onnx.export(module, (), kwargs=inputs, verbose=False,
                                    input_names=list(inputs), **words)
        program.save(path, external_data=False)
    else:
        mode = torch.onnx.TrainingMode
        torch.onnx.export(module, (inputs,), path, input_names=list(inputs),
                          training=mode.TRAINING if entry.training
                          else mode.EVAL, **words)


def strip(path):
    """Drops the metadata that would only fill a file."""
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [p for p in node.metadata_props if p.key not in UNREAD and
                (p.key != TRACE or p.value.startswith('File "<eval_'))]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def annotated(name, model, path):
    """A copy of an export that also says what its module is."""
    sys.path.append(MODELS)
    import shardonnx_export

    shutil.copy(model, path)
    shardonnx_export.annotate(path, registry.build(name))
    return path


@contextlib.contextmanager
def silence():
    """Exporters print whole graphs, some from C++: by descriptors."""
    sys.stdout.flush()
    kept = [os.dup(1), os.dup(2)]
    with open(os.devnull, "w") as nothing:
        for descriptor in (1, 2):
            os.dup2(nothing.fileno(), descriptor)
    try:
        yield
    finally:
        sys.stdout.flush()
        for descriptor, old in zip((1, 2), kept):
            os.dup2(old, descriptor)
            os.close(old)


def first_line(error):
    """What an exporter says, in one line."""
    while error.__cause__ and "Remote" not in type(error.__cause__).__name__:
        error = error.__cause__
    text = re.sub("\x1b\\[[0-9;]*m", "", str(error))
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def record(name, folder, settings):
    """Makes what is missing of NAME.json, NAME.npz and NAME.SETTING.onnx."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    entry, path = registry.MODULES[name], os.path.join(folder, name)
    module, data = registry.build(name), registry.samples_of(name)
    result = dict(name=name, refused={})
    if os.path.exists(path + ".json"):
        with open(path + ".json") as file:
            result = json.load(file)
    for setting in settings:
        target = f"{path}.{setting}.onnx"
        if os.path.exists(target) or setting in result["refused"]:
            continue
        try:
            with silence():
                export(entry, module, data, setting, target)
            strip(target)
        except Exception as error:  # whatever the exporter throws
            result["refused"][setting] = first_line(error)
    numpy.savez(path + ".npz", **data)
    if "loss" not in result:
        result.update(train(entry, module, data))
    with open(path + ".json", "w") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    return result


def ship(name, setting, model, data):
    """Writes one graph and its samples; returns 20 steps of two microbatches
    as record.py writes them."""
    entry, module = registry.MODULES[name], registry.build(name)
    samples = registry.samples_of(name)
    with silence():
        export(entry, module, samples, setting, model)
    strip(model)
    numpy.savez_compressed(data, **samples)
    trained = [p for p in module.parameters() if p.requires_grad]
    return dict(torch=torch.__version__, frozen=[],
                trainable_parameters=sum(p.numel() for p in trained),
                **train(entry, module, samples, microbatches=2))
