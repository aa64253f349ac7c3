# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Does something to the folder of cached objects that is named.

    damage DIR          every second entry loses its end, the others a bit
    forge DIR           every entry is whole, and holds no object
    count DIR           prints how many there are
    race DIR OUT... -- COMMAND...   starts the command for all outputs at once
"""

import hashlib
import os
import subprocess
import sys


def entries(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if name.startswith("llvmcache-"))


def damage(folder):
    for index, path in enumerate(entries(folder)):
        with open(path, "rb") as file:
            whole = bytearray(file.read())
        whole[-1] ^= 1
        with open(path, "wb") as file:
            file.write(whole[:len(whole) // 2] if index % 2 else whole)


def forge(folder):
    nothing = b"no object"
    for path in entries(folder):
        with open(path, "wb") as file:
            file.write(hashlib.sha256(nothing).digest() + nothing)


def race(folder, words):
    cut = words.index("--")
    jobs = [subprocess.Popen(words[cut + 1:] + ["-o", output],
                             env={**os.environ, "SHARDONNX_CACHE_DIR": folder})
            for output in words[:cut]]
    sys.exit(max(job.wait() for job in jobs))


def main():
    what, folder, *words = sys.argv[1:]
    if what == "race":
        race(folder, words)
    elif what == "count":
        print(len(entries(folder)))
    else:
        {"damage": damage, "forge": forge}[what](folder)


if __name__ == "__main__":
    main()
