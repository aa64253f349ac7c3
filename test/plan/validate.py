# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# `shardonnx plan --as=fsdp2` against published runs of MPT models under PyTorch
# FSDP (mpt-fsdp.csv: mosaicml/llm-foundry, scripts/train/benchmarking). Five
# physical figures of the execution are fitted on all clusters but one, and
# tested on that one. Rows in fp8 are not predicted: no plan is made in fp8.
#
#   validate.py [--table FILE.md] [--fit] [--record] [--parts FILE]
#   validate.py --others [--table FILE.md] [--fit]
#   validate.py --sample N
#
# Held-out rows have to keep a mean error of 0.06 and the right order in 0.95 of
# the pairs. --table writes every row's error between the marks of a page,
# --fit the figures that all clusters together give into the shipped ones, --record
# what these predict (predicted.csv), --parts keeps what predictions are made of.
# --others: Llamas under other executions (others.csv), and their memory, which has
# to be right within 0.05 on average.
# --sample takes every N-th row: a few say nothing of how good predictions are,
# only that they are those that were recorded, within a hundredth.

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile

import onnx  # noqa: F401, make_mpt needs it: say so before the work begins

import make_llama
import make_mpt

HERE = os.path.dirname(os.path.abspath(__file__))
EXECUTIONS = os.path.join(HERE, "../../lib/Cost/Executions")
SHIPPED = os.path.join(EXECUTIONS, "fsdp2.json")
RECORDED = os.path.join(HERE, "predicted.csv")
# Runs of Llamas under other executions. Of torch.compile one figure is fitted, on
# all publications but one; eager ones have those of the MPT runs.
OTHERS = os.path.join(HERE, "others.csv")
COMPILED = os.path.join(EXECUTIONS, "fsdp2-compile.json")
MODELS = {
    "125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12),
    "1b": (24, 2048, 16), "3b": (32, 2560, 20), "7b": (32, 4096, 32),
    "13b": (40, 5120, 40), "30b": (48, 7168, 56), "70b": (80, 8192, 64),
}  # fmt: skip
DEVICES = {"h100_80gb": "h100", "a100_80gb": "a100-80", "a100_40gb": "a100-40"}
# A parameter's least, most and first step. Memory's share is of 0.85 of the data
# sheet's rate, which nothing passes.
FITTED = {
    "product_share": (0.3, 1.0, 0.05),
    "attention_share": (0.2, 1.5, 0.1),
    "memory_share": (0.3, 1 / 0.85, 0.1),
    "unhidden": (0.0, 2.0, 0.1),
    "step_seconds": (0.0, 0.5, 0.01),
}


FITTED_COMPILED = ("product_share",)


def figures(path=SHIPPED):
    with open(path) as file:
        content = json.load(file)
    return {name: content[name]["value"] for name in FITTED}


def set_figures(path, values):
    with open(path) as file:
        content = json.load(file)
    for name, value in values.items():
        content[name]["value"] = value
    with open(path, "w") as out:
        json.dump(content, out, indent=2)
        out.write("\n")


def plan(row, folder):
    model, seq = row["model"], int(row["seq"])
    path = os.path.join(folder, f"{model}-{seq}.onnx")
    if not os.path.exists(path):
        with open(path, "wb") as out:
            out.write(make_mpt.build(*MODELS[model], seq).SerializeToString())
    recompute = "block" if row["activation_checkpointing"] == "True" else "none"
    return planned(
        row, path, "--as=fsdp2", "--gpus", row["gpus"],
        f"--device={DEVICES[row['gpu']]}", f"--batch={row['microbatch']}",
        f"--accumulate={row['grad_accum']}", f"--recompute={recompute}",
        f"--strategy={row['strategy'].lower()}", "--reduce-dtype=bf16",
    )  # fmt: skip


def planned(row, path, *options):
    done = subprocess.run(
        ["shardonnx", "plan", path, *options, "--param-dtype=bf16", "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode != 0:
        sys.exit(f"{row}: {done.stderr}")
    return json.loads(done.stdout)["plans"][0]


def plan_other(row, folder):
    path = os.path.join(folder, f"{row['model']}-{row['seq']}.onnx")
    if not os.path.exists(path):
        with open(path, "wb") as out:
            out.write(make_llama.build(row["model"], int(row["seq"])).SerializeToString())
    device = os.path.join(HERE, row["device"] + ".json")
    return planned(
        row, path, f"--as={EXECUTIONS}/{row['as']}.json", "--gpus", row["gpus"],
        "--gpus-per-node", row["per_node"], f"--batch={row['batch']}",
        f"--device={device if os.path.exists(device) else row['device']}",
        f"--accumulate={row['accumulate']}", f"--recompute={row['recompute']}",
        f"--strategy={row['strategy']}", f"--reduce-dtype={row['reduce']}",
    )  # fmt: skip


def seconds(way, now, given):
    """A step with the figures `given`, from one that was predicted with `now`."""
    late = way["exposed_ms"] - now["unhidden"] * way["collectives_ms"]
    parts = (("products_ms", "product_share"), ("attention_ms", "attention_share"), ("memory_ms", "memory_share"))
    total = sum(way[part] * now[share] / given[share] for part, share in parts)
    total += given["unhidden"] * way["collectives_ms"] + max(0.0, late)
    return total / 1e3 + given["step_seconds"]


class Run:
    def __init__(self, row, way, now):
        self.row, self.way, self.now = row, way, now
        self.measured = float(row["tokens_s_gpu"])
        self.tokens = way["tokens_per_s_per_gpu"] * way["step_ms"] / 1e3

    def ratio(self, given):
        return self.tokens / seconds(self.way, self.now, given) / self.measured


def fit(runs, start, names=tuple(FITTED)):
    """Coordinate descent on the mean of |log(predicted / measured)|."""

    def loss(given):
        return sum(abs(math.log(run.ratio(given))) for run in runs) / len(runs)

    best, least = dict(start), loss(start)
    steps = {name: FITTED[name][2] for name in names}
    for _ in range(14):
        for name in names:
            low, high, _ = FITTED[name]
            for sign in (1, -1):
                while True:
                    value = min(high, max(low, best[name] + sign * steps[name]))
                    tried = {**best, name: value}
                    if loss(tried) >= least - 1e-7:
                        break
                    best, least = tried, loss(tried)
        steps = {name: 0.6 * step for name, step in steps.items()}
    return best


def ordered(pairs):
    """Of pairs (predicted, measured) whose measured speeds differ by over 5 %."""
    right = count = 0
    for i, (p, m) in enumerate(pairs):
        for q, n in pairs[:i]:
            if max(m, n) > 1.05 * min(m, n):
                count += 1
                right += (p > q) == (m > n)
    return right, count


def summary(ratios):
    errors = [abs(ratio - 1) for ratio in ratios]
    return sum(errors) / len(errors), max(errors)


def write_table(path, clusters, held, every, final):
    lines = ["| cluster held out | rows | mean error | worst | figures fitted on the others |", "| --- | --- | --- | --- | --- |"]
    for name, (runs, given) in clusters.items():
        mean, worst = summary([run.ratio(given) for run in runs])
        text = ", ".join(f"{key} {value:.3f}" for key, value in given.items())
        lines.append(f"| {name} | {len(runs)} | {100 * mean:.1f} % | {100 * worst:.1f} % | {text} |")
    mean, worst = summary([run.ratio(given) for run, given in held])
    right, count = ordered([(run.ratio(given) * run.measured, run.measured) for run, given in held])
    lines.append(f"| **all, each held out** | {len(held)} | {100 * mean:.1f} % | {100 * worst:.1f} % | order right in {100 * right / count:.1f} % of {count} pairs that differ by over 5 % |")
    mean, worst = summary([run.ratio(final) for run in every])
    text = ", ".join(f"{key} {value:.3f}" for key, value in final.items())
    lines.append(f"| none: as shipped | {len(every)} | {100 * mean:.1f} % | {100 * worst:.1f} % | {text} |")
    lines += ["", "| GPUs | model | seq | batch x microbatches | strategy, recompute | measured tok/s a GPU | predicted, held out | error |", "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    for run, given in held:
        row, ratio = run.row, run.ratio(given)
        recompute = "block" if row["activation_checkpointing"] == "True" else "none"
        lines.append(
            f"| {row['gpus']} {DEVICES[row['gpu']]} | {row['model']} | {row['seq']} | {row['microbatch']} x {row['grad_accum']} "
            f"| {row['strategy'].lower()}, {recompute} | {row['tokens_s_gpu']} | {ratio * run.measured:.0f} | {100 * (ratio - 1):+.1f} % |"
        )
    replace(path, "validate.py writes what follows", lines)


def replace(path, mark, lines):
    """Between the mark and the end mark of a page."""
    with open(path) as file:
        page = file.read()
    begin = page.index(f"<!-- {mark} -->")
    end = page.index("<!-- end -->", begin)
    with open(path, "w") as file:
        file.write(page[:begin] + "\n".join([f"<!-- {mark} -->", "", *lines, "", ""]) + page[end:])


def publication(row):
    return row["source"].split(",")[0]


def others(args):
    """Rows of OTHERS, each predicted with figures that have not seen its source."""
    now, runs = figures(COMPILED), []
    with open(OTHERS) as file, tempfile.TemporaryDirectory() as folder:
        for row in csv.DictReader(file):
            runs.append(Run(row, plan_other(row, folder), figures() if row["as"] == "fsdp2" else now))
    compiled = [run for run in runs if run.row["as"] == "fsdp2-compile"]
    given = {}
    for name in dict.fromkeys(publication(run.row) for run in compiled):
        given[name] = fit([run for run in compiled if publication(run.row) != name], now, FITTED_COMPILED)
    final = {name: round(value, 4) for name, value in fit(compiled, now, FITTED_COMPILED).items()}
    lines = ["| GPUs | model | seq | batch x microbatches | strategy, recompute | as | tok/s a GPU | predicted | error | GiB | predicted | error | source |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    speeds, memories = {}, []
    for run in runs:
        row = run.row
        used = given.get(publication(row), now) if row["as"] == "fsdp2-compile" else final if row["as"] == "megatron" else run.now
        ratio = run.ratio(used)
        speeds.setdefault(row["as"], []).append(ratio)
        memory = "| | | "
        if row["memory_gib"]:
            predicted = run.way["memory_bytes"] / 2**30
            memories.append(predicted / float(row["memory_gib"]))
            memory = f"| {row['memory_gib']} | {predicted:.1f} | {100 * (memories[-1] - 1):+.1f} % "
        lines.append(
            f"| {row['gpus']} {row['device']} | {row['model']} | {row['seq']} | {row['batch']} x {row['accumulate']} | {row['strategy']}, {row['recompute']} "
            f"| {row['as']} | {row['tokens_s_gpu']} | {ratio * run.measured:.0f} | {100 * (ratio - 1):+.1f} % {memory}| {row['source']} |"
        )
    lines.append("")
    for name, ratios in speeds.items():
        lines.append(f"- tokens/s as `{name}`: mean error {100 * summary(ratios)[0]:.1f} %, worst {100 * summary(ratios)[1]:.1f} % of {len(ratios)}")
    lines.append(f"- memory: mean error {100 * summary(memories)[0]:.1f} %, worst {100 * summary(memories)[1]:.1f} % of {len(memories)}")
    lines.append("- fitted on all of torch.compile: " + ", ".join(f"{name} {final[name]:.3f}" for name in FITTED_COMPILED))
    print("\n".join(lines))
    if args.fit:
        set_figures(COMPILED, {name: final[name] for name in FITTED_COMPILED})
    if args.table:
        replace(args.table, "validate.py --others writes what follows", lines)
    return summary(memories)[0] > 0.05


def main():
    parser = argparse.ArgumentParser()
    for name in ("table", "parts"):
        parser.add_argument("--" + name)
    for name in ("fit", "record", "others"):
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("--sample", type=int, default=0)
    args = parser.parse_args()
    if args.others:
        return others(args)
    with open(os.path.join(HERE, "mpt-fsdp.csv")) as file:
        rows = [row for row in csv.DictReader(file) if row["precision"] != "amp_fp8"]
    if args.sample:
        rows = rows[:: args.sample]
    known = {}
    if args.parts and os.path.exists(args.parts):
        with open(args.parts) as file:
            known = {tuple(key): way for key, way in map(json.loads, file)}
    now, runs = figures(), []
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            key = tuple(row.values())
            way = known.get(key) or plan(row, folder)
            if args.parts and key not in known:
                with open(args.parts, "a") as out:
                    out.write(json.dumps([key, way]) + "\n")
            runs.append(Run(row, way, now))
    if args.sample:
        with open(RECORDED) as file:
            recorded = {tuple(row[:-1]): float(row[-1]) for row in csv.reader(file)}
        for run in runs:
            told, now_told = recorded[tuple(run.row.values())], run.ratio(now) * run.measured
            if abs(now_told / told - 1) > 0.01:
                sys.exit(f"{run.row}: {now_told:.0f} tokens/s, {told:.0f} were recorded")
        print(f"{len(runs)} rows: predictions as recorded")
        return 0
    clusters, held = {}, []
    for name in dict.fromkeys(run.row["section"] for run in runs):
        given = fit([run for run in runs if run.row["section"] != name], now)
        clusters[name] = ([run for run in runs if run.row["section"] == name], given)
        held += [(run, given) for run in clusters[name][0]]
        mean, worst = summary([run.ratio(given) for run in clusters[name][0]])
        print(f"{name}: {len(clusters[name][0])} rows, mean error {mean:.3f}, worst {worst:.3f}, {given}")
    mean, worst = summary([run.ratio(given) for run, given in held])
    right, count = ordered([(run.ratio(given) * run.measured, run.measured) for run, given in held])
    print(f"held out: mean error {mean:.3f}, worst {worst:.3f}, order right {right / count:.3f} of {count} pairs")
    final = fit(runs, now)
    print("all:", final, summary([run.ratio(final) for run in runs]))
    for run, given in sorted(held, key=lambda each: -abs(each[0].ratio(each[1]) - 1))[:10]:
        print(f"  {run.ratio(given) - 1:+.3f}", [run.row[key] for key in ("gpu", "model", "seq", "gpus", "microbatch", "grad_accum", "activation_checkpointing")])
    shipped = now
    if args.fit:
        shipped = {name: round(value, 4) for name, value in final.items()}
        set_figures(SHIPPED, shipped)
    if args.record:
        with open(RECORDED, "w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            for run in runs:
                writer.writerow([*run.row.values(), round(run.ratio(shipped) * run.measured)])
    if args.table:
        write_table(args.table, clusters, held, runs, final)
    return mean > 0.06 or right < 0.95 * count


if __name__ == "__main__":
    sys.exit(main())
