# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Prints the unit of a parameter, whether it is trained, and all that is not:
#
#   unit_of.py NAME shardonnx inspect … --json

import json
import subprocess
import sys

report = json.loads(subprocess.run(sys.argv[2:], check=True, stdout=subprocess.PIPE).stdout)
((unit, parameter),) = [(u, p) for u in report["units"] for p in u["params"] if p["name"] == sys.argv[1]]
print(f"{unit['name']}, {'trained' if parameter['trainable'] else 'frozen'}; untrained: {json.dumps(report['untrained'])}")
