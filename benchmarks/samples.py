#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes what a model is fed that takes more than tokens: samples.py PRESET
FILE.npz, in the environment that models/make_env makes."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "models"))

import numpy

import export

if __name__ == "__main__":
    preset, path = sys.argv[1:]
    numpy.savez(path, **export.samples_of(export.parse([preset])))
