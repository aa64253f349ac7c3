# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which rows there are, and what each of three short calls runs of them.

A machine that is lent for ten minutes at a time runs the three sessions one
after another; each ends by itself, and what it leaves undone the later ones
take up behind their own rows.
"""

import profile_rows
import rows
import speed

SESSIONS = (1, 2, 3)
# Of a session, all together; under the 560 that a call may take, for what is
# between the end of the last row and the last line of the tables.
SECONDS = 545
# If all else fails, the call is ended after these, with its tables.
LAST_SECONDS = 555

# PyTorch's contenders of a large model: first those that tell most for their
# time. Compiling a whole model takes minutes, compiling one block seconds.
FIRST_PEERS = ("eager", "fsdp2-compile")
LATER_PEERS = ("fsdp2", "compile")


def everything(bundle):
    yield from rows.correctness(bundle)
    yield from speed.rows(bundle)
    yield from profile_rows.rows(bundle)
    yield from rows.sanitizers(bundle)


def named(found, *beginnings):
    """Rows by what their names begin with, in the order of the beginnings."""
    return [row for begin in beginnings for row in found
            if row.name.startswith(begin)]


def of_session(bundle, number):
    """A session's own rows, in order of worth."""
    found = list(everything(bundle))
    first, others = bundle["workloads"][:1], bundle["workloads"][1:]
    eight = [work for work in others if speed.eight_bits(work)]
    others = [work for work in others if not speed.eight_bits(work)]
    if number == 1:
        return [*named(found, "machine", "f32-", "bf16-", "documents-",
                       "fp8-", "cases"),
                *map(speed.speed_row, first),
                *named(found, "strict-", "ranks-2-")]
    if number == 2:
        plain = [w for w in others if w["recompute"] == "none"]
        return [*(speed.speed_row(work, kept(work, peers))
                  for peers in (FIRST_PEERS, LATER_PEERS) for work in plain),
                *(speed.speed_row(work) for work in others
                  if work["recompute"] != "none")]
    profiles = named(found, "profile-")
    return [*named(found, "memcheck-"), *map(speed.speed_row, eight),
            *profiles[1:], *profiles[:1],
            *named(found, "racecheck-", "start-", "ranks-4-")]


def kept(work, peers):
    return [peer for peer in peers if peer in work["peers"]]


def to_do(bundle, number, results):
    """The rows of a call: the session's own, then those of earlier sessions;
    of all of them what `results` do not have yet."""
    chosen = []
    for session in [number, *range(1, number)]:
        chosen += [row for row in of_session(bundle, session)
                   if not row.over(results.get(row.name, []))]
    return chosen
