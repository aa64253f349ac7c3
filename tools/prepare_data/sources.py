# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files to records. A file is read in blocks, which worker processes take side by side; a record knows where it stands."""

import collections
import glob
import json
import os
import re

from .errors import UserError, need

# In JSON, half of a character beyond U+FFFF.
HALF = re.compile(rb"\\u[dD][89a-fA-F]")

SUFFIXES = (".txt", ".jsonl", ".parquet")
BLOCK_BYTES = 4 << 20

# The field of a text that is a part of its document: is it the first, is it the last.
PART = ("part",)

# Bytes [begin, end) of a text file, or row group `begin` of a Parquet file; `size` bytes of the file, for the progress bar.
Block = collections.namedtuple("Block", "path begin end size")

# `where` is a Where; `fields` a dictionary.
Record = collections.namedtuple("Record", "where fields")


def find_files(patterns):
    """Files, folders and glob patterns, in the order in which they are named, those of one pattern by name."""
    files = []
    for pattern in patterns:
        if os.path.isdir(pattern):
            found = [os.path.join(pattern, name) for name in os.listdir(pattern) if name.endswith(SUFFIXES)]
        else:
            found = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
        if not found:
            raise UserError(f"'{pattern}': no such file, and no pattern or folder of {', '.join(SUFFIXES)} files")
        files += sorted(found)
    for path in files:
        if not path.endswith(SUFFIXES):
            raise UserError(f"'{path}' is not one of {', '.join(SUFFIXES)}: rename it, or convert it")
        if not os.path.isfile(path):
            raise UserError(f"'{path}' is not a regular file")
    return files


def blocks_of(path, split):
    """The blocks of a file; those of a text file end where a document may."""
    if path.endswith(".parquet"):
        metadata = open_parquet(path).metadata
        return [Block(path, group, group + 1, metadata.row_group(group).total_byte_size) for group in range(metadata.num_row_groups)]
    size = os.path.getsize(path)
    blocks, begin = [], 0
    with open(path, "rb") as file:
        while begin < size:
            end = next_break(file, begin + BLOCK_BYTES, size, b"\n\n" if split == "paragraph" else b"\n")
            blocks.append(Block(path, begin, end, end - begin))
            begin = end
    return blocks


def next_break(file, position, size, mark):
    """Behind the first `mark` at or after `position`. A whole file is cut between two lines neither of which is blank: there no
    tokenizer that splits at white space joins what lies on both sides."""
    if position >= size:
        return size
    file.seek(position)
    tail = b""
    while piece := file.read(1 << 16):
        tail += piece
        for found in re.finditer(re.escape(mark), tail):
            at = found.end()
            if mark != b"\n" or (tail[at - 2 : at - 1].strip() and tail[at : at + 1].strip()):
                return position + at
    return size


def open_parquet(path):
    pyarrow = need("pyarrow")
    parquet = need("pyarrow.parquet")
    try:
        return parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"'{path}' is no Parquet file that can be read: {str(error).splitlines()[0]}") from None


def read_block(block, split):
    """The records of a block."""
    if block.path.endswith(".parquet"):
        return read_parquet(block)
    with open(block.path, "rb") as file:
        file.seek(block.begin)
        data = file.read(block.end - block.begin)
    if block.path.endswith(".jsonl"):
        return read_lines(block, data)
    return read_text(block, data, split)


def line_number(path, position):
    """Of the byte at `position`, from 1: counted only when it must be said."""
    count = 1
    with open(path, "rb") as file:
        while position > 0 and (piece := file.read(min(position, 1 << 20))):
            count += piece.count(b"\n")
            position -= len(piece)
    return count


def decode(data, path, position):
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = line_number(path, position + error.start)
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise UserError(f"{path}:{line}: byte {column} of the line is not UTF-8: convert the file") from None


class Where:
    """A place in a file, for messages: a byte of a text file, which becomes the number of its line when it is printed, or a row."""

    def __init__(self, path, position):
        self.path, self.position = path, position

    def __str__(self):
        if self.path.endswith(".parquet"):
            return f"{self.path}: row {self.position}"
        return f"{self.path}:{line_number(self.path, self.position)}"


def read_lines(block, data):
    position = block.begin
    for line in data.split(b"\n"):
        where = Where(block.path, position)
        position += len(line) + 1
        if not line.strip():
            continue
        text = decode(line, block.path, where.position)
        try:
            fields = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            column = getattr(error, "colno", 1)
            raise UserError(f"{where}:{column}: this line is no JSON ({getattr(error, 'msg', 'too deeply nested')}): mend or remove it") from None
        if not isinstance(fields, dict):
            raise UserError(f"{where}: this line is JSON, but no object with fields such as \"text\"")
        if HALF.search(line):
            check_halves(where, fields)
        yield Record(where, fields)


def check_halves(where, fields):
    try:
        json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{where}: \\u{ord(error.object[error.start]):x} is half of a character, and the other half is not beside it: mend or remove the line") from None


def read_text(block, data, split):
    """`file`: the block is (a part of) one document; `paragraph`: documents are parted by blank lines; `line`: each is one."""
    if split == "file":
        last = block.end == os.path.getsize(block.path)
        yield Record(Where(block.path, block.begin), {"text": decode(data, block.path, block.begin), PART: (block.begin == 0, last)})
        return
    position = block.begin
    for piece in re.split(rb"(\n\s*\n|\Z)" if split == "paragraph" else rb"(\n|\Z)", data):
        text = decode(piece, block.path, position).strip()
        if text:
            yield Record(Where(block.path, position), {"text": text})
        position += len(piece)


def read_parquet(block):
    file = open_parquet(block.path)
    first = sum(file.metadata.row_group(group).num_rows for group in range(block.begin))
    for row, fields in enumerate(file.read_row_group(block.begin).to_pylist()):
        yield Record(Where(block.path, first + row), fields)
