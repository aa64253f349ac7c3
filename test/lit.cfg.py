# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# lit's configuration; test/lit.site.cfg.py.in tells it where the build is.

import os
import shutil
import subprocess

import lit.formats

config.name = "Shardonnx"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "unit", "training"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.shardonnx_build, "test")
config.environment["PATH"] = os.pathsep.join(
    [
        os.path.join(config.shardonnx_build, "bin"),
        config.llvm_tools,
        os.environ.get("PATH", ""),
    ]
)
config.environment["HOME"] = config.test_exec_root
# What a test compiles is made anew.
config.environment["SHARDONNX_CACHE"] = "0"
config.substitutions.append(("%build", config.shardonnx_build))
config.substitutions.append(("%models", config.shardonnx_source + "/models"))
# Fails unless a program ends with a code and one error line.
config.substitutions.append(
    ("%exits", "python3 " + config.test_source_root + "/cli/Inputs/exits.py")
)
# Tests that take too long for every change say `REQUIRES: nightly`.
if os.environ.get("SHARDONNX_NIGHTLY"):
    config.available_features.add("nightly")
config.substitutions.append(
    (
        "%full-disk",
        "python3 " + config.test_source_root + "/cli/Inputs/full_disk.py",
    )
)
# tools/prepare-data, with the libraries that `./setup test` installs.
python = config.shardonnx_source + "/.deps/venv/bin/python"
config.substitutions.append(
    ("%prepare-data", python + " " + config.shardonnx_source + "/tools/prepare-data")
)
config.substitutions.append(("%python", python))
# `REQUIRES: torch`: models/make_env has made an environment.
torch = os.path.join(
    os.environ.get(
        "SHARDONNX_TORCH_ENV", os.path.join(config.shardonnx_source, ".deps", "torch")
    ),
    "bin",
    "python",
)
config.substitutions.append(("%torch-python", torch))
if os.path.exists(torch):
    config.available_features.add("torch")
# Where this user may have a disk that fills: `REQUIRES: tmpfs`.
mount = "unshare --user --map-root-user --mount mount -t tmpfs none /mnt"
if subprocess.run(mount.split(), capture_output=True).returncode == 0:
    config.available_features.add("tmpfs")
# Tests that assemble GPU code say `REQUIRES: cuda`.
if config.ptxas and os.access(config.ptxas, os.X_OK):
    config.available_features.add("cuda")
# Tests that open a page say `REQUIRES: chromium`.
for name in ("chromium-headless-shell", "chromium", "google-chrome"):
    if shutil.which(name):
        config.available_features.add("chromium")
        config.substitutions.append(
            (
                "%open-page",
                f"python3 {config.test_source_root}/cli/Inputs/open_page.py {name}",
            )
        )
        break
