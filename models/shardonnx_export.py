# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports a PyTorch module to ONNX with all that training it needs to know.

    import shardonnx_export

    shardonnx_export.export(module, (tokens,), "model.onnx",
                            input_names=["tokens"], output_names=["logits"])

`export` takes what torch.onnx.export takes. It keeps every parameter apart and
under its own name (`optimize=False`), and writes into the file what no
exporter does; `annotate` does the latter alone, to a file that is there:

    torch.onnx.export(module, (tokens,), "model.onnx", dynamo=True)
    shardonnx_export.annotate("model.onnx", module)

What is written is one entry `shardonnx.module` of the model's metadata, JSON:

    {"version": 1,
     "parameters": [{"names": ["wte.weight", "head.weight"],
                     "requires_grad": true, "padding_idx": 0}, ...],
     "buffers": ["mask", ...],
     "dropout": {"h.0.drop": 0.1, ...},
     "stops_gradients": ["Quantiser", ...]}

`names` are all names of a parameter in the state dict: several where modules
share it. `stops_gradients` are the classes whose code calls detach() or
torch.no_grad(), which only `dynamo=True` leaves a trace of. The compiler trains what requires a gradient, lists everything else
by name and reason, and says where an export in evaluation mode has lost
dropout.
"""

import inspect
import json
import re

KEY = "shardonnx.module"
TRACE = "pkg.torch.onnx.stack_trace"


def stops_gradients(module):
    """Classes of people's own in whose code gradients may stop."""
    found = set()
    for part in module.modules():
        kind = type(part)
        if kind.__module__.startswith("torch.") or not list(part.parameters()):
            continue
        for function in filter(inspect.isfunction, vars(kind).values()):
            try:
                code = inspect.getsource(function)
            except OSError:  # made without a file
                continue
            if re.search(r"\.detach\(\)|no_grad\(|set_grad_enabled\(", code):
                found.add(kind.__name__)
    return sorted(found)


def drop_traces(nodes):
    """Stack traces name files of this machine and outweigh a small graph. Those
    without a file stay: only they tell what stands under torch.no_grad()."""
    for node in nodes:
        trace = node.metadata_props.get(TRACE, "")
        if not trace.startswith('File "<eval_with_key>'):
            node.metadata_props.pop(TRACE, None)


def describe(module):
    """What the compiler is told of a module, as a dict."""
    parameters = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        entry = parameters.setdefault(id(parameter), {
            "names": [], "requires_grad": parameter.requires_grad})
        entry["names"].append(name)
    dropout = {}
    for path, part in module.named_modules():
        index = getattr(part, "padding_idx", None)
        weight = getattr(part, "weight", None)
        if isinstance(index, int) and id(weight) in parameters:
            parameters[id(weight)]["padding_idx"] = index
        if type(part).__name__.endswith("Dropout") or hasattr(part, "p"):
            ratio = getattr(part, "p", 0)
            if isinstance(ratio, float) and ratio > 0:
                dropout[path] = ratio
    return {"version": 1, "parameters": list(parameters.values()),
            "buffers": [name for name, _ in module.named_buffers()],
            "dropout": dropout, "stops_gradients": stops_gradients(module)}


def annotate(model, module):
    """Adds the description of `module` to an export of it.

    `model` is the path of a file, a torch.onnx.ONNXProgram that is not yet
    saved, or an onnx.ModelProto. The weights of a file are not read.
    """
    text = json.dumps(describe(module), separators=(",", ":"))
    if hasattr(model, "save"):  # an ONNXProgram
        model.model.metadata_props[KEY] = text
        return
    import onnx

    proto = model
    if not isinstance(model, onnx.ModelProto):
        proto = onnx.load(model, load_external_data=False)
    kept = [prop for prop in proto.metadata_props if prop.key != KEY]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    onnx.helper.set_model_props(
        proto, {**{prop.key: prop.value for prop in kept}, KEY: text})
    if proto is not model:
        onnx.save(proto, model)


def export(module, args=(), path=None, *, external_data=None, **options):
    """torch.onnx.export that keeps parameters apart, annotated.

    `dynamo=False` asks for the older exporter, which then folds nothing; what
    it merges is told apart by the compiler. Returns the ONNXProgram, if there
    is one.
    """
    import torch

    options.setdefault("dynamo", True)
    if not options["dynamo"]:
        options.setdefault("do_constant_folding", False)
        torch.onnx.export(module, args, path, **options)
        annotate(path, module)
        return None
    options.setdefault("optimize", False)
    options.setdefault("verbose", False)
    program = torch.onnx.export(module, args, **options)
    drop_traces(program.model.graph.all_nodes())
    annotate(program, module)
    if path is not None:
        if external_data is None:
            size = sum(p.nbytes for p in module.parameters())
            external_data = size > 1 << 30
        program.save(path, external_data=external_data)
    return program
