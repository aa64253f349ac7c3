# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Several sources to one stream. A mixture is a JSON file:

    {"seq": 8192, "tokens": 100000000, "tokenizer": "tokenizer.json",
     "sources": [{"name": "web", "files": ["web/*.parquet"], "weight": 0.7},
                 {"name": "code", "files": ["code.jsonl"], "weight": 0.3, "columns": {"text": "content"}}]}

Its paths are relative to it. A weight is a source's share of the tokens."""

import os

from .errors import UserError
from .tokenizer import read_json

KEYS = {"seq": int, "tokens": int, "tokenizer": str, "chat_template": str, "packing": str, "sources": list}
SOURCE_KEYS = {"name": str, "files": list, "weight": (int, float), "columns": dict, "split": str, "train_on": str}


def check_keys(where, value, known):
    if not isinstance(value, dict):
        raise UserError(f"{where} is no object")
    for key, entry in value.items():
        if key not in known:
            raise UserError(f'{where}: "{key}" is not known; {", ".join(known)} are')
        if not isinstance(entry, known[key]) or isinstance(entry, bool):
            raise UserError(f'{where}: "{key}" is {str(entry)[:40]}, which is of the wrong kind')


def read_mixture(path):
    """The file's object, with paths as seen from here."""
    mixture = read_json(path)
    check_keys(f"'{path}'", mixture, KEYS)
    folder = os.path.dirname(path)
    for key in ("tokenizer", "chat_template"):
        if key in mixture:
            mixture[key] = os.path.join(folder, mixture[key])
    if not mixture.get("sources"):
        raise UserError(f"'{path}' has no \"sources\"")
    for i, source in enumerate(mixture["sources"]):
        where = f"'{path}': source {i}"
        check_keys(where, source, SOURCE_KEYS)
        if not source.get("files") or not all(isinstance(name, str) for name in source["files"]):
            raise UserError(f'{where} has no "files"')
        if not source.get("weight", 1) > 0:
            raise UserError(f'{where}: "weight" is not positive')
        source["files"] = [os.path.join(folder, name) for name in source["files"]]
        source.setdefault("name", os.path.basename(source["files"][0]))
    return mixture


class Stream:
    """The documents of a source, again and again; counts what it gave."""

    def __init__(self, name, weight, open_documents):
        self.name, self.weight, self.open = name, weight, open_documents
        self.documents = self.tokens = self.epochs = 0
        self.begin()

    def begin(self):
        self.iterator = self.open()
        self.coming = next(self.iterator, None)

    def next(self):
        document, self.coming = self.coming, next(self.iterator, None)
        self.documents += document.begins
        self.tokens += len(document.ids)
        return document

    def restart(self):
        if self.tokens == 0:
            raise UserError(f"the source '{self.name}' has no documents")
        self.epochs += 1
        self.begin()

    @property
    def due(self):
        return self.tokens / self.weight


def mix(streams, tokens):
    """The next document is of the source that is furthest behind its share. Ends when there are `tokens`; where none are asked for,
    with the first source that ends."""
    total = 0
    while tokens is None or total < tokens:
        stream = min(streams, key=lambda each: each.due)
        if stream.coming is None:
            if tokens is None:
                return
            stream.restart()
        document = stream.next()
        yield document
        total += len(document.ids)
        # The parts of a long document stay together.
        while stream.coming is not None and not stream.coming.begins:
            document = stream.next()
            yield document
            total += len(document.ids)
