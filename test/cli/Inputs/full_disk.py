# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Runs a command while FOLDER is a disk of its own with so much room, which only
# this process and the command see.
#
#   full_disk.py FOLDER KIBIBYTES COMMAND…
#
# What the command leaves there, it lists on standard output.

import os
import subprocess
import sys

folder, size = sys.argv[1:3]
if os.environ.get("FULL_DISK") != folder:
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    os.environ["FULL_DISK"] = folder
    os.execvp("unshare", unshare + [sys.executable] + sys.argv)
os.makedirs(folder, exist_ok=True)
subprocess.run(
    ["mount", "-t", "tmpfs", "-o", f"size={size}k", "none", folder], check=True
)
done = subprocess.run(sys.argv[3:])
for path, folders, files in os.walk(folder):
    for name in sorted(folders + files):
        print("left:", os.path.relpath(os.path.join(path, name), folder))
sys.exit(done.returncode)
