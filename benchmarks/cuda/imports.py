# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which of the project's Python files a script imports, and what else it asks
of the machine.

A script that lacks one of them would fail there, not here. Imports inside
functions count, too: they are merely later.
"""

import ast
import os
import sys


def names_in(path):
    """The modules that a file imports anywhere, by their first word."""
    with open(path) as file:
        tree = ast.parse(file.read(), path)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def closure(root, script, folders):
    """The project's files that a script needs, itself included, relative to
    `root`, where it looks for modules in `folders`; and the other modules that
    they import, with who imports them."""
    files, others = [script], {}
    for path in files:
        for name in names_in(os.path.join(root, path)):
            if name in sys.stdlib_module_names:
                continue
            found = next((f"{folder}/{name}.py" for folder in folders
                          if os.path.exists(os.path.join(
                              root, folder, name + ".py"))), None)
            if found is None:
                others.setdefault(name, path)
            elif found not in files:
                files.append(found)
    return files, others


def needed(root, script, folders, expected):
    """The files of `closure`; an import that is neither the project's nor
    Python's nor `expected` of the machine is an error."""
    files, others = closure(root, script, folders)
    strange = [f"{path} imports {name}" for name, path in others.items()
               if name not in expected]
    if strange:
        raise RuntimeError(f"{script} needs more than the machine has: "
                           + ", ".join(strange))
    return files
