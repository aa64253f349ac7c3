# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Compiles with ever more address space beyond what the program needs to start.
# Each time it is done, or ends with 1 and one line of error, and then leaves
# nothing.
#
#   little_memory.py FOLDER shardonnx compile … -o FOLDER/…

import os
import resource
import subprocess
import sys

MIB = 1 << 20
folder, *command = sys.argv[1:]


def run(words, bytes):
    return subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes)))


low, high = 0, 1 << 14  # MiB: too few, enough
while high - low > 4:
    middle = (low + high) // 2
    enough = run([command[0], "--version"], middle * MIB).returncode == 0
    low, high = (low, middle) if enough else (middle, high)
failed = 0
for more in (2, 24):
    done = run(command, (high + more) * MIB)
    errors = [line for line in done.stderr.splitlines() if ": warning: " not in line]
    if done.returncode == 0:
        continue
    failed += 1
    if done.returncode != 1 or len(errors) != 1 or ": error: " not in errors[0] or os.listdir(folder):
        sys.exit(f"{more} MiB beyond {high}: ended with {done.returncode}, left {os.listdir(folder)}: {done.stderr}")
    print(f"{more} MiB: {errors[0]}")
print(f"{failed} failed as they should")
