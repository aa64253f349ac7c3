# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# That the largest rank held what was planned, at the last step of a log: within
# a hundredth and the MiB that a process's own memory may differ by.
#
#   check_memory.py LOG.jsonl

import json
import sys

with open(sys.argv[1]) as log:
    last = json.loads(log.readlines()[-1])
planned, held = last["peak_bytes"], last["pss_bytes"]
assert abs(held - planned) < 0.01 * planned + (1 << 20), (planned, held)
