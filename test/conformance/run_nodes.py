#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the node tests of the ONNX standard through `shardonnx eval`.

    run_nodes.py [--shardonnx build/bin/shardonnx] [--jobs N] [--filter REGEX]
                 [--check | --write] [--report FILE.json] [--verbose]

Every test ends as one of

    compiled  its outputs are right, and at least one was compiled
    folded    its outputs are right, all computed while compiling
    refused   one error that names an op and says what is not supported
    wrong     an output differs by onnx.backend's own tolerances
    crashed   anything else than an answer or one clear error
    hung      no end in time

nodes.txt has the recorded outcomes. The run fails if a test is wrong, crashes
or hangs, or if one that is recorded as passed no longer passes, or no longer
compiles. --write records this run in nodes.txt and docs/conformance.md;
--check fails also if these differ in any way from what --write would write.
"""

import argparse
import collections
import concurrent.futures
import functools
import json
import os
import re
import sys
import time
import warnings

import onnx.defs

import backend
import page

RECORDED = os.path.join(backend.HERE, "nodes.txt")
PAGE = os.path.join(backend.HERE, "..", "..", "docs", "conformance.md")
PASSED = ("compiled", "folded")
BROKEN = ("wrong", "crashed", "hung")
Outcome = collections.namedtuple("Outcome", "name op kind message")


def load_cases():
    """The standard's node tests; the package makes them, data and all."""
    warnings.simplefilter("ignore")  # of overflows in what the tests compute
    from onnx.backend.test.loader import load_model_tests
    return sorted(load_model_tests(kind="node"), key=lambda case: case.name)


def ops_of(cases):
    """The op that each test is about. An `_expanded` test is one op's too."""
    first = {case.name: case.model.graph.node[0].op_type for case in cases}
    stem = {name: re.sub(r"_expanded.*", "", name) for name in first}
    return {name: first.get(stem[name], op) for name, op in first.items()}


@functools.lru_cache
def known_ops():
    return {schema.name for schema in onnx.defs.get_all_schemas()}


def names_op(refusal):
    """Whether a refusal says which op it is about."""
    said = refusal.split("model.onnx", 1)[-1]
    return not known_ops().isdisjoint(re.findall(r"\w+", said))


def run_case(case, compiler):
    """The outcome of one test, and what there is to say about it."""
    from onnx.backend.test.runner import Runner, _normalize_tensor
    made = "folded"
    for inputs, expected in case.data_sets:
        names = [i.name for i in backend.graph_inputs(case.model)]
        arrays = [_normalize_tensor(array) for array in inputs]
        try:
            result = backend.evaluate(case.model, dict(zip(names, arrays)),
                                      compiler)
            Runner.assert_similar_outputs(
                [_normalize_tensor(array) for array in expected],
                list(result.outputs.values()), case.rtol, case.atol)
        except backend.Refused as refusal:
            kind = "refused" if names_op(str(refusal)) else "crashed"
            return kind, str(refusal)
        except backend.Crashed as crash:
            return "crashed", str(crash)
        except backend.Hung as hang:
            return "hung", str(hang)
        except AssertionError as difference:
            return "wrong", str(difference)
        if result.compiled > 0:
            made = "compiled"
    return made, ""


def run_all(cases, options):
    ops = ops_of(cases)
    chosen = [case for case in cases if re.search(options.filter, case.name)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        ends = pool.map(lambda case: run_case(case, options.shardonnx), chosen)
        return [Outcome(case.name, ops[case.name], *end)
                for case, end in zip(chosen, ends)]


def read_recorded():
    if not os.path.exists(RECORDED):
        return {}
    with open(RECORDED) as file:
        return dict(line.split() for line in file if line[0] != "#")


def recorded_text(outcomes):
    lines = ["# Written by run_nodes.py --write: each node test's outcome."]
    lines += [f"{outcome.name} {outcome.kind}" for outcome in outcomes]
    return "\n".join(lines) + "\n"


def failures(outcomes, recorded):
    """Lines about what must not be."""
    for outcome in outcomes:
        before = recorded.get(outcome.name)
        if outcome.kind in BROKEN:
            yield f"{outcome.name}: {outcome.kind}: {outcome.message}"
        elif before in PASSED and outcome.kind == "refused":
            yield f"{outcome.name}: passed before: {outcome.message}"
        elif before == "compiled" and outcome.kind == "folded":
            yield f"{outcome.name}: was compiled before, is folded now"


def drifted(outcomes):
    """The recorded files that are not what this run would write."""
    for path, text in ((RECORDED, recorded_text(outcomes)),
                       (PAGE, page.text(outcomes))):
        with open(path) as file:
            if file.read() != text:
                yield os.path.normpath(path)


def write(outcomes):
    for path, text in ((RECORDED, recorded_text(outcomes)),
                       (PAGE, page.text(outcomes))):
        with open(path, "w") as file:
            file.write(text)


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shardonnx", default=backend.DEFAULT_COMPILER)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--filter", default="", help="regex over test names")
    parser.add_argument("--report", help="write counts and outcomes here")
    parser.add_argument("--verbose", action="store_true",
                        help="print every outcome")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.filter and (options.check or options.write):
        parser.error("--check and --write are about all tests: no --filter")
    return options


def main():
    options = parse_options()
    start = time.time()
    outcomes = run_all(load_cases(), options)
    recorded = {} if options.write else read_recorded()
    bad = list(failures(outcomes, recorded))
    if options.verbose:
        for outcome in outcomes:
            print(outcome.name, outcome.kind, outcome.message)
    if options.write and not bad:
        write(outcomes)
    if options.check:
        bad += [f"{path} has drifted: run run_nodes.py --write and commit"
                for path in drifted(outcomes)]
    counts = collections.Counter(outcome.kind for outcome in outcomes)
    passed = sum(counts[kind] for kind in PASSED)
    more = sum(o.kind in PASSED and recorded.get(o.name) not in PASSED
               for o in outcomes) if recorded else 0
    for line in bad:
        print("FAIL", line)
    if more:
        print(f"{more} tests pass that are recorded as refused: run "
              "run_nodes.py --write and commit")
    print(", ".join(f"{counts[kind]} {kind}" for kind in
                    (*PASSED, "refused", *BROKEN)) +
          f" of {len(outcomes)} node tests in {time.time() - start:.0f} s")
    if options.report:
        with open(options.report, "w") as file:
            json.dump({"passed": passed, "failed": len(bad),
                       "outcomes": [o._asdict() for o in outcomes]}, file,
                      indent=1)
    return 1 if bad or passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
