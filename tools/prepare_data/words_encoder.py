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


def trims(step):
    """Whether a post-processor says of a token that it begins behind its white space."""
    return bool(step) and (bool(step.get("trim_offsets")) or any(map(trims, step.get("processors", ()))))


def bytes_of_tokens(model):
    """How many bytes of a text each id stands for: one for each character of a byte-level token."""
    sizes = numpy.zeros(1 + max(model.get_vocab(with_added_tokens=True).values()), numpy.int64)
    for token, number in model.get_vocab(with_added_tokens=False).items():
        sizes[number] = len(token)
    for number, token in model.get_added_tokens_decoder().items():
        sizes[number] = len(token.content.encode())
    return sizes


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
    sizes = None if trims(described.get("post_processor")) else bytes_of_tokens(model)
    return WordsEncoder(model, rule, normalizer is not None, affixes, sizes)


class WordsEncoder:
    def __init__(self, model, rule, normalized, affixes, sizes):
        self.model, self.rule, self.normalized, self.affixes, self.sizes = model, rule, normalized, affixes, sizes
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

    def encode(self, texts, spans=None):
        """All ids, how many each text has, where there are spans, which tokens begin inside; and of which texts that is what the
        library gives. None: ask it for all."""
        known = numpy.fromiter(map(self.suits, texts), bool, len(texts))
        if self.rest > 0 or 2 * numpy.count_nonzero(known) < len(texts) or (spans is not None and self.sizes is None):
            self.rest -= self.rest > 0
            return None
        joined = f"{END}{BEGIN}".join(texts).join((BEGIN, END))
        borders = 2 * len(texts)
        for each in self.passes:
            joined, count = each.subn(lambda found: self.marks[found.group()], joined)
            borders += count
        made = self.encode_joined(joined, borders, known)
        if made is None or spans is None:
            return made and (made, known)
        trained, certain = self.trained(texts, spans, *made)
        return (*made, trained), known & certain

    def encode_joined(self, joined, borders, known):
        """Takes from `known` the texts in which a character is strange."""
        data = joined.encode()
        characters = numpy.frombuffer(data, numpy.uint8) if joined.isascii() else numpy.frombuffer(joined.encode("utf-32-le"), "<u4")
        kinds = self.kinds.of(characters)
        if numpy.count_nonzero(kinds == words.BORDER) != borders:
            return None
        strange = numpy.flatnonzero(kinds == words.STRANGE)
        known[numpy.searchsorted(numpy.flatnonzero(characters == words.BEGIN), strange) - 1] = False
        begins = numpy.flatnonzero(words.part(self.rule, characters, kinds))
        ends = (characters == words.END)[begins]
        if characters.itemsize > 1:
            begins = numpy.flatnonzero(numpy.frombuffer(data, numpy.int8) >= -64)[begins]  # not inside of a character
        numbers = self.numbers_of(data, begins)
        lengths = (self.ends[1:] - self.ends[:-1])[numbers]
        behind = numpy.cumsum(lengths)
        ids = self.ids[numpy.arange(behind[-1]) + numpy.repeat(self.ends[numbers] - behind + lengths, lengths)]
        return ids, numpy.diff(behind[ends], prepend=0)

    def trained(self, texts, spans, ids, lengths):
        """Which tokens begin inside of the spans of their text, and of which texts that is certain: those whose tokens are as many
        bytes as they are."""
        marks, counts = bytes_of_spans(texts, spans)
        sizes, ends = self.sizes[ids], numpy.cumsum(lengths)
        for affix, first in ((self.affixes[0], ends - lengths), (self.affixes[1], ends - len(self.affixes[1]))):
            for i in range(len(affix)):
                sizes[first + i] = 0
        # A text's tokens lie behind where it begins, whatever was before.
        texts_begin, behind = numpy.cumsum(counts) - counts, numpy.append(0, numpy.cumsum(sizes))
        certain = numpy.diff(behind[ends], prepend=0) == counts
        at = behind[:-1] + numpy.repeat(texts_begin - behind[ends - lengths], lengths)
        begins, ends = (numpy.searchsorted(numpy.sort(each), at, "right") for each in marks)
        return (begins > ends) & (sizes > 0), certain

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


def bytes_of_spans(texts, spans):
    """Where spans begin and where they end, in bytes of all texts together, and how many each text has."""
    marks, counts, before = ([], []), numpy.zeros(len(texts), numpy.int64), 0
    for i, (text, each) in enumerate(zip(texts, spans)):
        plain, at, position = text.isascii(), 0, 0
        for mark, which in sorted((mark, which) for span in each for which, mark in enumerate(span)):
            position += mark - at if plain else len(text[at:mark].encode())
            marks[which].append(before + position)
            at = mark
        counts[i] = position + (len(text) - at if plain else len(text[at:].encode()))
        before += counts[i]
    return tuple(numpy.array(each, numpy.int64) for each in marks), counts


def mended(made, known, others):
    """(ids, lengths, …) of many texts, with those of `others` for the texts that are not known."""
    lengths = made[1].copy()
    lengths[~known] = others[1]
    kept, place = numpy.repeat(known, made[1]), numpy.repeat(known, lengths)
    arrays = [numpy.empty(len(place), each.dtype) for each in made]
    for array, mine, other in zip(arrays, made, others):
        if mine is not made[1]:
            array[place], array[~place] = mine[kept], other
    return (arrays[0], lengths, *arrays[2:])


def alternatives(contents):
    """Finds the longest of some words; None of none."""
    longest = sorted(filter(None, contents), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest))) if longest else None


def groups(texts):
    """Slices of texts of about GROUP characters."""
    begin = size = 0
    for i, text in enumerate(texts):
        size += len(text)
        if size >= GROUP:
            yield slice(begin, i + 1)
            begin, size = i + 1, 0
    if begin < len(texts):
        yield slice(begin, len(texts))
