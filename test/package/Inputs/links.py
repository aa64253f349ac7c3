# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# links.py FOLDER: every relative link of README.md and of the pages in docs
# leads to something.

import glob
import os
import re
import sys

folder = sys.argv[1]
pages = [os.path.join(folder, "README.md")]
pages += glob.glob(os.path.join(folder, "docs", "**", "*.md"), recursive=True)
dead = []
for page in pages:
    with open(page) as file:
        text = re.sub(r"```.*?```|`[^`]*`", "", file.read(), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path = link.split("#")[0]
        if path and "://" not in link and not os.path.exists(
                os.path.join(os.path.dirname(page), path)):
            dead.append(f"{os.path.relpath(page, folder)}: {link}")
print("\n".join(dead) or f"{len(pages)} pages, no dead link")
sys.exit(bool(dead))
