# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results of benchmarks/run as an SVG picture: beside each contender's
name its speed and its resident memory, as multiples of eager PyTorch's."""

from xml.sax.saxutils import escape

from contenders import CONTENDERS, WORKLOADS, ours

NAMES, PANEL, GAP = 150, 330, 90  # widths
BAR, STEP, TITLE = 13, 18, 30     # heights
COLOURS = {(True, "f32"): "#0b6e4f", (True, "bf16"): "#54b88c",
           (False, "f32"): "#7a7a7a", (False, "bf16"): "#b4b4b4"}


def text(x, y, words, size=12, anchor="start", weight="normal"):
    return (f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" '
            f'font-weight="{weight}" text-anchor="{anchor}">'
            f'{escape(words)}</text>')


def bars(rows, top, left, key, unit):
    """A bar for each row, the longest of which fills the panel."""
    longest = max(row[key] for _, row in rows)
    for index, (name, row) in enumerate(rows):
        y = top + index * STEP
        width = PANEL * row[key] / longest
        colour = COLOURS[ours(name), CONTENDERS[name].dtype]
        yield (f'<rect x="{left}" y="{y}" width="{width:.1f}" '
               f'height="{BAR}" fill="{colour}"/>')
        yield text(left + width + 4, y + BAR - 2, f"{row[key] / unit:.2f}",
                   size=11)


def group(workload, found, top):
    """A workload's bars, and how high they are."""
    rows = [(name, row) for name, row in found.items() if "rate" in row]
    unit = dict(rows).get("eager") or rows[0][1]
    parts = [text(10, top + 14, WORKLOADS[workload].title, 13,
                  weight="bold")]
    top += TITLE
    for index, (name, _) in enumerate(rows):
        parts.append(text(NAMES - 8, top + index * STEP + BAR - 2, name,
                          anchor="end"))
    parts += bars(rows, top, NAMES, "rate", unit["rate"])
    parts += bars(rows, top, NAMES + PANEL + GAP, "rss", unit["rss"])
    return parts, TITLE + len(rows) * STEP + 16


def picture(results):
    """All workloads, one below the other."""
    header = results.header
    parts, height = [], 62
    for workload in results.workloads():
        found = results.contenders(workload)
        if any("rate" in row for row in found.values()):
            more, high = group(workload, found, height)
            parts += more
            height += high
    width = NAMES + 2 * (PANEL + GAP)
    top = [text(10, 20, f"{header['machine']}, {header['cores']} cores, "
                f"{header['isa']}; PyTorch {header['pytorch']}", 13),
           text(NAMES, 46, "speed, times eager PyTorch's", 12,
                weight="bold"),
           text(NAMES + PANEL + GAP, 46, "resident memory of a rank, times "
                "eager PyTorch's", 12, weight="bold")]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" '
        f'height="{height}" font-family="sans-serif" fill="#202020">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        *top, *parts, "</svg>"]) + "\n"
