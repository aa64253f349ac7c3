# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What PyTorch's exporter says of what forward writes. `ema` is subtracted from
# what the loss is the mean square of, `seen` only adds to a second output, and
# the batch norm's statistics are only updated. Kinds: signature; folded (the
# exporter has doubled `ema` itself); older (no signature, a batch norm alone).

import sys

from onnxfile import *

kind = sys.argv.pop(1)
older = kind == "older"


def traced(call, target, arguments):
    return {} if older else {
        "pkg.torch.onnx.fx_node": "%%%s : [num_users=1] = call_function[target=torch.ops.aten.%s.default]"
        "(args = (%s), kwargs = {})" % (call, target, arguments)}


ema = "mul" if kind == "folded" else "ema"
norm = {} if not older else dict(training_mode=1)
statistics = ["norm.running_mean", "norm.running_var"]
nodes = [
    node("Mul", ["x", "w"], ["y"], "node_y", meta=traced("y", "mul", "%x, %p_w")),
    node("BatchNormalization", ["y", "norm.weight", "norm.bias", *statistics],
         ["n", "mean", "var"] if older else ["n"], "node_norm", **norm,
         meta=traced("n", "batch_norm", "%y, %p_norm_weight, %p_norm_bias, %b_norm_running_mean, "
                     "%b_norm_running_var, True, 0.1, 1e-05, True")),
]
if older:
    nodes += [node("ReduceMean", ["n"], ["loss"], "node_loss", keepdims=0)]
else:
    nodes += [
        node("Sub", ["n", ema], ["d"], "node_d", meta=traced("d", "sub", "%n, %b_ema")),
        node("ReduceMean", ["d"], ["loss"], "node_loss", keepdims=0, meta=traced("loss", "mean", "%d")),
        node("Add", ["n", "seen"], ["other"], "node_other", meta=traced("other", "add", "%n, %b_seen")),
    ]
vector = lambda name: tensor(name, [3], raw=floats(3, 1))
arrays = [vector(name) for name in ["w", "norm.weight", "norm.bias", *statistics] +
          ([] if older else [ema, "seen"])]
signature = "\n".join(["", "# inputs", "p_w: PARAMETER target='w'"] +
                      [f"p_norm_{n}: PARAMETER target='norm.{n}'" for n in ("weight", "bias")] +
                      [f"b_{n.replace('.', '_')}: BUFFER target='{n}' persistent=True"
                       for n in ["ema", "seen", *statistics]] +
                      ["x: USER_INPUT", "", "# outputs"] +
                      [f"new_{i}: BUFFER_MUTATION target='{n}'" for i, n in enumerate(["ema", "seen", *statistics])] +
                      ["loss: USER_OUTPUT", "other: USER_OUTPUT", ""])
infos = [value("mul", [3], meta={"pkg.onnxscript.optimizer.folded_from": "['ema', 'val_0']"})] if kind == "folded" else []
write(
    model(
        graph(
            nodes,
            [value("x", [2, 3])],
            [value("loss", [])] + ([] if older else [value("other", [2, 3])]),
            arrays,
            infos,
            {} if older else {"pkg.torch.export.ExportedProgram.graph_signature": signature},
        )
    )
)
