# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Converts checkpoints of a tensor axis to .pt files and back, where PyTorch is
# there, and requires that they have what `shardonnx export` has written.
#
#   convert_mesh.py NAME...        of NAME and NAME.safetensors

import os
import subprocess
import sys

try:
    import safetensors.torch
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit()

CONVERT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools", "checkpoint-convert")
for name in sys.argv[1:]:
    for source, target in ((name, f"{name}.pt"), (f"{name}.pt", f"from-{name}")):
        subprocess.run([sys.executable, CONVERT, source, target], check=True)
    model = torch.load(f"{name}.pt")["model"]
    for tensor, values in safetensors.torch.load_file(f"{name}.safetensors").items():
        assert torch.equal(model[tensor], values), tensor
print("converted")
