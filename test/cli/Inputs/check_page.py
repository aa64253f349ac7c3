# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_page.py PAGE [JSON]: a page of `inspect --html` asks for nothing that is
# not in it, is well formed, and has the data of --json.

import html.parser
import json
import sys


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.data, self.inside = [], "", None

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        self.tags.append(tag)
        assert not {"src", "href", "srcset", "action"} & set(names), tag
        if tag == "script" and names.get("type") == "application/json":
            self.inside = "data"

    def handle_endtag(self, tag):
        if tag == "script":
            self.inside = None

    def handle_data(self, text):
        if self.inside == "data":
            self.data += text


text = open(sys.argv[1], encoding="utf-8").read()
page = Page()
page.feed(text)
assert page.tags.count("script") == 2 and page.tags.count("style") == 1
assert not {"link", "img", "iframe", "object", "embed", "base"} & set(page.tags)
for word in ("@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML", "@DATA@"):
    assert word not in text.replace(page.data, ""), word

report = json.loads(page.data)
left_out = report.pop("left_out")
if len(sys.argv) > 2:
    assert left_out == {"ranks": 0, "params": 0}
    assert report == json.load(open(sys.argv[2], encoding="utf-8"))

# Memory over the step: all that lives fits into what is planned, and the private
# space is filled to its lower bound at some time (buffers begin at whole lines).
step = report["timeline"]
assert step["whole"] and abs(step["step_ms"] - report["communication"]["step_ms"]) < 1e-6
private = [b for b in step["buffers"] if b["kind"] not in ("gathered parameters", "full gradients")]
assert {"kept for backward", "forward", "backward"} <= {b["kind"] for b in private}
most = max(
    sum(-(-b["bytes"] // 64) * 64 for b in private if b["begin_ms"] <= at["begin_ms"] < b["end_ms"])
    for at in private
)
space = report["memory"]["spaces"]["private"]
assert most <= space["bytes"]
assert most == space["lower_bound_bytes"], (most, space)

# A queue does one thing at a time, and the work adds up.
for queue in ("work", "wait", "gather", "reduce"):
    end = 0
    for span in sorted((s for s in step["spans"] if s["queue"] == queue), key=lambda s: s["begin_ms"]):
        assert span["begin_ms"] >= end - 1e-9, (queue, span)
        end = span["end_ms"]
total = {q: sum(s["end_ms"] - s["begin_ms"] for s in step["spans"] if s["queue"] == q) for q in ("work", "wait")}
assert abs(total["wait"] - report["communication"]["exposed_ms"]) < 1e-6
assert abs(total["work"] - report["communication"]["work_ms"]) < 1e-6
launches = report["roofline"]["launches"]
assert launches and all(one["count"] > 0 for one in launches)
