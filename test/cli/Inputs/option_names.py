# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Whether the lists by which `shardonnx` and the training executable know each
# other's options are what their --help shows:
#
#   option_names.py OptionNames.h TRAIN

import re
import subprocess
import sys

header, train = sys.argv[1:]


def shown(*command):
    text = subprocess.check_output([*command, "--help"], text=True)
    names = re.findall(r"^  (?:-\w,)?(--[a-z0-9-]+)", text, re.MULTILINE)
    return set(names) - {"--help"}


def listed(function):
    text = open(header).read().split(function + "()")[1].split("};")[0]
    return set(re.findall(r'"(--[a-z0-9-]+)"', text))


compiler, trainer = shown("shardonnx", "compile"), shown(train)
for name, options in (
    ("compileOptionNames", compiler - trainer),
    ("trainOptionNames", trainer - compiler),
):
    if options != listed(name):
        sys.exit(
            f"{name} in {header} lacks {sorted(options - listed(name))} and has "
            f"{sorted(listed(name) - options)} that are not there"
        )
