#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where a step's time went, from a trace: products, attention, elementwise
kernels, loss, optimizer, collectives, copies, and nothing at all.

    phases.py TRACE.json [--json] [--kernels N]

Reads what an executable's --trace writes, and what PyTorch's profiler exports.
Every moment between the first and the last thing that the device did counts
once: for the kernel that computes, if there is one; else for a collective that
runs; else for a copy; else it is idle. So the phases add up to the whole.
"""

import argparse
import collections
import gzip
import json
import re
import sys

PHASES = ("GEMM", "attention", "elementwise", "loss", "optimizer",
          "collectives", "copies", "idle")

# The first that finds its words in a kernel's name has it.
NAMES = [(phase, re.compile(words, re.IGNORECASE)) for phase, words in (
    ("collectives", r"nccl|shx_k_cast_slice|shx_k_round_slice|"
                    r"shx_k_encode_slice|shx_k_decode_images|"
                    r"shx_k_sum_slices|all_gather_copy|"
                    r"split_with_sizes_copy|chunk_cat"),
    ("attention", r"attention|flash|fmha|sdpa"),
    ("loss", r"cross_entropy|softmax|nll_loss|shx_k_loss_add|"
             r"shx_k_sum_losses"),
    ("optimizer", r"optimizer|adam|multi_tensor|lpnorm|grad_norm|"
                  r"shx_k_squares|shx_k_norm_finish|shx_k_sum_doubles"),
    ("GEMM", r"gemm|shx_k_grouped|gemv|nvjet|cutlass|xmma|cublas|splitk|^sm\d+_"))]

# Rows of our traces in which a device works, and PyTorch's categories.
COMPUTE = ("compute", "update", "kernel")
COMMUNICATE = ("gather", "reduce", "replicas")
COPY = ("copy", "gpu_memcpy", "gpu_memset")
OUR_COPIES = ("copy", "fill", "copy to the GPU", "copy to the host")


class Unknown(Exception):
    """The trace does not tell."""


def phase_of(name, row="compute"):
    """Of a piece of work, by its row and its name."""
    if row in COMMUNICATE:
        return "collectives"
    if row in COPY or name in OUR_COPIES:
        return "copies"
    return next((phase for phase, words in NAMES if words.search(name)),
                "elementwise")


def rank(phase):
    """What counts when several run at once: less is more."""
    return {"collectives": 1, "copies": 2}.get(phase, 0)


def read(path):
    opened = gzip.open if path.endswith(".gz") else open
    try:
        with opened(path, "rt", errors="replace") as file:
            trace = json.load(file)
    except ValueError as error:
        raise Unknown(f"{path} is no trace: {error}") from None
    if isinstance(trace, list):
        trace = {"traceEvents": trace}
    if not isinstance(trace, dict) or \
            not isinstance(trace.get("traceEvents"), list):
        raise Unknown(f"{path} is no trace: it has no traceEvents")
    return trace


def spans(trace):
    """Begin, end, phase and name of the work of the device, of the first
    rank, in order."""
    events = [e for e in trace["traceEvents"]
              if isinstance(e, dict) and e.get("ph") == "X"
              and e.get("cat") in COMPUTE + COMMUNICATE + COPY]
    if not events:
        said = trace.get("otherData", {}).get("ranks", [{}])[0].get("missing")
        raise Unknown("the trace has no rows of the device"
                      + (f" ({said})" if said else ""))
    first = min(e["pid"] for e in events) if "otherData" in trace else None
    found = [(e["ts"], e["ts"] + e["dur"], phase_of(e["name"], e["cat"]),
              e["name"]) for e in events if first in (None, e["pid"])]
    return sorted(found)


def attribute(found):
    """Phase -> microseconds; every moment counts once."""
    marks = sorted([(begin, 1, phase) for begin, _, phase, _ in found]
                   + [(end, -1, phase) for _, end, phase, _ in found])
    times = dict.fromkeys(PHASES, 0.0)
    running, last = collections.Counter(), marks[0][0]
    for at, change, phase in marks:
        there = [p for p in PHASES if running[p] > 0]
        times[min(there, key=rank) if there else "idle"] += at - last
        running[phase] += change
        last = at
    return times


def steps_of(trace, default):
    other = trace.get("otherData", {})
    if "first_step" in other:
        return other["last_step"] - other["first_step"] + 1
    return default


def kernels_of(found, steps):
    """What ran, by name, the longest first; of a step."""
    times, counts = collections.Counter(), collections.Counter()
    kind = {}
    for begin, end, phase, name in found:
        times[name] += end - begin
        counts[name] += 1
        kind[name] = phase
    return [dict(name=short(name), phase=kind[name], ms=time / 1e3 / steps,
                 count=counts[name] / steps, mean_us=time / counts[name])
            for name, time in times.most_common()]


def short(name):
    """A kernel's name without what no table has room for."""
    name = re.sub(r"^void |\(anonymous namespace\)::", "", name)
    name = re.sub(r"\(.*$", "", name) or name
    return name if len(name) <= 100 else name[:60] + " … " + name[-37:]


def analyse(trace, steps=1):
    """Milliseconds of a step by phase, and the kernels. `steps`: how many the
    trace has, where it does not say so itself."""
    found = spans(trace)
    steps = steps_of(trace, steps)
    times = attribute(found)
    return dict(steps=steps, step_ms=sum(times.values()) / 1e3 / steps,
                phases={p: t / 1e3 / steps for p, t in times.items()},
                launches=len(found) / steps,
                kernels=kernels_of(found, steps))


def text(result, kernels):
    lines = [f"{result['step_ms']:.3f} ms a step, of {result['steps']} steps; "
             f"{result['launches']:.0f} launches a step"]
    for phase in PHASES:
        ms = result["phases"][phase]
        lines.append(f"{phase:12} {ms:10.3f} ms {ms / result['step_ms']:6.1%}")
    for k in result["kernels"][:kernels]:
        lines.append(f"{k['ms']:10.3f} ms {k['count']:7.1f} x "
                     f"{k['mean_us']:9.1f} us  {k['phase']:11} {k['name']}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", metavar="TRACE.json[.gz]")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--kernels", type=int, default=20, metavar="N")
    parser.add_argument("--steps", type=int, default=1, help="in the trace, "
                        "where it does not say so itself")
    options = parser.parse_args()
    try:
        result = analyse(read(options.trace), options.steps)
    except (Unknown, OSError) as error:
        sys.exit(f"phases.py: error: {error}")
    print(json.dumps(result) if options.json
          else text(result, options.kernels))


if __name__ == "__main__":
    main()
