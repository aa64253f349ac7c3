#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random graphs through `shardonnx eval`, against ONNX Runtime and PyTorch.

    run.py [--shardonnx build/bin/shardonnx] [--seed N] [--graphs N] [--seconds N]
           [--kind compiled|folded|gradients|empty] [--ops REGEX] [--only PACK | --first PACK]
           [--jobs N] [--keep DIR] [--report FILE.json] [--verbose]

Some graphs share a model, and so one process; of one that does not give the
right answer the graph at fault is found and made small, and is written into
--keep beside its inputs. `--seed N --only PACK` makes the same graphs again.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import secrets
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "conformance"))

import backend
import fault
import judge
import kinds
import ops
import turns

PACK = 12  # graphs of a model
TURNS = ["compiled", "gradients", "compiled", "gradients", "compiled",
         "folded", "gradients", "compiled", "empty", "compiled"]

Pack = collections.namedtuple("Pack", "number count faults")


def draw_pack(number, options):
    """The graphs of a pack; a seed and a number say which."""
    rng = np.random.default_rng([options.seed, number])
    kind = kinds.KINDS[options.kind or TURNS[number % len(TURNS)]]
    opset = int(rng.choice(kinds.OPSETS))
    shapes = bool(rng.random() < 0.15)
    graphs = [kinds.draw(rng, kind, f"g{i}_", opset, shapes)
              for i in range(PACK)]
    return kind, [graph for graph in graphs if graph]


def run_pack(number, options):
    if options.ops:
        for name in list(ops.OPS):
            if not re.search(options.ops, name):
                del ops.OPS[name]
    kind, graphs = draw_pack(number, options)
    strict = number % 3 == 2
    trial = fault.Trial(kind, options.shardonnx, strict)
    found = [fault.shrink(trial, graph, said)
             for graph, said in fault.find(trial, graphs)]
    return Pack(number, len(graphs), found)


def packs(options):
    """Packs as they end: so many at most, and until the time is over."""
    most = options.graphs or (None if options.seconds else 240)
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        yield from turns.ended(pool, options, most, PACK, run_pack, options)


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--shardonnx", default=backend.DEFAULT_COMPILER)
    parser.add_argument("--seed", type=int, help="default: drawn")
    parser.add_argument("--graphs", type=int, metavar="N",
                        help="at most so many (240 without --seconds)")
    parser.add_argument("--seconds", type=float, metavar="N")
    parser.add_argument("--kind", choices=list(kinds.KINDS))
    parser.add_argument("--ops", help="regex over the names in OPS")
    parser.add_argument("--only", type=int, metavar="PACK")
    parser.add_argument("--first", type=int, metavar="PACK", default=0,
                        help="begin with this one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", metavar="DIR", default="random-graphs")
    parser.add_argument("--report", help="write the counts here")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = secrets.randbelow(1 << 31)
    return options


def main():
    options = parse_options()
    begin = time.monotonic()
    print(f"seed {options.seed}", flush=True)
    count, ends = 0, collections.Counter()
    for pack in packs(options):
        count += pack.count
        for each in pack.faults:
            ends[each.kind] += 1
            path = each.write(options.keep, f"{options.seed}-{pack.number}")
            print(f"FAIL --seed {options.seed} --only {pack.number}: "
                  f"{each.text()}\n  {path}", flush=True)
    said = ", ".join(f"{n} {kind}" for kind, n in sorted(ends.items()))
    bad = sum(ends.values())
    print(f"{count} graphs, {said or 'all right'}, "
          f"in {time.monotonic() - begin:.0f} s (seed {options.seed})")
    if options.report:
        with open(options.report, "w") as file:
            json.dump({"passed": count - bad, "failed": bad}, file)
    return 1 if bad or not count else 0


if __name__ == "__main__":
    sys.exit(main())
