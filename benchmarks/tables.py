# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results of benchmarks/run as Markdown."""

from contenders import WORKLOADS, ratios

MIB = 1 << 20


def head(results):
    """What stands above the tables, as lines."""
    header = results.header
    yield (f"- machine: {header['machine']}, {header['cores']} cores, "
           f"{header['isa']}")
    yield f"- PyTorch {header['pytorch']}, commit {header['commit']}"
    limits = results.limits()
    for dtype in ("f32", "bf16"):
        if (dtype, "product") in limits:
            torch = limits.get((dtype, "torch"))
            yield (f"- products of {dtype}: {limits[dtype, 'product']:.0f} "
                   "GFLOP/s ours at 2048 x 2048 x 2048, "
                   + (f"{torch:.0f} PyTorch's, " if torch else "")
                   + f"{limits[dtype, 'instructions']:.0f} by the rate of the "
                   "instructions")
    for line in results.of("compile"):
        yield (f"- compiling {line['what']}: {line['seconds']:.1f} s, "
               f"{line['rss'] / MIB:.0f} MiB resident")


def table(columns, rows):
    yield "| " + " | ".join(columns) + " |"
    yield "|" + " --- |" * len(columns)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def row_of(name, row):
    if "failed" in row:
        return [name, "failed", *[""] * 6]
    return [name, number(row["rate"]), f"{row['ms']:.0f}",
            f"{row['share']:.0%}" if "share" in row else "",
            f"{row['quiet']:.0%}", f"{row['rss'] / MIB:.0f}",
            f"{row['pss'] / MIB:.0f}",
            f"{row['parting']:.1e}" if "parting" in row else ""]


def number(rate):
    return f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"


def bar(found, wanted, least):
    """A figure beside what is asked of it."""
    if not wanted:
        return f"{found:.2f}"
    met = found >= wanted if least else found <= wanted
    return f"{found:.2f} ({wanted:g}{'' if met else ': missed'})"


def ratio_rows(workload, found, results):
    limits = results.limits()
    equal = (limits.get(("f32", "torch"), 0) >=
             0.95 * limits.get(("f32", "product"), float("inf")))
    flags = results.header.get("bf16_products", False)
    for ours, theirs, speed, memory in ratios(workload, flags, equal):
        if all("rate" in found.get(name, {}) for name in (ours, theirs)):
            a, b = found[ours], found[theirs]
            yield [f"{ours} : {theirs}",
                   bar(a["rate"] / b["rate"], speed, True),
                   bar(a["rss"] / b["rss"], memory, False),
                   f"{a['pss'] / b['pss']:.2f}"]


def section(workload, results):
    """A workload's tables, as lines."""
    work, found = WORKLOADS[workload], results.contenders(workload)
    counted = {len(turn["ms"]) for turn in results.of("turn")
               if turn["workload"] == workload and "ms" in turn}
    rounds = {turn["round"] for turn in results.of("turn")
              if turn["workload"] == workload}
    yield f"### {work.title}"
    yield ""
    steps = " or ".join(str(count) for count in sorted(counted)) or "no"
    yield (f"{len(rounds)} round{'s' * (len(rounds) > 1)}, {steps} steps "
           f"counted in each; {work.samples} samples a rank and step.")
    yield ""
    yield from table(["", f"{work.unit}/s", "ms a step", "of the products' "
                      "limit", "quiet steps", "RSS MiB a rank",
                      "PSS MiB a rank", "losses part by"],
                     [row_of(name, row) for name, row in found.items()])
    lines = list(ratio_rows(workload, found, results))
    if lines:
        yield ""
        yield from table(["ratio (asked for)", f"{work.unit}/s", "RSS", "PSS"],
                         lines)
    for name, row in found.items():
        if "failed" in row:
            yield f"\n{name} failed: {row['failed'].splitlines()[0]}"


def faults(results):
    """What makes the run fail: contenders that failed or that train something
    else."""
    for workload in results.workloads():
        for name, row in results.contenders(workload).items():
            if "failed" in row:
                yield f"{workload}, {name}: {row['failed'].splitlines()[0]}"
            if "differs" in row:
                yield (f"{workload}: {name} and {row['differs']} do not train "
                       f"the same model: losses differ by "
                       f"{row['parting']:.1e}")


def document(results):
    """All of it."""
    lines = list(head(results))
    for workload in results.workloads():
        lines += ["", *section(workload, results)]
    return "\n".join(lines) + "\n"
