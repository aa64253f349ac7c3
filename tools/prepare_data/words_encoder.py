# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts to token ids by way of their words (words.py). What it gives is what the tokenizer gives; where that is not certain, the
texts go to the tokenizer as they are."""

import json
import re
import unicodedata

import numpy

from . import words
from .errors import need

# Characters that are parted together, and words that are remembered: both bound memory.
GROUP = 4 << 20
MOST_WORDS = 500_000

# Where more than one word in so many is new, as in scripts without spaces, the library is faster: so many groups go to it at once.
RARE, REST = 8, 16

BEGIN, END = chr(words.BEGIN), chr(words.END)


def find_affixes(model, special):
    """What the tokenizer puts before and behind every text; None: that depends on the text."""
    found = set()
    for probe in ("a", "b"):
        bare, whole = (model.encode(probe, add_special_tokens=each).ids for each in (False, special))
        at = next((i for i in range(len(whole)) if whole[i : i + len(bare)] == bare), None) if bare else None
        found.add(None if at is None else (tuple(whole[:at]), tuple(whole[at + len(bare) :])))
    return found.pop() if len(found) == 1 else None


def make_encoder(path, model, special):
    """None: this tokenizer does not make words as words.py does, or not each for itself."""
    with open(path, encoding="utf-8") as file:
        described = json.load(file)
    rule = words.find_rule(described.get("pre_tokenizer"))
    normalizer = described.get("normalizer")
    local = described["model"].get("type") == "BPE" and not described["model"].get("dropout")
    affixes = find_affixes(model, special)
    if rule is None or not local or affixes is None or normalizer not in (None, {"type": "NFC"}):
        return None
    return WordsEncoder(model, rule, normalizer is not None, affixes)


class WordsEncoder:
    def __init__(self, model, rule, normalized, affixes):
        self.model, self.rule, self.normalized, self.affixes = model, rule, normalized, affixes
        self.arrow = need("pyarrow")
        self.kinds = words.Kinds(rule, normalized)
        self.added = {token.content: number for number, token in model.get_added_tokens_decoder().items()}
        self.marks = {content: chr(words.FIRST_TOKEN + i) for i, content in enumerate(self.added)}
        added = model.get_added_tokens_decoder().values()
        # The library looks at what is around some tokens, and for some only when all others are found.
        self.aware = alternatives([token.content for token in added if token.single_word or token.lstrip or token.rstrip])
        passes = (alternatives([token.content for token in added if token.normalized == late]) for late in (False, True))
        self.passes = [each for each in passes if each]
        self.rest = 0
        self.reset()

    def reset(self):
        """`numbers` of the words that are known; the ids of word i are `ids[ends[i - 1] : ends[i]]`."""
        self.numbers, self.ids, self.ends = {}, numpy.zeros(0, numpy.uint32), numpy.zeros(1, numpy.int64)
        known = {BEGIN: self.affixes[0], END: self.affixes[1]}
        known |= {self.marks[content]: (number,) for content, number in self.added.items()}
        self.remember([word.encode() for word in known], list(known.values()))

    def remember(self, new, ids):
        self.numbers.update(zip(new, range(len(self.numbers), len(self.numbers) + len(new))))
        ends = self.ends[-1] + numpy.cumsum([len(each) for each in ids], dtype=numpy.int64)
        self.ends = numpy.concatenate((self.ends, ends))
        self.ids = numpy.concatenate((self.ids, numpy.fromiter((number for each in ids for number in each), numpy.uint32)))

    def suits(self, text):
        if not text.isascii() and self.normalized and not unicodedata.is_normalized("NFC", text):
            return False
        return not (self.aware and self.aware.search(text))

    def encode(self, texts):
        """All ids, and how many each text has; None: ask the library."""
        if self.rest > 0 or not all(map(self.suits, texts)):
            self.rest -= self.rest > 0
            return None
        joined = f"{END}{BEGIN}".join(texts).join((BEGIN, END))
        borders = 2 * len(texts)
        for each in self.passes:
            joined, count = each.subn(lambda found: self.marks[found.group()], joined)
            borders += count
        return self.encode_joined(joined, borders)

    def encode_joined(self, joined, borders):
        data = joined.encode()
        characters = numpy.frombuffer(data, numpy.uint8) if joined.isascii() else numpy.frombuffer(joined.encode("utf-32-le"), "<u4")
        kinds = self.kinds.of(characters)
        if (kinds == words.STRANGE).any() or numpy.count_nonzero(kinds == words.BORDER) != borders:
            return None
        begins = numpy.flatnonzero(words.part(self.rule, characters, kinds))
        ends = (characters == words.END)[begins]
        if characters.itemsize > 1:
            begins = numpy.flatnonzero(numpy.frombuffer(data, numpy.int8) >= -64)[begins]  # not inside of a character
        numbers = self.numbers_of(data, begins)
        lengths = (self.ends[1:] - self.ends[:-1])[numbers]
        behind = numpy.cumsum(lengths)
        ids = self.ids[numpy.arange(behind[-1]) + numpy.repeat(self.ends[numbers] - behind + lengths, lengths)]
        return ids, numpy.diff(behind[ends], prepend=0)

    def numbers_of(self, data, begins):
        """Of each word, in order."""
        arrow = self.arrow
        offsets = numpy.append(begins, len(data)).astype(numpy.int32)
        parted = arrow.Array.from_buffers(arrow.binary(), len(begins), [None, arrow.py_buffer(offsets), arrow.py_buffer(data)])
        coded = parted.dictionary_encode()
        different = coded.dictionary.to_pylist()
        if len(self.numbers) > MOST_WORDS:
            self.reset()
        new = [word for word in different if word not in self.numbers]
        if len(new) > max(len(begins) // RARE, 1000):
            self.rest = REST
        found = self.model.encode_batch_fast([word.decode() for word in new], add_special_tokens=False)
        self.remember(new, [each.ids for each in found])
        return numpy.array([self.numbers[word] for word in different], numpy.int64)[coded.indices.to_numpy()]


def alternatives(contents):
    """Finds the longest of some words; None of none."""
    longest = sorted(filter(None, contents), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest))) if longest else None


def groups(texts):
    """Ranges of texts of about GROUP characters."""
    begin = size = 0
    for i, text in enumerate(texts):
        size += len(text)
        if size >= GROUP:
            yield texts[begin : i + 1]
            begin, size = i + 1, 0
    if begin < len(texts):
        yield texts[begin:]
