# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# What optimize=True does to matrices that are used twice: a transposed copy of a
# tied embedding, which the head alone reads, two transposed copies of one linear
# weight. With "unused", modules that nothing calls have parameters, too, one of
# which stands alone in its own.

from onnxfile import *


def linear(x, w, y, weight, path):
    fx = "%%n : [num_users=1] = call_function[target=torch.ops.aten.linear.default](args = (%%x, %%p_%s), kwargs = {})"
    return node("MatMul", [x, w], [y], y, meta={
        "pkg.torch.onnx.fx_node": fx % weight,
        "pkg.torch.onnx.name_scopes": repr(["", path, y])})


unused = "".join(
    f"p_{name.replace('.', '_')}: PARAMETER target='{name}'\n" for name in
    ("pooler.weight", "pooler.bias", "cross.q.weight", "cross.q.bias",
     "cross.k.weight"))
folded = "pkg.onnxscript.optimizer.folded_from"
write(
    model(
        graph(
            [
                node("Gather", ["wte.weight", "ids"], ["x"], "embed", meta={
                    "pkg.torch.onnx.fx_node": "%embedding : [num_users=1] = call_function[target=torch.ops.aten."
                    "embedding.default](args = (%p_wte_weight, %ids), kwargs = {})",
                    "pkg.torch.onnx.name_scopes": repr(["", "wte", "x"])}),
                linear("x", "val_1", "a", "fc", "fc"),
                linear("a", "val_2", "b", "fc", "fc"),
                linear("b", "val_3", "logits", "wte_weight", "head"),
            ],
            [value("ids", [2, 3], INT64)],
            [value("logits", [2, 3, 8])],
            [
                tensor("wte.weight", [8, 4], raw=floats(32)),
                tensor("val_1", [4, 4], raw=floats(16)),
                tensor("val_2", [4, 4], raw=floats(16)),
                tensor("val_3", [4, 8], raw=floats(32)),
            ],
            [
                value("val_1", [4, 4], meta={folded: "['fc']"}),
                value("val_2", [4, 4], meta={folded: "['fc']"}),
                value("val_3", [4, 8], meta={folded: "['wte.weight']"}),
            ],
            {
                "pkg.torch.export.ExportedProgram.graph_signature": "# inputs\n"
                + (unused if "unused" in sys.argv else "") +
                "p_head_weight: PARAMETER target='head.weight'\n"
                "p_wte_weight: PARAMETER target='wte.weight'\np_fc: PARAMETER target='fc'\nids: USER_INPUT\n"
            },
        )
    )
)
