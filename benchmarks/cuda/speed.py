# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows that measure: speed and memory beside PyTorch, and time to start.

Every turn's result stays by itself, so a row may be cut off and taken up by a
later call, which runs what is missing.
"""

import math
import os

import measure
import phases
import profile_rows
from rows import SPEED_LEARNING_RATE, Row, Skip

# PyTorch's contenders, in order of worth; the modes are peer.py's.
PEERS = ("eager", "compile", "fsdp2", "fsdp2-compile")
OURS = "shardonnx"
# Limits of one turn in seconds. Compiling a model takes PyTorch a while.
LIMITS = {OURS: 120, "eager": 180, "fsdp2": 180, "compile": 330,
          "fsdp2-compile": 330}
# Bytes a parameter that both sides must hold: f32 master, gradient and two
# moments. The rest of the peak is what the program adds.
STATE_BYTES = 16
MEMORY = "out of memory"
OUT_OF_MEMORY = ("OutOfMemory", "out of memory", "CUDA_ERROR_OUT_OF_MEMORY")
# Contenders start from the same weights and see the same tokens, so at no step
# may their losses part by more than this.
LOSS_RTOL = 0.02


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


def parting(losses, reference):
    """By how much two runs' losses part, at most, and at which step."""
    errors = [abs(a - b) / abs(b) for a, b in zip(losses, reference)]
    worst = max(range(len(errors)), key=errors.__getitem__)
    return errors[worst], worst + 1


def check_losses(who, losses, reference):
    """The largest difference from the reference, who is named first."""
    named, expected = reference
    error, step = parting(losses, expected)
    if not error <= LOSS_RTOL:
        raise RuntimeError(
            f"trains something else than {named}: at step {step} the losses "
            f"are {losses[step - 1]:.4f} and {expected[step - 1]:.4f}, "
            f"{error:.1%} apart ({LOSS_RTOL:.0%} are allowed)")
    return error


def largest(steps, key):
    values = [step[key] for step in steps
              if isinstance(step.get(key), (int, float))]
    return max(values) if values else None


def ours_words(session):
    return ["--data", session.path(session.bundle["speed_data"]),
            "--lr", SPEED_LEARNING_RATE, "--init", "random"]


def take_turn(session, work, who):
    """One run of one contender, as a result."""
    watch = session.watch()
    if who == OURS:
        steps = session.ours(work["program"], work["steps"],
                             ours_words(session), watch=watch,
                             limit=LIMITS[who])
    else:
        steps = session.peer_run(work, who, watch, LIMITS[who])
    times = well_formed(steps, work["steps"])
    return dict(ms=times[measure.WARM_UP:], first_s=watch.first_step,
                # What is in use, and what is held for use: by the plan and
                # as measured on our side, by the allocator on PyTorch's.
                peak_bytes=largest(steps, "peak_bytes"),
                held_bytes=largest(steps, "pss_bytes" if who == OURS
                                   else "reserved_bytes"),
                process_bytes=watch.peak, gpu=watch.conditions(),
                losses=[round(step["loss"], 6) for step in steps],
                **({"sdpa": steps[0]["sdpa"]} if who != OURS else
                   {"warnings": session.said_by_ours("warning:")}))


def eight_bits(work):
    """Whether its products are of 8 bits."""
    return work["precision"].startswith("fp8")


def chosen_peers(session, work, name, wanted):
    """PyTorch's contenders; none, with the reason as a result, without it."""
    try:
        session.need_torch()
    except Skip as reason:
        session.add(name, "note", text=f"without PyTorch: {reason}")
        return ()
    if eight_bits(work) and not session.torch()["torchao"]:
        session.add(name, "note", text="without PyTorch, whose products of 8 "
                    "bits are torchao's: there is none")
        return ()
    return [peer for peer in wanted or work["peers"]
            if peer in session.options.peers]


def measured(results, who):
    """The turns of a contender that came to an end."""
    return [r for r in results if r["kind"] == "turn" and r["who"] == who
            and "failed" not in r]


def missing(results, work, wanted=()):
    """The contenders of a row that have not had a turn, whatever came of it;
    ours is one of them."""
    had = {r["who"] for r in results if r["kind"] == "turn"}
    if any(r["kind"] == "note" for r in results):  # there is no PyTorch
        wanted = [OURS]
    return [who for who in [OURS, *(wanted or work["peers"])]
            if who not in had]


class Turns:
    """The turns of one row, in one call."""

    def __init__(self, session, work, earlier):
        self.session, self.work, self.name = session, work, work["name"]
        self.faults = [f"{r['who']}: {r['failed']}" for r in earlier
                       if r["kind"] == "turn" and "failed" in r
                       and r["failed"] != MEMORY]
        self.out = set()
        found = measured(earlier, OURS)
        self.reference = (OURS, found[0]["losses"]) if found else None
        self.profiled = any(r["kind"] == "phases" and r["who"] == OURS
                            for r in earlier)

    def take(self, who):
        if who in self.out:
            return
        turn = {}
        try:
            turn = take_turn(self.session, self.work, who)
            if self.reference:
                turn["loss_error"] = check_losses(who, turn["losses"],
                                                  self.reference)
            else:
                self.reference = who, turn["losses"]
            self.session.add(self.name, "turn", who=who, **turn)
        except (RuntimeError, OSError) as error:
            text = str(error)
            self.out.add(who)
            memory = any(word in text for word in OUT_OF_MEMORY)
            # What it measured is kept, for whoever looks for the reason.
            self.session.add(self.name, "turn", who=who, **dict(
                turn, failed=MEMORY if memory else text))
            # That PyTorch needs more than there is, is a result.
            if who == OURS or not memory:
                self.faults.append(f"{who}: {text}")

    def profile(self):
        """Where our time goes, early, so that a row cut off has it, too."""
        if self.profiled or OURS in self.out:
            return
        self.profiled = True
        try:
            profile_rows.profile_ours(self.session, self.work, self.name)
        except (RuntimeError, OSError, phases.Unknown) as error:
            self.faults.append(f"phases: {error}")


def speed_row(work, wanted=()):
    """`wanted`: of PyTorch's contenders, only these."""
    name = work["name"]

    def run(session):
        earlier = session.earlier(name)
        session.add(name, "workload", **{k: work[k] for k in (
            "title", "batch", "seq", "recompute", "precision", "parameters",
            "flops", "planned_bytes")})
        row = Turns(session, work, earlier)
        peers = chosen_peers(session, work, name, wanted)
        if session.options.session:
            todo = missing(earlier, work, wanted)
            peers = [peer for peer in peers if peer in todo]
        for who in turns(peers, session.rounds):
            row.take(who)
            row.profile()
        if row.faults:
            raise RuntimeError("; ".join(row.faults))

    return Row(name, work["limit"], run,
               lambda results: not missing(results, work, wanted),
               keeps=True)


def start_row(work):
    """Seconds from exec to the first step's line, with and without a cache."""
    name = f"start-{work['name']}"

    def run(session):
        cache = session.scratch("start-cache")
        for which in ("first", "second"):
            watch = session.watch(interval=0.005)
            session.ours(work["program"], 4, ours_words(session), watch=watch,
                         cache=cache, limit=120,
                         env={"SHARDONNX_VERBOSE": "1"})
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
