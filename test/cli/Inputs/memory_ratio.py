# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# That a rank of the second program holds less than BAR times what one of the
# first does, at the peak and of each item.
#
#   memory_ratio.py BAR INSPECT.json INSPECT.json ITEM…

import json
import sys

bar = float(sys.argv[1])
first, second = (json.load(open(path))["memory"] for path in sys.argv[2:4])
pairs = [(first["peak_bytes"], second["peak_bytes"], "peak")]
for name in sys.argv[4:]:
    both = [next(item["bytes"] for item in memory["items"]
                 if item["name"] == name) for memory in (first, second)]
    pairs.append((*both, name))
for whole, part, name in pairs:
    assert 0 < part < bar * whole, (name, part, whole)
