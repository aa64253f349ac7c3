# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Turns results into Markdown: one table for each question of the rows."""

import json
import os

import machine
import measure
import phases
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
        if kind == "begin" and not result.get("goes_on"):
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
                     f"{mebibytes(found['idle_bytes'])} MiB in use before; "
                     f"clocks and power told by {found['told_by']}")
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
            lines.append([who, failed[who]] + ["–"] * 6)
            continue
        median, quiet = measure.quiet_median(times(turns))
        medians[who] = median
        rate = work["batch"] * work["seq"] / median * 1e3
        mfu = work["flops"] / (median / 1e3) / peak if peak else None
        lines.append([who, f"{rate:.0f}", f"{median:.1f}",
                      "–" if mfu is None else f"{mfu:.1%}", f"{quiet:.0%}",
                      len(turns), turns[0].get("sdpa", "–"),
                      error_text(largest(turns, "loss_error"))])
    head = ["", "tokens/s", "ms a step", "MFU", "quiet steps", "turns",
            "sdpa", "losses part by"]
    return table(head, lines), medians


def error_text(error):
    return "–" if error is None else f"{error:.1e}"


def ratios(medians):
    """Ours against the faster of PyTorch's ways, eager and compiled: who that
    is and how much faster, or None, for each of RATIOS."""
    for group in RATIOS:
        there = [who for who in group if who in medians]
        if there and speed.OURS in medians:
            best = min(there, key=medians.get)
            yield best, medians[best] / medians[speed.OURS]
        else:
            yield None


def ratio_table(medians):
    lines = [[f"{speed.OURS} : {ratio[0]}", f"{ratio[1]:.2f}"]
             for ratio in ratios(medians) if ratio]
    return lines and table(["ratio", "tokens/s"], lines)


def conditions_table(found):
    """Clocks, power and temperature of the turns, and what held them back."""
    lines = []
    for who, turns in found.items():
        seen = [t["gpu"] for t in turns if t.get("gpu")]
        if not seen:
            continue
        ends = [g[when] for g in seen for when in ("before", "after")
                if g[when]]
        held = {why for g in seen for why in g["held_back"]}
        held |= {why for state in ends for why in state["held_back"] or ()}
        lines.append([who, span(ends, "sm_mhz"), span(
            [{"mhz": g[f"{which}_sm_mhz"]} for g in seen
             for which in ("lowest", "highest")], "mhz"),
            span(ends, "watts"), whole(largest(seen, "highest_watts")),
            span(ends, "celsius"), whole(largest(seen, "highest_celsius")),
            ", ".join(sorted(held)) or "nothing seen"])
    return lines and table(
        ["", "SM MHz before/after", "during", "W before/after", "most",
         "°C before/after", "most", "held back by"], lines)


def whole(value):
    return "–" if value is None else f"{value:.0f}"


def span(states, key):
    values = [s[key] for s in states if s.get(key) is not None]
    if not values:
        return "–"
    low, high = whole(min(values)), whole(max(values))
    return low if low == high else f"{low}–{high}"


def phases_table(results):
    """Milliseconds of a step by phase, of whoever was traced."""
    lines = []
    for r in of_kind(results, "phases"):
        step = r["step_ms"]
        lines.append([r["who"], f"{step:.2f}"] + [
            f"{r['phases'][p]:.2f} ({r['phases'][p] / step:.0%})"
            for p in phases.PHASES] + [f"{r['launches']:.0f}"])
    return lines and table(["ms a step, traced", "all", *phases.PHASES,
                            "launches"], lines)


def profile(name, results):
    """The kernels that took longest, of each side."""
    found = of_kind(results, "phases")
    if not name.startswith("profile-") or not found:
        return ""
    text = f"\n### {name}\n\n" + phases_table(results)
    for r in found:
        lines = [[f"{k['ms']:.3f}", f"{k['count']:.1f}", f"{k['mean_us']:.1f}",
                  k["phase"], k["name"]] for k in r["kernels"][:12]]
        text += f"\n{r['who']}:\n\n" + table(
            ["ms a step", "runs", "µs each", "phase", "kernel"], lines)
    return text


def memory_lines(work, found):
    """The table's lines, and who -> bytes beyond the model's state."""
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
    return lines, beyond


def memory_table(work, found):
    """Peaks, what of them is not model state, and how good the plan was."""
    state = work["parameters"] * speed.STATE_BYTES
    lines, _ = memory_lines(work, found)
    text = table(["MiB", "peak in use", "held", "whole process",
                  "beyond model state"], lines)
    text += f"\nModel state: {mebibytes(state)} MiB"
    ratio = memory_ratio(work, found)
    if ratio is not None:
        text += f"; beyond it, {speed.OURS} : eager = {ratio:.2f}"
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
    faster = ratio_table(medians)
    text += speeds + ("\n" + faster if faster else "")
    text += "\n" + memory_table(work, found)
    for more in (conditions_table(found), phases_table(results)):
        text += "\n" + more if more else ""
    notes = [note["text"] for note in of_kind(results, "note")]
    notes += [w for turns in found.values() for t in turns
              for w in t.get("warnings", ())]
    for note in dict.fromkeys(notes):
        text += f"\n{note}\n"
    return text


def memory_ratio(work, found):
    """What ours holds beyond the model's state, over what eager adds."""
    _, beyond = memory_lines(work, found)
    ours, eager = beyond.get(speed.OURS), beyond.get("eager")
    return ours / eager if ours is not None and eager else None


def summary(rows, peak):
    """One line for each measured model: what is asked for, and what is next."""
    lines = []
    for name, results in rows.items():
        works = of_kind(results, "workload")
        found, _ = contenders(results)
        if not works or not found:
            continue
        medians = {who: measure.quiet_median(times(turns))[0]
                   for who, turns in found.items() if turns}
        errors = [largest(turns, "loss_error") for turns in found.values()]
        ours = medians.get(speed.OURS)
        memory = memory_ratio(works[-1], found)
        lines.append([
            name, "–" if not ours or not peak else
            f"{works[-1]['flops'] / (ours / 1e3) / peak:.1%}",
            *(f"{r[1]:.2f} ({r[0]})" if r else "–" for r in ratios(medians)),
            "–" if memory is None else f"{memory:.2f}",
            error_text(max((e for e in errors if e is not None),
                           default=None)), next_percent(results)])
    return lines and "\n### Summary\n\n" + table(
        ["row", "MFU", "× eager or FSDP2", "× compiled", "memory × eager",
         "losses part by", "beside products and attention"], lines)


def next_percent(results):
    """Our phases that are no work of the model's, the largest first."""
    ours = [r for r in of_kind(results, "phases") if r["who"] == speed.OURS]
    if not ours:
        return "–"
    shares = {p: ms / ours[-1]["step_ms"]
              for p, ms in ours[-1]["phases"].items()
              if p not in ("GEMM", "attention")}
    best = sorted(shares, key=shares.get, reverse=True)[:4]
    return ", ".join(f"{p} {shares[p]:.0%}" for p in best)


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
    """How every row ended, and the GPU beside it; one without an end was
    killed."""
    lines = []
    for name, results in rows.items():
        end = of_kind(results, "end")
        states = [r["gpu"] for r in of_kind(results, "begin") + end
                  if r.get("gpu")]
        held = {why for state in states for why in state["held_back"] or ()}
        lines.append([name, *([end[-1]["status"], f"{end[-1]['seconds']:.0f}"]
                              if end else ["killed", "–"]),
                      span(states, "sm_mhz"), span(states, "watts"),
                      span(states, "celsius"), ", ".join(sorted(held)) or "–",
                      (end[-1]["why"] or "").split("\n")[0][:300] if end
                      else ""])
    return "\n### Rows\n\n" + table(
        ["row", "", "seconds", "SM MHz before/after", "W", "°C",
         "held back by", "why"], lines)


def tables(rows):
    found = [r for results in rows.values()
             for r in of_kind(results, "machine")]
    peak = machine.peak_flops(found[-1]["gpu"]) if found else None
    parts = [machine_list(found[-1]) if found else "", checks(rows)]
    parts += [workload(results, peak) for results in rows.values()]
    parts += [profile(name, results) for name, results in rows.items()]
    parts += [starts(rows), ends(rows), summary(rows, peak)]
    return "".join(part for part in parts if part)


def write(results, out):
    """Writes OUT/tables.md and returns it."""
    text = tables(read(results))
    partial = os.path.join(out, "tables.md.part")
    with open(partial, "w") as file:
        file.write(text)
    os.replace(partial, os.path.join(out, "tables.md"))
    return text
