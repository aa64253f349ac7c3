# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# questions.py TEXT: how its sentences begin and go on, as records with prompt
# and completion.

import json
import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read()
for sentence in re.split(r"(?<=[.?!])\s+", text):
    words = sentence.split()
    if len(words) > 9:
        print(json.dumps({"prompt": " ".join(words[:3]), "completion": " " + " ".join(words[3:])}))
