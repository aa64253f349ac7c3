# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# kill_compile.py [--ignored] SIGNAL FOLDER COMMAND...: runs a compiler whose
# output and TMPDIR are in FOLDER, and sends it the signal when it makes its
# executable. Fails unless the signal ends it and FOLDER is then empty, and stays
# so. With --ignored it is started as by nohup, and must go on to its end.

import os
import signal
import subprocess
import sys
import time

ignored = sys.argv[1] == "--ignored"
name, folder, *command = sys.argv[1 + ignored :]
number = getattr(signal, name)
# Whatever whoever started us does with it.
signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)
process = subprocess.Popen(command, env={**os.environ, "TMPDIR": folder})
# The executable's name is there before the linker begins.
while process.poll() is None and not any(".tmp-" in name for name in os.listdir(folder)):
    time.sleep(0.001)
process.send_signal(number)
if process.wait(60) != (0 if ignored else -number):
    sys.exit(f"it ended with {process.returncode}")
# On a busy machine the linker's driver takes a while to remove what is its own.
until = time.time() + 30
while not ignored and os.listdir(folder) and time.time() < until:
    time.sleep(0.05)
time.sleep(0 if ignored else 2)  # for a linker that was left alone
left = os.listdir(folder)
if len(left) != (1 if ignored else 0):
    sys.exit(f"it left {left}")
