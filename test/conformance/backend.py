# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shardonnx as an `onnx.backend`: every run is one `shardonnx eval`.

The standard's own runner takes the class below:

    import onnx.backend.test
    from backend import ShardonnxBackend
    globals().update(onnx.backend.test.BackendTest(ShardonnxBackend, __name__).test_cases)

and counts what Shardonnx refuses as skipped. run_nodes.py, which tells refused
from passed, crashed and hung, calls `evaluate` itself.
"""

import os
import re
import subprocess
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.base import Backend, BackendRep
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

HERE = os.path.dirname(os.path.abspath(__file__))
DEFAULT_COMPILER = os.path.join(HERE, "..", "..", "build", "bin", "shardonnx")
TIMEOUT = 120  # seconds; one node takes less than one

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SUMMARY = re.compile(r"(\d+) outputs? compiled, (\d+) folded")


class Refused(Exception):
    """The graph is not supported; the message is Shardonnx's one line."""


class Crashed(Exception):
    """Shardonnx ended otherwise than by an answer or by one clear error."""


class Hung(Exception):
    """Shardonnx did not end in time."""


class Result:
    """What one evaluation gave: arrays by name, and how they were made."""

    def __init__(self, outputs, gradients, compiled, folded):
        self.outputs = outputs
        self.gradients = gradients
        self.compiled = compiled
        self.folded = folded


def file_name(name):
    """The file that eval writes the value `name` to, without its suffix."""
    return re.sub(rb"[^A-Za-z0-9._~-]", lambda c: b"%%%02X" % c[0][0],
                  name.encode()).decode()


def graph_inputs(model):
    """The graph's inputs that need a value."""
    known = {tensor.name for tensor in model.graph.initializer}
    return [i for i in model.graph.input if i.name not in known]


def save(path, array):
    # numpy has no bfloat16 of its own: files hold two opaque bytes.
    array = np.asarray(array)
    np.save(path, array.view("V2") if array.dtype == BFLOAT16 else array)


def load(path):
    array = np.load(path)
    return array.view(BFLOAT16) if array.dtype == np.dtype("V2") else array


def evaluate(model, inputs, compiler=DEFAULT_COMPILER, grad=False,
             timeout=TIMEOUT, more=()):
    """Runs `model` on `inputs`, arrays by name, in one process; `more` are
    options of eval."""
    with tempfile.TemporaryDirectory(prefix="conformance") as folder:
        path = os.path.join(folder, "model.onnx")
        with open(path, "wb") as file:
            file.write(model.SerializeToString())
        out = os.path.join(folder, "out")
        words = [compiler, "eval", path, "--output-dir", out]
        words += ["--grad"] if grad else []
        words += more
        for i, (name, array) in enumerate(inputs.items()):
            # Sequences and optionals have no file: the graph is refused.
            if isinstance(array, (np.ndarray, np.generic)) and \
                    array.dtype != object:
                source = os.path.join(folder, f"input{i}.npy")
                save(source, array)
                words += ["--input", f"{name}={source}"]
        said = call(words, timeout)
        summary = SUMMARY.search(said)
        if not summary:
            raise Crashed("eval does not say what it did: " + said)
        files = {name: load(os.path.join(out, name)) for name in os.listdir(out)}
    return collect(model, files, grad, *map(int, summary.groups()))


def collect(model, files, grad, compiled, folded):
    """Arrays of files under the graph's names."""
    wanted = [output.name for output in model.graph.output]
    missing = [n for n in wanted if file_name(n) + ".npy" not in files]
    if missing:
        raise Crashed("eval wrote no output " + ", ".join(missing))
    outputs = {name: files[file_name(name) + ".npy"] for name in wanted}
    gradients = {}
    if grad:
        names = [i.name for i in model.graph.input]
        names += [i.name for i in model.graph.initializer]
        gradients = {name: files[file_name(name) + ".grad.npy"]
                     for name in names if file_name(name) + ".grad.npy" in files}
    return Result(outputs, gradients, compiled, folded)


def call(words, timeout):
    """Standard output of eval, or one of the exceptions above."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    try:
        done = subprocess.run(words, capture_output=True, text=True,
                              errors="replace", timeout=timeout,
                              env=environment)
    except subprocess.TimeoutExpired:
        raise Hung(f"no end after {timeout} s") from None
    if done.returncode == 0:
        return done.stdout
    lines = [line for line in done.stderr.strip().split("\n")
             if not line.startswith("shardonnx: warning: ")]
    clear = len(lines) == 1 and lines[0].startswith("shardonnx: error: ")
    if done.returncode == 1 and clear:
        raise Refused(lines[0])
    raise Crashed(f"exit status {done.returncode}: " + " | ".join(lines[-3:]))


class ShardonnxRep(BackendRep):
    """A model that is ready to run."""

    def __init__(self, model, compiler):
        self.model = model
        self.compiler = compiler

    def run(self, inputs, **kwargs):
        names = [i.name for i in graph_inputs(self.model)]
        try:
            result = evaluate(self.model, dict(zip(names, inputs)),
                              self.compiler)
        except Refused as refusal:
            raise BackendIsNotSupposedToImplementIt(str(refusal)) from None
        return tuple(result.outputs.values())


class ShardonnxBackend(Backend):
    """`onnx.backend`'s view of build/bin/shardonnx, or $SHARDONNX."""

    @classmethod
    def prepare(cls, model, device="CPU", **kwargs):
        if not cls.supports_device(device):
            raise BackendIsNotSupposedToImplementIt(f"no device {device}")
        compiler = os.environ.get("SHARDONNX", DEFAULT_COMPILER)
        return ShardonnxRep(model, compiler)

    @classmethod
    def run_node(cls, node, inputs, device="CPU", outputs_info=None, **kwargs):
        version = kwargs.get("opset_version", onnx.defs.onnx_opset_version())
        arrays = [np.asarray(array) for array in inputs]
        given = dict(zip([name for name in node.input if name], arrays))
        described = [onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in given.items()]
        made = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", described, made)
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", version)])
        return cls.run_model(onnx.shape_inference.infer_shapes(model), arrays,
                             device)

    @classmethod
    def supports_device(cls, device):
        return device.split(":")[0] == "CPU"
