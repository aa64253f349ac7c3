# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows that measure: speed and memory beside PyTorch, and time to start."""

import math
import os

import measure
from rows import Row, Skip

# PyTorch's contenders, in order of worth; the modes are peer.py's.
PEERS = ("eager", "compile", "fsdp2", "fsdp2-compile")
OURS = "shardonnx"
# Limits of one turn in seconds. Compiling a model takes PyTorch a while.
LIMITS = {OURS: 120, "eager": 180, "fsdp2": 180, "compile": 330,
          "fsdp2-compile": 330}
# Bytes a parameter that both sides must hold: f32 master, gradient and two
# moments. The rest of the peak is what the program adds.
STATE_BYTES = 16
LEARNING_RATE = "1e-4"
OUT_OF_MEMORY = ("OutOfMemory", "out of memory", "CUDA_ERROR_OUT_OF_MEMORY")


def turns(peers, rounds):
    """Ours before, between and after the others."""
    for _ in range(rounds):
        for peer in peers:
            yield OURS
            yield peer
        yield OURS


def well_formed(steps, wanted):
    """The times of a whole run that trained, or an error."""
    if len(steps) != wanted:
        raise RuntimeError(f"{len(steps)} steps in the log, not {wanted}")
    for number, step in enumerate(steps):
        for key in ("loss", "step_ms"):
            value = step.get(key)
            if not isinstance(value, (int, float)) or not math.isfinite(value):
                raise RuntimeError(f"step {number + 1}: {key} is {value!r}")
        if step["step_ms"] <= 0:
            raise RuntimeError(f"step {number + 1} took no time")
    if not steps[-1]["loss"] < steps[0]["loss"]:
        raise RuntimeError(f"the loss did not fall: {steps[0]['loss']:.4f} -> "
                           f"{steps[-1]['loss']:.4f}")
    return [step["step_ms"] for step in steps]


def largest(steps, key):
    values = [step[key] for step in steps
              if isinstance(step.get(key), (int, float))]
    return max(values) if values else None


def take_turn(session, work, who):
    """One run of one contender, as a result."""
    device = session.device_memory()
    if who == OURS:
        words = ["--data", session.path(session.bundle["speed_data"]),
                 "--lr", LEARNING_RATE, "--init", "random"]
        steps = session.ours(work["program"], work["steps"], words,
                             watch=device, limit=LIMITS[who])
    else:
        steps = session.peer_run(work, who, device, LIMITS[who])
    times = well_formed(steps, work["steps"])
    return dict(ms=times[measure.WARM_UP:], first_s=device.first_step,
                # What is in use, and what is held for use: by the plan and
                # as measured on our side, by the allocator on PyTorch's.
                peak_bytes=largest(steps, "peak_bytes"),
                held_bytes=largest(steps, "pss_bytes" if who == OURS
                                   else "reserved_bytes"),
                process_bytes=device.peak, first_loss=steps[0]["loss"],
                last_loss=steps[-1]["loss"],
                **({"sdpa": steps[0]["sdpa"]} if who != OURS else
                   {"warnings": session.said_by_ours("warning:")}))


def chosen_peers(session, work, name):
    """PyTorch's contenders; none, with the reason as a result, without it."""
    try:
        session.need_torch()
    except Skip as reason:
        session.add(name, "note", text=f"without PyTorch: {reason}")
        return ()
    return [peer for peer in work["peers"] if peer in session.options.peers]


def speed_row(work):
    name = work["name"]

    def run(session):
        session.add(name, "workload", **{k: work[k] for k in (
            "title", "batch", "seq", "recompute", "precision", "parameters",
            "flops", "planned_bytes")})
        faults, out = [], set()
        for who in turns(chosen_peers(session, work, name), session.rounds):
            if who in out:
                continue
            try:
                session.add(name, "turn", who=who,
                            **take_turn(session, work, who))
            except (RuntimeError, OSError) as error:
                text = str(error)
                out.add(who)
                memory = any(word in text for word in OUT_OF_MEMORY)
                session.add(name, "turn", who=who, failed="out of memory"
                            if memory else text)
                # That PyTorch needs more than there is, is a result.
                if who == OURS or not memory:
                    faults.append(f"{who}: {text}")
        if faults:
            raise RuntimeError("; ".join(faults))

    return Row(name, work["limit"], run)


def start_row(work):
    """Seconds from exec to the first step's line, with and without a cache."""
    name = f"start-{work['name']}"

    def run(session):
        cache = session.scratch("start-cache")
        for which in ("first", "second"):
            watch = session.device_memory(interval=0.005)
            session.ours(work["program"], 4, [
                "--data", session.path(session.bundle["speed_data"]),
                "--lr", LEARNING_RATE, "--init", "random"], watch=watch,
                cache=cache, limit=120, env={"SHARDONNX_VERBOSE": "1"})
            if watch.first_step is None:
                raise RuntimeError("the first step's line was never seen")
            files = sum(len(f) for _, _, f in os.walk(cache))
            session.add(name, "start", which=which, seconds=watch.first_step,
                        cached_files=files,
                        phases=session.said_by_ours("start:"))

    return Row(name, 240, run)


def rows(bundle):
    for work in bundle["workloads"]:
        yield speed_row(work)
        if work.get("start"):
            yield start_row(work)
