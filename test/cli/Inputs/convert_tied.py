# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Converts a checkpoint to a .pt file and a DCP folder and back, where PyTorch is
# there, and requires that both have all names of the state dict.
#
#   convert_tied.py CHECKPOINT

import os
import subprocess
import sys

try:
    import safetensors
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit()

CONVERT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "checkpoint-convert")
for source, target in ((sys.argv[1], "c.pt"), ("c.pt", "from-pt"), (sys.argv[1], "c.dcp"), ("c.dcp", "from-dcp")):
    subprocess.run([sys.executable, CONVERT, source, target], check=True)
model = torch.load("c.pt")["model"]
assert model["lm_head.weight"].data_ptr() == model["transformer.wte.weight"].data_ptr()
print("converted")
