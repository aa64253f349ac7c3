# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a user can mend ends the program with one line."""

import importlib
import os


class UserError(Exception):
    """The input or a file is at fault: exit status 1."""


class UsageError(Exception):
    """The command line is at fault: exit status 2."""


def printable(text):
    return "".join(c if c.isprintable() else "?" for c in str(text))


def not_installed(missing):
    here = os.path.relpath(os.path.dirname(os.path.abspath(__file__)))
    return f"{missing.name} is not installed: pip install -r {here}/requirements.txt"


def need(module):
    """A library that only some inputs need."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise UserError(not_installed(missing)) from None
