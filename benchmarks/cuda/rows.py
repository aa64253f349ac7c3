# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a row is, and the rows that ask whether the executables are right.

A row is a name, a limit in seconds, a function of the session that appends
results, and one that tells of results whether the row is over. Raising Skip
leaves a row, or the rest of it, out, with the reason; any other exception is
how it failed. What a row that `keeps` has found, a later call adds to.
"""

import concurrent.futures
import json
import math
import os
import re
import statistics
from collections import namedtuple

import check
import measure
from machine import OPTIONAL

# How a row ends that a later call takes up again.
UNFINISHED = ("cut off", "stopped")


def ended(results):
    """Whether a row came to an end, good or bad."""
    return any(r["kind"] == "end" and r["status"] not in UNFINISHED
               for r in results)


Row = namedtuple("Row", "name limit run over keeps", defaults=[ended, False])

STEPS = 20  # that are recorded
SAMPLES = 12  # of one step, however they are dealt out
LEARNING_RATE = "1e-3"
# Of large models, which are compared for speed: at ten times this one a model
# of 3 B parameters leaves its first weights in leaps, after which a program
# does not repeat its own losses.
SPEED_LEARNING_RATE = "1e-5"
NORM_RTOL = {"f32": 1e-3, "bf16": 5e-2, "fp8": 1e-2}
LOSS_RTOL = {"f32": 1e-4, "bf16": 1e-2, "fp8": 1e-3}
# NCCL lets ranks share a GPU from this version on, if it is told to.
SHARING_NCCL = 23000
STRATEGIES = ("full_shard", "shard_grad_op", "no_shard")


class Skip(Exception):
    """The machine lacks what the row, or the rest of it, needs."""


def relative(first, second, key):
    """Each step's relative difference."""
    return [check.relative(a.get(key), b[key]) for a, b in zip(first, second)]


def faults(steps, reference, precision, of_norms=max):
    """Worst errors against a run of equally many steps; raises if too big."""
    if len(steps) != len(reference):
        raise RuntimeError(f"{len(steps)} steps in the log, not "
                           f"{len(reference)}")
    loss = max(relative(steps, reference, "loss"))
    norm = of_norms(relative(steps, reference, "grad_norm"))
    if not (loss <= LOSS_RTOL[precision] and norm <= NORM_RTOL[precision]):
        raise RuntimeError(
            f"losses part by {loss:.1e} (allowed {LOSS_RTOL[precision]:.0e}), "
            f"gradient norms by {norm:.1e} (allowed "
            f"{NORM_RTOL[precision]:.0e})")
    return {"loss_error": loss, "norm_error": norm}


def train_check(session, model, program, ranks=1, steps=None, samples=SAMPLES,
                words=(), **options):
    """A tiny model's run: the samples of a step dealt out to the ranks."""
    words = ["--data", session.path(session.bundle["check_data"]),
             "--model", session.path(model["graph"]), "--lr", LEARNING_RATE,
             "--accumulate", str(samples // ranks), *words]
    if ranks > 1:
        words += ["--nproc", str(ranks)]
    return session.ours(model["programs"][program],
                        steps or session.options.steps, words, **options)


def recorded(session, model, precision):
    with open(session.path(model["recorded"][precision])) as file:
        run = json.load(file)
    steps = [{"loss": loss, "grad_norm": norm}
             for loss, norm in zip(run["loss"], run["grad_norm"])]
    return steps[:session.options.steps]


def references(session):
    """PyTorch's runs of all tiny models here, by model and precision.

    All in one process, started when first asked for: starting PyTorch takes
    longer than the runs. A failure is remembered and raised again.
    """
    if session.references is None:
        try:
            session.references = train_references(session)
        except (RuntimeError, OSError, Skip) as error:
            session.references = error
    if isinstance(session.references, Exception):
        raise session.references
    return session.references


def train_references(session):
    session.need_torch()
    logs, words = {}, []
    for model in session.bundle["checks"]:
        for precision in model["recorded"]:
            log = session.scratch(f"torch-{model['name']}-{precision}.jsonl")
            logs[model["name"], precision] = log
            words += (["+"] if words else []) + [
                model["preset"], "--shape", model["shape"], "--mode",
                "eager" if precision == "f32" else "fsdp2",
                "--precision", precision,
                "--weights", session.path(model["weights"]),
                "--data", session.path(session.bundle["check_data"]),
                "--batch", str(SAMPLES),
                "--steps", str(session.options.steps),
                "--lr", LEARNING_RATE, "--log", log]
    session.peer(words, session.scratch("torch-checks.jsonl"), 240)
    return {key: measure.steps_in(log) for key, log in logs.items()}


def check_row(model, precision):
    """Ours against PyTorch here, and against the run recorded elsewhere."""
    name = f"{precision}-{model['name']}"

    def run(session):
        steps = train_check(session, model, precision)
        here = faults(steps, recorded(session, model, precision), precision)
        session.add(name, "check", against="the recorded PyTorch run", **here)
        reference = references(session)[model["name"], precision]
        session.add(name, "check", against="PyTorch on this machine",
                    **faults(steps, reference, precision))

    return Row(name, 240, run)


def strict_row(model):
    name = f"strict-{model['name']}"
    keys = ("step", "loss", "grad_norm", "lr")

    def run(session):
        first, second = (train_check(session, model, "strict")
                         for _ in range(2))
        errors = faults(first, recorded(session, model, "f32"), "f32")
        session.add(name, "check", against="the recorded PyTorch run",
                    **errors)
        bits = [[[step.get(key) for key in keys] for step in steps]
                for steps in (first, second)]
        if bits[0] != bits[1]:
            step = next(i for i, (a, b) in enumerate(zip(*bits)) if a != b)
            raise RuntimeError(f"two runs differ from step {step + 1} on: "
                               f"{bits[0][step]} and {bits[1][step]}")
        session.add(name, "check", against="itself, bit for bit",
                    loss_error=0.0, norm_error=0.0)

    return Row(name, 120, run)


def ranks_row(model, ranks):
    """Every strategy on several ranks against one rank.

    They share a GPU where there are fewer GPUs than ranks.
    """
    name = f"ranks-{ranks}-{model['name']}"

    def run(session):
        env = {}
        if session.cuda and session.devices() < ranks:
            env = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "LD_LIBRARY_PATH":
                   ":".join(session.nccl_folders(SHARING_NCCL))}
        alone = train_check(session, model, "full_shard")
        wrong = []
        for strategy in STRATEGIES:
            try:
                errors = faults(train_check(session, model, strategy, ranks,
                                            env=env), alone, "f32")
            except RuntimeError as error:
                wrong.append(f"{strategy}: {error}")
                continue
            session.add(name, "check", **errors,
                        against=f"one rank ({strategy})")
        if wrong:
            raise RuntimeError("; ".join(wrong))

    return Row(name, 240, run)


def documents_row(model):
    """Packed documents: by cuDNN, by our own kernels, by both in one run; and by
    cuDNN with NaN where nothing has been written yet."""
    name = f"documents-{model['name']}"
    runs = {"cuDNN": ("all", {}),
            "our own kernels": ("all", {"SHARDONNX_CUDA_CUDNN_DOCUMENTS": "0"}),
            "both": ("some", {}),
            "cuDNN, NaN in free memory": ("all", {}, ("--debug-memory",))}

    def run(session):
        expected = recorded(session, model, "bf16")
        steps, refused = {}, []
        for how, (program, env, *words) in runs.items():
            steps[how] = train_check(session, model, program, env=env,
                                     words=words[0] if words else ())
            session.add(name, "check", **faults(steps[how], expected, "bf16"),
                        against=f"the recorded PyTorch run ({how})")
            refused += session.said_by_ours("attention runs on kernels of")
        session.add(name, "check", against="cuDNN against our own kernels",
                    **faults(steps["cuDNN"], steps["our own kernels"], "bf16"))
        if any("does not start" in line for line in refused):
            raise Skip(refused[0])
        if refused:
            raise RuntimeError(refused[0])

    return Row(name, 120, run)


def eight_bits_row(model):
    """Products of 8 bits with torch's own float8, by each recipe.

    A value that lies between two of 8 bits is rounded up in one program and
    down in another, which a single step's norm may show (the seventeenth of
    llama-fp8 is off by 2.6e-2 on a CPU, and by 0.1 where products are changed
    by 2^-13, the others by 2e-4 and 2e-3 at most): of norms the median counts.
    """
    name = f"fp8-{model['name']}"

    def run(session):
        for recipe in model["recorded"]:
            steps = train_check(session, model, recipe)
            session.add(name, "check", against="the recorded PyTorch run "
                        f"({recipe}; median of norms)",
                        **faults(steps, recorded(session, model, recipe),
                                 "fp8", statistics.median))

    return Row(name, 120, run)


# Recorded runs at a time: they mostly wait for the driver.
TOGETHER = 4


def train_case(session, case):
    """Errors of a recorded run, or what is wrong with it."""
    words = ["--data", session.path(case["data"]),
             "--model", session.path(case["graph"]),
             "--accumulate", str(case["accumulate"]), *case["run"]]
    if case["adapter"]:
        words += ["--adapter", session.path(case["adapter"])]
    try:
        # Timing algorithms would take longer than all the rest.
        steps = session.ours(case["program"], STEPS, words, limit=120,
                             env={"SHARDONNX_TUNE": "0"},
                             log=session.scratch(f"case-{case['name']}.jsonl"))
    except (RuntimeError, OSError) as error:
        return 0.0, 0.0, [str(error)]
    with open(session.path(case["recorded"])) as file:
        reference = json.load(file)
    median = case["eight_bits"]  # of norms, as in eight_bits_row
    loss, norm, faults = check.compare(
        steps, reference, case["loss_rtol"],
        math.inf if median else case["norm_rtol"])
    if median:
        norm = statistics.median(
            check.relative(step.get("grad_norm"), expected)
            for step, expected in zip(steps, reference["grad_norm"]))
        if norm > case["norm_rtol"]:
            faults.append(f"the median of norms is off by {norm:.1e}, allowed "
                          f"{case['norm_rtol']:.0e}")
    return loss, norm, faults


def cases_row(found):
    """Every architecture, loss, optimizer, adapter and dtype that is
    recorded."""
    def run(session):
        session.program("")  # taken out of the archive by one of them
        wrong = []
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            results = pool.map(lambda case: train_case(session, case), found)
            for case, (loss, norm, faults) in zip(found, results):
                wrong += [f"{case['name']}: {f}" for f in faults[:1]]
                if not faults:
                    session.add("cases", "check", against=case["name"],
                                loss_error=loss, norm_error=norm)
        if wrong:
            raise RuntimeError(f"{len(wrong)} of {len(found)}: "
                               + "; ".join(wrong))

    return Row("cases", 600, run)


def sanitizer_row(model, tool):
    """compute-sanitizer over a few steps; its summary must say zero."""
    name = f"{tool}-{model['name']}"

    def run(session):
        if not session.cuda:
            raise Skip("the executables are for the CPU")
        if not session.sanitizer:
            raise Skip("compute-sanitizer is not on this machine")
        report = session.scratch(name + ".txt")
        failed = None
        try:
            # Two microbatches run every function, two steps what a graph
            # repeats; timing algorithms would take for ever.
            train_check(session, model, "full_shard", steps=2, samples=2,
                        limit=200, env={"SHARDONNX_TUNE": "0"}, prefix=[
                            session.sanitizer, "--tool", tool,
                            "--target-processes", "all", "--error-exitcode",
                            "77", "--log-file", report])
        except RuntimeError as error:
            failed = error  # what the tool says comes first
        said = ""
        if os.path.exists(report):
            with open(report, errors="replace") as file:
                said = file.read().strip()
        found = re.findall(r"SUMMARY: (\d+) (?:error|hazard)", said)
        if any(int(n) for n in found):
            raise RuntimeError(said.split("\n")[-1] + "\n" + said[:4000])
        if failed or not found:
            raise failed or RuntimeError(f"no summary: {said[-300:]!r}")
        session.add(name, "check", against=f"{tool}, 2 steps",
                    loss_error=0.0, norm_error=0.0)

    return Row(name, 210, run)


def machine_row(session):
    """The libraries must be there before anything is tried."""
    machine = session.describe()
    session.add("machine", "machine", **machine)
    lacking = [f"{name} ({found['missing']})"
               for name, found in machine["libraries"].items()
               if "missing" in found and name not in OPTIONAL]
    if session.cuda and not machine["gpus"]:
        lacking.append("a GPU (the driver shows none)")
    if lacking:
        raise RuntimeError("not found: " + ", ".join(lacking))
    session.try_program()


def correctness(bundle):
    """The rows, in order of worth."""
    models = bundle["checks"]
    yield Row("machine", 200, machine_row)
    for precision in ("f32", "bf16"):
        for model in models:
            if precision in model["recorded"]:
                yield check_row(model, precision)
    for model in bundle.get("documents", ()):
        yield documents_row(model)
    for model in bundle.get("eight_bits", ()):
        yield eight_bits_row(model)
    if bundle.get("cases"):
        yield cases_row(bundle["cases"])
    for model in models:
        if "strict" in model["programs"]:
            yield strict_row(model)
    for ranks in (2, 4):
        for model in models:
            if all(s in model["programs"] for s in STRATEGIES):
                yield ranks_row(model, ranks)


def sanitizers(bundle):
    for tool in ("memcheck", "racecheck"):
        for model in bundle["checks"]:
            if "strict" in model["programs"]:
                yield sanitizer_row(model, tool)

