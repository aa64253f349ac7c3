# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns results into Markdown: one table for each question of the rows."""

import json
import os

import machine
import measure
import speed

MIB = 1 << 20
RATIOS = [("eager", "fsdp2"), ("compile", "fsdp2-compile")]


def read(path):
    """Row -> its results, from the last time that it was begun."""
    rows = {}
    try:
        with open(path, errors="replace") as file:
            lines = list(file)
    except OSError:
        return rows
    for line in lines:
        try:
            result = json.loads(line)
            name, kind = result["row"], result["kind"]
        except (ValueError, TypeError, KeyError):
            continue  # a line that a crash cut off
        if kind == "begin":
            rows.pop(name, None)
        rows.setdefault(name, []).append(result)
    return rows


def of_kind(results, kind):
    return [r for r in results if r["kind"] == kind]


def mebibytes(value):
    return "–" if value is None else f"{value / MIB:.0f}"


def table(header, lines):
    rule = ["---"] * len(header)
    return "\n".join("| " + " | ".join(str(c).replace("|", "\\|")
                                       .replace("\n", " ") for c in cells)
                     + " |" for cells in [header, rule, *lines]) + "\n"


def machine_list(found):
    """The machine, driver and versions, as a list."""
    torch = found["torch"]
    said = (f"{torch['torch']} (CUDA {torch['cuda']}), transformers "
            f"{torch['transformers']}" if "torch" in torch
            else f"none ({torch['missing']})")
    lines = [f"processor: {found['processor']}, {found['cores']} cores"]
    if found["target"] == "cuda":
        lines.append(f"GPU: {found['gpus']} x {found['gpu'] or 'unknown'}, "
                     f"{mebibytes(found['gpu_bytes'])} MiB, driver "
                     f"{found['driver'] or 'unknown'}, "
                     f"{mebibytes(found['idle_bytes'])} MiB in use before")
    lines += [f"{name}: {machine.dotted(name, lib.get('version'))}, "
              f"{lib['path']}" for name, lib in found["libraries"].items()]
    lines += [f"PyTorch: {said}, Python {found['python']}",
              f"bundle: {found['target']} {found['arch']}, commit "
              f"{found['commit']}"]
    return "\n".join("- " + line for line in lines) + "\n"


def checks(rows):
    """Everything that is right or wrong, and how far off."""
    lines = []
    for name, results in rows.items():
        for r in of_kind(results, "check"):
            lines.append([name, r["against"], f"{r['loss_error']:.1e}",
                          f"{r['norm_error']:.1e}"])
    return lines and ("\n### Correctness (largest relative differences)\n\n"
                      + table(["row", "against", "loss", "gradient norm"],
                              lines))


def contenders(results):
    """Who -> the turns that came to an end, in order of first appearance.

    And who -> why one did not.
    """
    found, failed = {}, {}
    for turn in of_kind(results, "turn"):
        found.setdefault(turn["who"], [])
        if "failed" in turn:
            failed[turn["who"]] = turn["failed"].split("\n")[0][:80]
        else:
            found[turn["who"]].append(turn)
    return found, failed


def times(turns):
    return [ms for turn in turns for ms in turn["ms"]]


def largest(turns, key):
    values = [t[key] for t in turns if t.get(key) is not None]
    return max(values) if values else None


def speed_table(work, found, failed, peak):
    """Tokens a second and MFU of each; returns the medians, too."""
    lines, medians = [], {}
    for who, turns in found.items():
        if not turns:
            lines.append([who, failed[who]] + ["–"] * 5)
            continue
        median, quiet = measure.quiet_median(times(turns))
        medians[who] = median
        rate = work["batch"] * work["seq"] / median * 1e3
        mfu = work["flops"] / (median / 1e3) / peak if peak else None
        lines.append([who, f"{rate:.0f}", f"{median:.1f}",
                      "–" if mfu is None else f"{mfu:.1%}", f"{quiet:.0%}",
                      len(turns), turns[0].get("sdpa", "–")])
    head = ["", "tokens/s", "ms a step", "MFU", "quiet steps", "turns",
            "sdpa"]
    return table(head, lines), medians


def ratio_table(medians):
    """Ours against the faster of PyTorch's ways, eager and compiled."""
    lines = []
    for group in RATIOS:
        there = [who for who in group if who in medians]
        if there and speed.OURS in medians:
            best = min(there, key=medians.get)
            lines.append([f"{speed.OURS} : {best}",
                          f"{medians[best] / medians[speed.OURS]:.2f}"])
    return lines and table(["ratio", "tokens/s"], lines)


def memory_table(work, found):
    """Peaks, what of them is not model state, and how good the plan was."""
    state = work["parameters"] * speed.STATE_BYTES
    lines, beyond = [], {}
    for who, turns in found.items():
        if turns:
            peak = largest(turns, "peak_bytes")
            held = largest(turns, "held_bytes")
            # Ours counts as measured, PyTorch's as its allocator puts it: the
            # larger and the smaller of two figures.
            counts = held if who == speed.OURS and held else peak
            beyond[who] = None if counts is None else counts - state
            lines.append([who] + [mebibytes(b) for b in (
                peak, held, largest(turns, "process_bytes"), beyond[who])])
    text = table(["MiB", "peak in use", "held", "whole process",
                  "beyond model state"], lines)
    text += f"\nModel state: {mebibytes(state)} MiB"
    ours, eager = beyond.get(speed.OURS), beyond.get("eager")
    if ours is not None and eager:
        text += f"; beyond it, {speed.OURS} : eager = {ours / eager:.2f}"
    text += f". Planned for {speed.OURS}: " \
            f"{mebibytes(work['planned_bytes'])} MiB"
    return text + measured_text(found.get(speed.OURS) or []) + ".\n"


def measured_text(turns):
    """What was measured beside the plan, and the context apart from it."""
    peak, held, whole = (largest(turns, key) for key in (
        "peak_bytes", "held_bytes", "process_bytes"))
    if not peak or not held or not whole:
        return ""
    return (f"; measured {mebibytes(held)} MiB ({held / peak - 1:+.1%} of "
            f"the peak in use), and {mebibytes(whole - held)} MiB of context "
            "and modules")


def workload(results, peak):
    works = of_kind(results, "workload")
    found, failed = contenders(results)
    if not works or not found:
        return ""
    work = works[-1]
    text = (f"\n### {work['title']}: {work['batch']} x {work['seq']}, "
            f"{work['precision']}, recompute {work['recompute']}\n\n")
    speeds, medians = speed_table(work, found, failed, peak)
    ratios = ratio_table(medians)
    text += speeds + ("\n" + ratios if ratios else "")
    text += "\n" + memory_table(work, found)
    notes = [note["text"] for note in of_kind(results, "note")]
    notes += [w for turns in found.values() for t in turns
              for w in t.get("warnings", ())]
    for note in dict.fromkeys(notes):
        text += f"\n{note}\n"
    return text


def starts(rows):
    lines = [[name, r["which"], f"{r['seconds']:.2f}", r["cached_files"]]
             for name, results in rows.items()
             for r in of_kind(results, "start")]
    phases = ["\n".join([f"\n{name}, {r['which']} start:\n"] +
                        ["    " + line for line in r.get("phases", ())]) + "\n"
              for name, results in rows.items()
              for r in of_kind(results, "start") if r.get("phases")]
    return lines and ("\n### Start: from exec to the first step's line\n\n"
                      + table(["row", "start", "seconds", "files in the cache"],
                              lines) + "".join(phases))


def ends(rows):
    """How every row ended; one that has no end was killed."""
    lines = []
    for name, results in rows.items():
        end = of_kind(results, "end")
        lines.append([name, end[-1]["status"], f"{end[-1]['seconds']:.0f}",
                      (end[-1]["why"] or "").split("\n")[0][:300]] if end
                     else [name, "killed", "–", ""])
    return "\n### Rows\n\n" + table(["row", "", "seconds", "why"], lines)


def tables(rows):
    found = [r for results in rows.values()
             for r in of_kind(results, "machine")]
    peak = machine.peak_flops(found[-1]["gpu"]) if found else None
    parts = [machine_list(found[-1]) if found else "", checks(rows)]
    parts += [workload(results, peak) for results in rows.values()]
    parts += [starts(rows), ends(rows)]
    return "".join(part for part in parts if part)


def write(results, out):
    """Writes OUT/tables.md and returns it."""
    text = tables(read(results))
    partial = os.path.join(out, "tables.md.part")
    with open(partial, "w") as file:
        file.write(text)
    os.replace(partial, os.path.join(out, "tables.md"))
    return text
