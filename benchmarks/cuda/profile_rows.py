# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where each side's time goes, by phase and by kernel, without a profiler.

Ours writes a trace (--trace, through CUPTI), PyTorch its own profiler's.
"""

import phases
from rows import SPEED_LEARNING_RATE, Row, Skip

STEPS = 8  # of a traced run; the last of them are in the trace
TRACED = 3
KERNELS = 25  # that the results keep of each
PEERS = ("eager", "fsdp2-compile")


def add(session, row, who, trace, steps, name):
    """A trace as a result, and the trace itself beside the results."""
    result = phases.analyse(phases.read(trace), steps)
    session.keep(f"{row}-{name}.json", trace)
    session.add(row, "phases", who=who,
                **dict(result, kernels=result["kernels"][:KERNELS]))


def profile_ours(session, work, row):
    trace = session.scratch("trace.json")
    words = ["--data", session.path(session.bundle["speed_data"]),
             "--lr", SPEED_LEARNING_RATE, "--init", "random", "--trace", trace,
             "--trace-steps", f"{STEPS - TRACED + 1}-{STEPS}"]
    session.ours(work["program"], STEPS, words, limit=120)
    add(session, row, "shardonnx", trace, TRACED, "shardonnx")


def profile_peer(session, work, row, mode):
    trace = session.scratch("peer-trace.json")
    session.peer_run(work, mode, None, 240, steps=STEPS,
                     more=["--profile", trace, "--profile-steps",
                           str(TRACED)])
    add(session, row, mode, trace, TRACED, mode)


def profile_row(work):
    name = f"profile-{work['name']}"

    def run(session):
        profile_ours(session, work, name)
        session.need_torch()
        if not session.cuda:
            raise Skip("PyTorch's traces of a CPU have no kernels")
        for mode in PEERS:
            if mode in work["peers"] and mode in session.options.peers:
                profile_peer(session, work, name, mode)

    return Row(name, 400, run)


def rows(bundle):
    for work in bundle["workloads"]:
        if work["recompute"] == "none":
            yield profile_row(work)
