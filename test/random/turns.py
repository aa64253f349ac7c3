# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws of a seed by their numbers, several side by side."""

import concurrent.futures
import itertools
import time


def numbers_of(options):
    """The one of --only, or all from --first on."""
    return iter([options.only] if options.only is not None
                else itertools.count(options.first))


def ended(pool, options, most, each, work, *arguments):
    """What work(number, *arguments) gives, as it ends: --jobs at a time, until
    `most` are drawn, of which a call draws `each`, or --seconds are over."""
    end = time.monotonic() + (options.seconds or float("inf"))
    most = most or float("inf")
    numbers = numbers_of(options)
    running, drawn = set(), 0
    while True:
        while len(running) < options.jobs and drawn < most and \
                time.monotonic() < end:
            number = next(numbers, None)
            if number is None:
                break
            running.add(pool.submit(work, number, *arguments))
            drawn += each
        if not running:
            return
        done, running = concurrent.futures.wait(
            running, return_when=concurrent.futures.FIRST_COMPLETED)
        for future in done:
            yield future.result()
