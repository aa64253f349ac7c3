# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/conformance.md, from the outcomes of a run of all node tests."""

import collections
import re

import onnx

HEAD = """# ONNX conformance

<!-- Written by test/conformance/run_nodes.py --write; don't edit by hand -->

The standard's own node tests, {total} in onnx {version}, each run by `shardonnx eval` and compared by `onnx.backend`'s own tolerances
(1e-3 relative, 1e-7 absolute). `test/run` runs them all and fails if one is wrong, crashes or hangs, or if one that passed no longer does.

| outcome | tests | |
| --- | ---: | --- |
| compiled | {compiled} | right; the op ran as native code, by the passes and kernels that training uses |
| folded | {folded} | right; computed while compiling, from the inputs: what shapes a program, and types that do not train |
| refused | {refused} | one error that says which op or type is not supported |
| wrong, crashed, hung | {broken} | |

`test/conformance/gradients.py` checks the gradients of every differentiable op against central differences in f64 (`eval --grad`).
`test/random/run.py` draws graphs of several ops and compares them with ONNX Runtime and PyTorch ([test/random](../test/random/README.md)).
To run one test: `test/conformance/run_nodes.py --filter test_softmax_axis_1 --verbose`.
"""

REASON_LENGTH = 95


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |",
             "| --- |" + " ---: |" * 4 + (" --- |" if len(head) > 5 else "")]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def reason(message):
    """What a refusal says, without the file and the nodes."""
    said = re.sub(r"^shardonnx: error: ('[^']*\.onnx'|[^ ]*\.onnx): ", "", message)
    said = re.sub(r"^these ONNX ops are not supported: ", "", said)
    said = re.sub(r"control flow is not supported: ([^;]*).*", r"\1", said)
    said = re.sub(r" \('[^)]*\)", "", said)
    said = re.sub(r" ×\d+", "", said)
    return said.replace("|", "\\|")


def types(message):
    """The types that a refusal names, as they stand in brackets."""
    return re.findall(r"\(([^()']*)\)", message)


def reasons(outcomes):
    """The types that are missing, then the commonest of other refusals."""
    missing, others = set(), collections.Counter()
    for outcome in outcomes:
        if "types that are not supported" in outcome.message:
            missing.update(types(outcome.message))
        else:
            others[reason(outcome.message)] += 1
    said = [", ".join(sorted(missing))] if missing else []
    said += [other for other, _ in others.most_common()]
    return shortened("; ".join(said))


def shortened(said):
    if len(said) <= REASON_LENGTH:
        return said
    return said[:REASON_LENGTH].rsplit(" ", 1)[0] + " …"


def text(outcomes):
    counts = collections.Counter(o.kind for o in outcomes)
    by_op = collections.defaultdict(list)
    for outcome in outcomes:
        by_op[outcome.op].append(outcome)
    passed, refused = [], []
    for op, ends in sorted(by_op.items()):
        kinds = collections.Counter(o.kind for o in ends)
        row = [op, len(ends), kinds["compiled"], kinds["folded"],
               kinds["refused"]]
        no = [o for o in ends if o.kind == "refused"]
        if no:
            refused.append(row + [reasons(no)])
        else:
            passed.append(row)
    head = ["op", "tests", "compiled", "folded", "refused"]
    return "\n".join([
        HEAD.format(total=len(outcomes), version=onnx.__version__,
                    compiled=counts["compiled"], folded=counts["folded"],
                    refused=counts["refused"],
                    broken=counts["wrong"] + counts["crashed"] + counts["hung"]),
        f"## Ops of which every test passes: {len(passed)}\n",
        table(head, passed),
        f"## Ops of which tests are refused: {len(refused)}\n",
        "What is refused: an element type or a kind of value, or an op.\n",
        table(head + ["why"], refused)])
