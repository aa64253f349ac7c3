# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# questions.py README FOLDER: what the sections of the pages say, as records with
# prompt and completion.

import json
import os
import re
import sys


def sections(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for part in re.split(r"\n(?=## )", text)[1:]:
        title, _, body = part.partition("\n")
        sentence = re.sub(r"[^ -~]", "", body.strip().split("\n\n")[0].replace("\n", " "))
        if len(sentence) > 40:
            yield title[3:], sentence[:80]


pages = [sys.argv[1]] + [os.path.join(sys.argv[2], name) for name in sorted(os.listdir(sys.argv[2])) if name.endswith(".md")]
for page in pages:
    for title, body in sections(page):
        print(json.dumps({"prompt": f"{title}?\n", "completion": body}))
