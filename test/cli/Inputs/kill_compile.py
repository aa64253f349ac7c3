# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# kill_compile.py SIGNAL FOLDER COMMAND...: runs a compiler whose output and
# TMPDIR are in FOLDER, and sends it the signal when it makes its executable.
# Fails unless the signal ends it and FOLDER is then empty, and stays so.

import os
import signal
import subprocess
import sys
import time

number, folder, command = getattr(signal, sys.argv[1]), sys.argv[2], sys.argv[3:]
process = subprocess.Popen(command, env={**os.environ, "TMPDIR": folder})
# The executable's name is there before the linker begins.
while process.poll() is None and not any(".tmp-" in name for name in os.listdir(folder)):
    time.sleep(0.001)
process.send_signal(number)
if process.wait() != -number:
    sys.exit(f"it ended with {process.returncode}")
time.sleep(2)  # for a linker that was left alone
if left := os.listdir(folder):
    sys.exit(f"it left {left}")
