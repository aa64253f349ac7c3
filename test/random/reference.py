# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a node gives, by ONNX Runtime, else by ONNX's reference evaluator."""

import functools
import sys
import warnings

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

import as_numpy
import values

try:
    import onnxruntime
except ImportError:
    sys.exit("ONNX Runtime is missing, which judges random graphs: "
             "./setup test installs it")


class Refused(Exception):
    """Neither computes this node."""


def element_type(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


# Ops for which ONNX Runtime is not right where an operand is not finite: its
# pools begin with the least finite number instead of -inf (PyTorch's do not),
# its gates are cut off far from zero, so that they never are inf or NaN, and
# its PRelu and its linear Resize leave out what PyTorch's multiply by zero, and
# its instance norm subtracts the mean after the product with the scale.
FINITE = {"MaxPool", "GlobalMaxPool", "LSTM", "GRU", "RNN", "PRelu", "Resize",
          "InstanceNormalization"}

# Ops for which the place of a NaN among numbers decides what ONNX Runtime gives,
# as it does where a place is given the maximum or minimum of what is scattered.
NO_NAN = {"Unique"}

# Norms square what they read, products add up what they multiply: beyond this
# it overflows, and the order of the terms decides whether inf or NaN remains.
NORMS = {"LayerNormalization", "RMSNormalization", "BatchNormalization",
         "InstanceNormalization", "GroupNormalization", "LpNormalization",
         "MeanVarianceNormalization"}
PRODUCTS = {"MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose"}
LARGEST_TERM = 1e15

# What is beyond it is infinite in f32.
LARGEST = float(np.finfo(np.float32).max)


def check_attention(operands):
    """When scores are scaled decides which of them overflow, and what is then
    added to what; a mask may hide by -inf or the least finite number."""
    for i, array in enumerate(operands):
        mask = i == 3 and array.dtype != values.BOOL
        wide = array.astype(np.float64)
        if not np.isfinite(np.where(wide < 0, 0, wide) if mask else wide).all() \
                or (wide if mask else np.abs(wide)).max() > LARGEST_TERM:
            raise Refused("Attention: its scores overflow")


def check_spread(x, axes):
    """Where numbers are nearly equal, a variance is what rounding leaves."""
    if x.size == 0:
        return
    with np.errstate(all="ignore"):
        if (x.var(axes) <= 1e-3 * (x * x).mean(axes)).any():
            raise Refused("the variance is that of rounding")


def check_order(op, x):
    """Where some order of the terms or factors overflows, and another does not,
    that order decides."""
    x = np.abs(x[np.isfinite(x)])
    with np.errstate(all="ignore"):
        most = x.sum() if op != "ReduceProd" else np.maximum(x, 1).prod()
    if most > LARGEST:
        raise Refused(f"{op}: the order of its operands decides")


def check_types(node, arrays):
    """That the opset has the op of these types, which are given as f32."""
    try:
        schema = onnx.defs.get_schema(node.op, node.opset)
    except Exception:
        raise Refused(f"{node.op}: not in opset {node.opset}") from None
    if not schema.min_input <= len(node.inputs) <= schema.max_input or \
            len(node.outputs) > schema.max_output or \
            not set(node.attributes) <= set(schema.attributes):
        raise Refused(f"{node.op}: not of this form in opset {node.opset}")
    for i, name in enumerate(node.inputs):
        formal = schema.inputs[min(i, len(schema.inputs) - 1)]
        kind = onnx.TensorProto.DataType.Name(
            element_type(arrays[name].dtype)).lower() if name else ""
        if name and f"tensor({kind})" not in formal.types:
            raise Refused(f"{node.op}: not of {kind} in opset {node.opset}")


def check_judged(node, arrays):
    """Raises Refused where the reference is no judge."""
    op = node.op
    # The default axis of a matrix is none of a vector.
    if op in ("Softmax", "LogSoftmax", "Hardmax") and node.opset < 13 and \
            arrays[node.inputs[0]].ndim == 1 and "axis" not in node.attributes:
        raise Refused(f"{op}: a vector has no axis 1")
    if op == "Attention":
        check_attention([arrays[name] for name in node.inputs if name])
    floats = [a.astype(np.float64) for a in arrays.values()
              if values.is_float(a.dtype)]
    if op in FINITE and not all(np.isfinite(a).all() for a in floats):
        raise Refused(f"{op}: not of what is not finite")
    extremes = node.attributes.get("reduction") in ("max", "min")
    if (op in NO_NAN or extremes) and any(np.isnan(a).any() for a in floats):
        raise Refused(f"{op}: not of NaN")
    # ONNX Runtime takes a bound that is absent for the largest finite number.
    if op == "Clip" and len(arrays) < 3 and floats and \
            np.isinf(floats[0]).any():
        raise Refused("Clip: not of infinities")
    if op in NORMS | PRODUCTS and any(
            (np.abs(a[np.isfinite(a)]) > LARGEST_TERM).any() for a in floats):
        raise Refused(f"{op}: its terms overflow")
    # By default in f32, whatever the type; ONNX Runtime does it in f64.
    if op in NORMS and any(a.dtype == values.DOUBLE for a in arrays.values()):
        raise Refused(f"{op}: not of f64")
    # PyTorch makes an exponent a float first, which may be even then.
    if op == "Pow" and not values.is_float(arrays[node.inputs[1]].dtype) and \
            (np.abs(arrays[node.inputs[1]].astype(np.float64)) > 2**24).any():
        raise Refused("Pow: its exponent is no f32")
    if op == "MeanVarianceNormalization":
        check_spread(floats[0], tuple(node.attributes.get("axes", (0, 2, 3))))
    if op == "LayerNormalization":
        check_spread(floats[0], tuple(range(
            node.attributes["axis"] % floats[0].ndim, floats[0].ndim)))
    if op == "InstanceNormalization":
        check_spread(floats[0], tuple(range(2, floats[0].ndim)))
    # A row that is not finite has no deviation; ONNX Runtime gives zero or NaN.
    if op == "LayerNormalization" and len(node.outputs) > 1 and \
            not np.isfinite(floats[0]).all():
        raise Refused("LayerNormalization: its deviation is none")
    if op in ("ReduceSum", "ReduceMean", "ReduceProd", "CumSum") and floats:
        check_order(op, floats[0])
    # The power 0.5 is a square root, as PyTorch's, unless --strict-numerics: of
    # -inf it is none.
    if op == "Pow" and floats and np.isneginf(floats[0]).any() and \
            (np.abs(arrays[node.inputs[1]].astype(np.float64)) == 0.5).any():
        raise Refused("Pow: no root of -inf")
    # So does its batch norm: (x + inf) * -inf becomes a difference of infinities.
    if op == "BatchNormalization" and not all(
            np.isfinite(arrays[name].astype(np.float64)).all()
            for name in node.inputs[1:]):
        raise Refused("BatchNormalization: not of statistics that are no numbers")
    # ONNX Runtime leaves C out where its factor is zero.
    if op == "Gemm" and not all(np.isfinite(a).all() for a in floats[2:]):
        raise Refused("Gemm: not of an addend that is not finite")


class Node:
    """One node of a graph; it keeps what computes it."""

    def __init__(self, op, inputs, outputs, attributes, opset):
        self.op = op
        self.inputs = inputs
        self.outputs = outputs
        self.attributes = attributes
        self.opset = opset
        self.session = None
        self.renamed = None
        self.overflowed = False  # a number that f32 has and f16 has not

    def __getstate__(self):
        # Sessions are of this process.
        return self.__dict__ | {"session": None, "renamed": None}

    def apart(self):
        """The same with operands of which no two have one name, so that one
        value that is read twice is two."""
        if len(set(self.inputs)) == len(self.inputs):
            return self
        if self.renamed is None:
            names = [f"operand{i}" if name else ""
                     for i, name in enumerate(self.inputs)]
            self.renamed = Node(self.op, names, self.outputs, self.attributes,
                                self.opset)
        return self.renamed

    def proto(self):
        return helper.make_node(self.op, self.inputs, self.outputs,
                                self.outputs[0], **self.attributes)

    def evaluate(self, arrays, judged=True):
        """Its outputs, given its inputs by name; raises Refused where they
        would be no judge, unless that was asked before."""
        # Neither has arithmetic of bf16, and that of f16 is not rounded alike.
        small = {a.dtype for a in arrays.values()
                 if a.dtype in (values.HALF, values.BFLOAT16)}
        if judged:
            check_types(self, arrays)
        if self.op in ("Cast", "CastLike"):
            return [self.cast(arrays)]
        if judged:
            check_judged(self, arrays)
        if not small:
            return self.compute(arrays)
        wide = {name: a.astype(values.FLOAT) if a.dtype in small else a
                for name, a in arrays.items()}
        # What a layer norm says of its rows is f32.
        kept = 1 if self.op == "LayerNormalization" else len(self.outputs)
        made = self.compute(wide)
        with np.errstate(all="ignore"):
            narrow = [a.astype(min(small, key=str))
                      if a.dtype == values.FLOAT and i < kept else a
                      for i, a in enumerate(made)]
        if judged:
            self.overflowed = any(
                (np.isinf(few) & np.isfinite(many)).any()
                for few, many in zip(narrow, made) if values.is_float(few.dtype))
        return narrow

    def cast(self, arrays):
        x = arrays[self.inputs[0]]
        to = self.attributes.get("to")
        to = (helper.tensor_dtype_to_np_dtype(to) if to
              else arrays[self.inputs[1]].dtype)
        with np.errstate(all="ignore"):
            # To bf16 from f64, and back from it, by way of f32.
            if to == values.BFLOAT16 or x.dtype == values.BFLOAT16:
                x = x.astype(values.FLOAT)
            return x.astype(to)

    def compute(self, arrays):
        kinds = {name: (a.dtype, a.shape) for name, a in arrays.items()}
        if (made := self.by_numpy(arrays)) is not None:
            return made
        if self.session is None or self.session[0] != kinds:
            self.session = (kinds, self.make_session(arrays))
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                made = self.session[1](arrays)
        except Exception as error:
            raise Refused(f"{self.op}: {error}") from None
        return [np.asarray(array) for array in made]

    def by_numpy(self, arrays):
        """Its outputs where PyTorch's rule is NumPy's, else nothing."""
        if self.op not in as_numpy.OPS:
            return None
        made = as_numpy.OPS[self.op](self, *[arrays[name] if name else None
                                             for name in self.inputs])
        if made is None:
            return None
        return [np.asarray(a) for a in
                (made if isinstance(made, tuple) else (made,))]

    def model(self, arrays):
        inputs = [helper.make_tensor_value_info(
            name, element_type(array.dtype), array.shape)
            for name, array in arrays.items()]
        graph = helper.make_graph(
            [self.proto()], "node", inputs,
            [onnx.ValueInfoProto(name=name) for name in self.outputs if name])
        return helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid("", self.opset)])

    def make_session(self, arrays):
        try:
            model = onnx.shape_inference.infer_shapes(
                self.model(arrays), check_type=True, strict_mode=True)
        except Exception as error:
            raise Refused(f"{self.op}: {error}") from None
        wanted = [name for name in self.outputs if name]
        if self.op not in WRONG_IN_RUNTIME:
            try:
                session = onnxruntime.InferenceSession(
                    model.SerializeToString(), session_options(),
                    providers=["CPUExecutionProvider"])
                return functools.partial(session.run, wanted)
            except Exception:  # its kinds of errors have no base of their own
                pass
        # It has the newer ops only, whatever the opset.
        if self.op in WRONG_IN_EVALUATOR or self.opset < OLDEST_EVALUATED:
            raise Refused(f"{self.op}: the reference evaluator is not right")
        try:
            evaluator = ReferenceEvaluator(model)
        except Exception as error:
            raise Refused(f"{self.op}: {error}") from None
        return functools.partial(evaluator.run, wanted)


# Ops for which ONNX Runtime does not say what the standard says.
WRONG_IN_RUNTIME = {}

# Ops for which ONNX's reference evaluator does not.
WRONG_IN_EVALUATOR = {}
OLDEST_EVALUATED = 18


@functools.lru_cache
def session_options():
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.graph_optimization_level = \
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options
