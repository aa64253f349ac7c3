# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every row of a results file has begun, and then ended, exactly once."""

import json
import sys

open_row, ended = None, set()
with open(sys.argv[1]) as file:
    for line in file:
        result = json.loads(line)
        row, kind = result["row"], result["kind"]
        if kind == "begin":
            assert open_row is None and row not in ended, row
            open_row = row
        assert row == open_row, f"{row} within {open_row}"
        if kind == "end":
            ended.add(row)
            open_row = None
assert open_row is None and len(ended) >= 10, ended
