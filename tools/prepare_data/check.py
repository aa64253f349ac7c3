# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--check: a prepared file against its manifest, and a sample of it as text, what is trained in colour."""

import json
import os
import struct

import numpy

from .errors import UserError, UsageError
from .packing import IGNORED
from .tokenizer import Tokenizer, read_json, sha256
from .writers import HEADERS, HEADER_WORDS

TRAINED, MASKED, BORDER, PLAIN = "\033[32m", "\033[2m", "\033[36m", "\033[0m"


def manifest_path(path):
    return os.path.splitext(path)[0] + ".manifest.json"


def check(path, number, tokenizer, colour):
    """The lines to print."""
    manifest = find_manifest(path)
    folder = os.path.dirname(path)
    for entry in manifest["files"]:
        each = os.path.join(folder, os.path.basename(entry["name"]))
        if not os.path.isfile(each) or os.path.getsize(each) != entry["bytes"] or sha256(each) != entry["sha256"]:
            raise UserError(f"'{each}' is not as it was prepared: prepare it again")
    yield f"{len(manifest['files'])} files are as they were prepared: {manifest['documents']:,} documents, {manifest['tokens']:,} tokens"
    tokenizer = Tokenizer(tokenizer or manifest["tokenizer"]["path"])
    if sha256(tokenizer.path) != manifest["tokenizer"]["sha256"]:
        raise UserError(f"'{tokenizer.path}' is not the tokenizer that prepared '{path}': give that one with --tokenizer")
    first = os.path.join(folder, manifest["files"][0]["name"])
    ids, trained, begins, count = (read_arrays if first.endswith(".safetensors") else read_tokens)(first, number, manifest)
    yield f"sample {number} of {count}, {int(trained.sum())} of {len(ids)} tokens trained:"
    used = without_padding(ids, trained, begins)
    yield "".join(paint(tokenizer, ids[:used], trained[:used], begins[:used], colour))
    if used < len(ids):
        yield f"--- {len(ids) - used} tokens of padding"


def find_manifest(path):
    if path.endswith(".manifest.json"):
        return read_json(path)
    beside = manifest_path(path)
    if not os.path.isfile(beside):
        raise UserError(f"--check: there is no '{beside}' beside '{path}': name what -o named")
    return read_json(beside)


def sample_range(number, count):
    if not 0 <= number < count:
        raise UsageError(f"--sample: there is no sample {number}, the file has {count}")


def read_arrays(path, number, manifest):
    with open(path, "rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
    count, length = header["input_ids"]["shape"]
    sample_range(number, count)

    def row(name):
        offset = 8 + size + header[name]["data_offsets"][0] + number * length * 4
        return numpy.fromfile(path, "<i4", length, offset=offset)

    return row("input_ids"), row("labels") != IGNORED, row("position_ids") == 0, count


def read_tokens(path, number, manifest):
    magic = int(numpy.fromfile(path, "<i4", 1)[0])
    kind = next(kind for kind, (known, _) in HEADERS.items() if known == magic)
    tokens = numpy.memmap(path, kind, "r", offset=4 * HEADER_WORDS)
    length = manifest["seq"] or min(256, len(tokens))
    count = max(1, (len(tokens) - 1) // length)
    sample_range(number, count)
    ids = numpy.array(tokens[number * length : (number + 1) * length])
    begins = numpy.zeros(len(ids), bool)
    begins[1:] = ids[:-1] == manifest["tokenizer"]["eos"]
    return ids, numpy.ones(len(ids), bool), begins, count


def without_padding(ids, trained, begins):
    """How many tokens come before the padding: a last document of one token again and again, none of it trained."""
    last = int(numpy.flatnonzero(begins)[-1]) if begins.any() else 0
    padding = last > 0 and not trained[last:].any() and (ids[last:] == ids[last]).all()
    return last if padding else len(ids)


def readable(text):
    """Without what a terminal would take for commands."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)


def paint(tokenizer, ids, trained, begins, colour):
    """Runs of tokens that are alike, decoded together. Without colour, ⟦ ⟧ stand around what is trained."""
    edges = numpy.flatnonzero((trained[1:] != trained[:-1]) | begins[1:]) + 1
    for begin, end in zip([0, *edges], [*edges, len(ids)]):
        text = readable(tokenizer.decode(ids[begin:end].tolist()))
        if begins[begin] and begin:
            yield f"\n{BORDER}--- next document{PLAIN}\n" if colour else "\n--- next document\n"
        if colour:
            yield f"{TRAINED if trained[begin] else MASKED}{text}{PLAIN}"
        else:
            yield f"⟦{text}⟧" if trained[begin] else text
