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
     "stops_gradients": ["Quantiser", ...],
     "autocast": ["Rotary", ...], "regions": "no_grad"}

`names` are all names of a parameter in the state dict: several where modules
share it. `stops_gradients` are the classes whose code calls detach() or
torch.no_grad(), of which only `dynamo=True` leaves a trace; `autocast` those
that call torch.autocast(), which leaves the same one, and `regions` says, where
`export` has seen it, that all are of torch.no_grad(). The compiler trains what
requires a gradient, lists everything else by name and reason, and says where an
export in evaluation mode has lost dropout.
"""

import contextlib
import inspect
import json
import os
import re
import warnings

KEY = "shardonnx.module"
TRACE = "pkg.torch.onnx.stack_trace"


def classes_with(pattern, modules):
    """Classes of people's own in whose code the pattern stands."""
    found = set()
    for kind in map(type, modules):
        if kind.__module__.startswith("torch."):
            continue
        for function in vars(kind).values():
            function = inspect.unwrap(function) if callable(function) else None
            if not inspect.isfunction(function):
                continue
            try:
                code = inspect.getsource(function)
            except OSError:  # made without a file
                continue
            if re.search(pattern, code):
                found.add(kind.__name__)
    return sorted(found)


def stops_gradients(module):
    """Classes in whose code gradients may stop."""
    return classes_with(r"\.detach_?\(\)|no_grad\(|set_grad_enabled\(",
                        (m for m in module.modules() if list(m.parameters())))


def calls_autocast(module):
    """Classes whose code calls torch.autocast()."""
    return classes_with(r"\bautocast\(", module.modules())


@contextlib.contextmanager
def without_idle_autocast():
    """torch.autocast() that is not enabled does nothing, and is traced as what
    stands under torch.no_grad() is. Gives a list of all that are entered, of
    which true ones are enabled."""
    import torch

    kind = torch.autocast
    enter, leave, inside, seen = kind.__enter__, kind.__exit__, [], []

    def entered(self):
        inside.append(self._enabled or torch.is_autocast_enabled(self.device))
        seen.append(inside[-1])
        return enter(self) if inside[-1] else self

    def left(self, *error):
        return leave(self, *error) if inside.pop() else None

    kind.__enter__, kind.__exit__ = entered, left
    try:
        yield seen
    finally:
        kind.__enter__, kind.__exit__ = enter, leave


@contextlib.contextmanager
def noting_functions():
    """Gives a set of the torch.autograd.Function's of people's own that are
    applied: a graph has what their forward computes, and not their backward."""
    import torch

    function, used = torch.autograd.Function, set()
    apply = vars(function)["apply"]

    def applied(kind, *args, **options):
        if not kind.__module__.startswith("torch."):
            used.add(kind.__qualname__)
        return apply.__get__(None, kind)(*args, **options)

    function.apply = classmethod(applied)
    try:
        yield used
    finally:
        function.apply = apply


@contextlib.contextmanager
def without_checks():
    """The checks of transformers, as whether there are as many pictures as
    words for them, are of the example alone, and ops that no exporter knows."""
    name = "TRANSFORMERS_DISABLE_TORCH_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def changing_buffers(exported):
    """Buffers that forward changes and what it returns is made of: those of one
    step are the next one's in PyTorch. (A batch norm in training reads none.)"""
    signature = exported.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    made_of = {}
    for node in exported.graph.nodes:
        buffer = signature.inputs_to_buffers.get(node.name)
        if node.op == "placeholder":
            made_of[node.name] = {buffer} & changed
        elif node.op == "call_function" and "batch_norm" in str(node.target):
            made_of[node.name] = set()
        else:
            made_of[node.name] = set().union(
                *(made_of[read.name] for read in node.all_input_nodes))
    return sorted(set().union(*(made_of.get(name, set())
                                for name in signature.user_outputs)))


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
            "dropout": dropout, "stops_gradients": stops_gradients(module),
            "autocast": calls_autocast(module)}


def annotate(model, module, **known):
    """Adds the description of `module` to an export of it, and what is `known`.

    `model` is the path of a file, a torch.onnx.ONNXProgram that is not yet
    saved, or an onnx.ModelProto. The weights of a file are not read.
    """
    text = json.dumps({**describe(module), **known}, separators=(",", ":"))
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
        with without_checks():
            torch.onnx.export(module, args, path, **options)
        annotate(path, module)
        return None
    options.setdefault("optimize", False)
    options.setdefault("verbose", False)
    with without_checks(), without_idle_autocast() as seen, \
            noting_functions() as functions:
        program = torch.onnx.export(module, args, **options)
    if classes := classes_with(r"\.detach_\(\)", module.modules()):
        warnings.warn(
            f"no graph has the detach_() of {', '.join(classes)}: gradients "
            "would flow there. Write x = x.detach()", stacklevel=2)
    if functions:
        warnings.warn(
            f"no graph has the backward of {', '.join(sorted(functions))}: "
            "what the forward computes is differentiated. Write it with "
            "x + (f(x) - x).detach(), or of plain operations", stacklevel=2)
    if buffers := changing_buffers(program.exported_program):
        warnings.warn(
            f"forward changes {', '.join(buffers)}: a program has buffers as "
            "they were at the export, in every step. Compute what it reads of "
            "the batch alone, or make it an input", stacklevel=2)
    drop_traces(program.model.graph.all_nodes())
    # A capture by Dynamo enters no autocast by itself.
    known = bool(seen) or not calls_autocast(module)
    annotate(program, module,
             **({"regions": "no_grad"} if known and not any(seen) else {}))
    if path is not None:
        if external_data is None:
            size = sum(p.nbytes for p in module.parameters())
            external_data = size > 1 << 30
        program.save(path, external_data=external_data)
    return program
