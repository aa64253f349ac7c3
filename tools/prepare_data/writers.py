# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Samples to files. Files appear whole, under their names, when all are written."""

import json
import os
import struct

import numpy

from .errors import UserError
from .tokenizer import sha256

# llm.c's headers (llm.c, dev/data/data_common.py): 256 int32, of which magic, version, number of tokens.
HEADER_WORDS = 256
HEADERS = {"<u2": (20240520, 1), "<u4": (20240801, 7)}

SHARD_TOKENS = 100_000_000

# Rows that are written at a time.
ROWS = 256


class Files:
    """Files that are written beside their final names and renamed together. None is written through a link."""

    def __init__(self):
        self.open = []  # (temporary name, final name or None: it goes at the end)

    def create(self, path, keep=True):
        temporary = os.path.join(os.path.dirname(path) or ".", f".{os.path.basename(path)}.{os.getpid()}.{len(self.open)}.tmp")
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        except OSError as error:
            raise UserError(f"-o: '{path}' cannot be written: {error.strerror}") from None
        self.open.append((temporary, path if keep else None))
        return os.fdopen(handle, "wb+")

    def commit(self):
        made = []
        for temporary, path in self.open:
            if path is None:
                os.unlink(temporary)
                continue
            entry = {"name": os.path.basename(path), "bytes": os.path.getsize(temporary), "sha256": sha256(temporary)}
            os.replace(temporary, path)
            made.append(entry)
        self.open = []
        return made

    def discard(self):
        for temporary, _ in self.open:
            os.unlink(temporary)
        self.open = []


class TokenWriter:
    """Shards of at most `shard_tokens` tokens, with llm.c's header: NAME.bin, or NAME_000001.bin and so on where there are several."""

    def __init__(self, files, path, vocabulary, shard_tokens):
        self.files, self.path, self.most = files, path, shard_tokens
        self.type = "<u2" if vocabulary <= 1 << 16 else "<u4"
        self.shards = self.tokens = self.here = 0
        self.file = None

    def add(self, ids):
        begin = 0
        while begin < len(ids):
            if self.file is None or self.here == self.most:
                self.next_shard()
            piece = ids[begin : begin + self.most - self.here]
            self.file.write(piece.astype(self.type).tobytes())
            self.here += len(piece)
            self.tokens += len(piece)
            begin += len(piece)

    def next_shard(self):
        self.end_shard()
        self.shards += 1
        stem, suffix = os.path.splitext(self.path)
        self.file = self.files.create(f"{stem}_{self.shards:06d}{suffix}")
        self.file.write(bytes(4 * HEADER_WORDS))

    def end_shard(self):
        if self.file is None:
            return
        header = numpy.zeros(HEADER_WORDS, "<i4")
        header[:3] = (*HEADERS[self.type], self.here)
        self.file.seek(0)
        self.file.write(header.tobytes())
        self.file.close()
        self.here = 0

    def close(self):
        self.end_shard()
        if self.shards == 1:
            self.files.open[0] = (self.files.open[0][0], self.path)


class SampleWriter:
    """A .safetensors file of input_ids, labels and position_ids, i32 [samples, length]. Its size is known at the end alone, so each
    array is a file of its own until then."""

    NAMES = ("input_ids", "labels", "position_ids")

    def __init__(self, files, path, length):
        self.files, self.path, self.length = files, path, length
        self.parts = [files.create(f"{path}.{name}", keep=False) for name in self.NAMES]
        self.rows = [[] for _ in self.NAMES]
        self.samples = 0

    def add(self, sample):
        for rows, row in zip(self.rows, (sample.ids, sample.labels, sample.positions)):
            rows.append(row)
        self.samples += 1
        if len(self.rows[0]) == ROWS:
            self.flush()

    def flush(self):
        for part, rows in zip(self.parts, self.rows):
            part.write(b"".join(row.astype("<i4").tobytes() for row in rows))
            rows.clear()

    def close(self):
        self.flush()
        size = self.samples * self.length * 4
        header = {"__metadata__": {"labels": "unshifted", "format": "pt"}}
        for i, name in enumerate(self.NAMES):
            header[name] = {"dtype": "I32", "shape": [self.samples, self.length], "data_offsets": [i * size, (i + 1) * size]}
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with self.files.create(self.path) as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for part in self.parts:
                part.seek(0)
                while piece := part.read(1 << 20):
                    file.write(piece)
                part.close()


def write_json(files, path, value):
    with files.create(path) as file:
        file.write((json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode())
