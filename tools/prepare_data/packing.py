# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A stream of documents to samples of one length. Positions restart in each document, and its first token is no label: nothing is
predicted from another document."""

import bisect
import collections

import numpy

from .errors import UserError

IGNORED = -100

# Token ids, which are trained, whether a document begins with it (otherwise one goes on), and its place in the sources.
Document = collections.namedtuple("Document", "ids trained begins where")

# How many documents a best fit looks among: enough that almost nothing is padded.
WINDOW = 4096


class Counts:
    def __init__(self):
        self.documents = self.samples = self.tokens = self.trained = self.padding = self.truncated = self.dropped = self.split = self.skipped = 0


class Sample:
    """Rows of a file: ids, labels that the model shifts itself (as transformers' models do), and positions."""

    def __init__(self, length, pad):
        self.ids = numpy.full(length, pad, numpy.int32)
        self.labels = numpy.full(length, IGNORED, numpy.int32)
        self.positions = numpy.zeros(length, numpy.int32)
        self.used = 0

    def add(self, ids, trained):
        rows = slice(self.used, self.used + len(ids))
        self.ids[rows] = ids
        self.labels[rows] = numpy.where(trained, ids.astype(numpy.int32), IGNORED)
        self.labels[rows.start] = IGNORED
        self.positions[rows] = numpy.arange(len(ids))
        self.used = rows.stop

    def close(self):
        """What pads is a document of its own."""
        self.positions[self.used :] = numpy.arange(len(self.positions) - self.used)


def limit(documents, length, policy, counts):
    """Documents of at most `length` tokens."""
    for document in documents:
        ids, trained = document.ids, document.trained
        if len(ids) <= length or policy == "split":
            counts.split += len(ids) > length
            for begin in range(0, len(ids), length):
                yield document._replace(ids=ids[begin : begin + length], trained=trained[begin : begin + length])
        elif policy == "truncate":
            counts.truncated += 1
            yield document._replace(ids=ids[:length], trained=trained[:length])
        elif policy == "drop":
            counts.dropped += 1
        else:
            raise UserError(f"{document.where}: it has {len(ids)} tokens, a sample takes {length}: give a longer --seq, or --too-long=truncate, drop or split")


def join(documents, length, pad, counts):
    """Documents one behind the other: one is cut where a sample ends, and goes on in the next."""
    sample = Sample(length, pad)
    for document in documents:
        begin = 0
        counts.split += len(document.ids) > length - sample.used
        while begin < len(document.ids):
            end = min(len(document.ids), begin + length - sample.used)
            sample.add(document.ids[begin:end], document.trained[begin:end])
            begin = end
            if sample.used == length:
                yield sample
                sample = Sample(length, pad)
    if sample.used:
        yield sample


def best_fit(documents, length, pad, counts):
    """Whole documents, the longest first, each into the fullest sample that has room for it (best-fit decreasing)."""
    window = []
    for document in documents:
        window.append(document)
        if len(window) == WINDOW:
            yield from fit(window, length, pad)
            window = []
    yield from fit(window, length, pad)


def fit(window, length, pad):
    order = sorted(range(len(window)), key=lambda i: -len(window[i].ids))
    bins, rooms = [], []  # rooms: (what is left, number of the bin), in order
    for i in order:
        size = len(window[i].ids)
        at = bisect.bisect_left(rooms, (size, -1))
        room, number = rooms.pop(at) if at < len(rooms) else (length, len(bins))
        if number == len(bins):
            bins.append([])
        bins[number].append(i)
        bisect.insort(rooms, (room - size, number))
    # In the order of the sources, as far as the fit leaves one.
    for members in sorted(sorted(members) for members in bins):
        sample = Sample(length, pad)
        for i in members:
            sample.add(window[i].ids, window[i].trained)
        yield sample


def single(documents, length, pad, counts):
    """A sample for each document."""
    for document in documents:
        sample = Sample(length, pad)
        sample.add(document.ids, document.trained)
        yield sample


PACKERS = {"join": join, "best-fit": best_fit, "none": single}


def samples(documents, length, pad, packing, too_long, counts):
    """Closed samples. `join` cuts documents by itself."""
    if packing != "join":
        documents = limit(documents, length, too_long, counts)
    for sample in PACKERS[packing](documents, length, pad, counts):
        counts.samples += 1
        counts.tokens += sample.used
        counts.padding += length - sample.used
        counts.trained += int(numpy.count_nonzero(sample.labels != IGNORED))
        sample.close()
        yield sample
