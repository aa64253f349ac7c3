# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Text to words, as the first step of a byte-level tokenizer parts it: whole arrays of characters at a time, since a regular
expression takes most of what it costs to tokenize. What becomes of a word depends on it alone, so the tokenizer is asked once for
each different one (words_encoder.py)."""

import collections
import unicodedata

import numpy

from .errors import need

# What a character is. A BORDER is a word of its own, and an end to what stands before it; of a STRANGE one it is not known.
UNKNOWN, LETTER, DIGIT, SPACE, OTHER, BORDER, STRANGE = range(7)

# Characters that stand for what is none: where a text begins and ends, and the tokens that were found in it before it is parted.
BEGIN, END, FIRST_TOKEN = 0, 1, 0x100000

# `lines`: line breaks end words, and any one character other than these may stand before letters (GPT-4's pattern; else GPT-2's).
# At most so many `digits` are a word; 0: as many as there are.
Rule = collections.namedtuple("Rule", "lines digits")

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
GPT4 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
RULES = {GPT2: Rule(False, 0), GPT4 % "{1,3}": Rule(True, 3), GPT4 % "": Rule(True, 1)}

LONG_S = 0x17F  # is an "s" where case is ignored


def find_rule(steps):
    """The rule of `pre_tokenizer` of a tokenizer.json; None: it parts words in another way."""
    steps = steps["pretokenizers"] if steps and steps["type"] == "Sequence" else [steps]
    if len(steps) not in (1, 2) or not steps[-1] or steps[-1]["type"] != "ByteLevel" or steps[-1].get("add_prefix_space"):
        return None
    first, matches = steps[0], steps[-1].get("use_regex", True)
    if len(steps) == 1:
        return RULES[GPT2] if matches else None
    if first["type"] == "Digits":
        return Rule(False, 1) if first["individual_digits"] and matches else None
    isolates = first["type"] == "Split" and first["behavior"] == "Isolated" and not first["invert"]
    return RULES.get(first["pattern"].get("Regex")) if isolates and not matches else None


class Kinds:
    """What each character is, in the words of the tokenizers' library, which is asked when one is first met."""

    def __init__(self, rule, normalized):
        self.library, self.rule, self.normalized = need("tokenizers"), rule, normalized
        self.table = numpy.full(0x110000, UNKNOWN, numpy.uint8)
        self.ask(numpy.arange(128, dtype=numpy.uint32))
        self.table[[BEGIN, END]] = BORDER
        self.table[FIRST_TOKEN:] = BORDER

    def of(self, characters):
        kinds = self.table[characters]
        if len(new := characters[kinds == UNKNOWN]):
            self.ask(numpy.unique(new))
            kinds = self.table[characters]
        return kinds

    def ask(self, characters):
        text = "".join(map(chr, characters))
        kinds = numpy.full(len(characters), OTHER, numpy.uint8)
        for kind, name in ((LETTER, r"\p{L}"), (DIGIT, r"\p{N}"), (SPACE, r"\s")):
            self.mark(kinds, kind, text, self.library.pre_tokenizers.Split(self.library.Regex(f"[^{name}]"), "removed"))
        self.table[characters] = numpy.where(self.strange(characters, text, kinds), STRANGE, kinds)

    @staticmethod
    def mark(kinds, kind, text, step):
        for _, (begin, end) in step.pre_tokenize_str(text):
            kinds[begin:end] = kind

    def strange(self, characters, text, kinds):
        """Where ours might differ from the library: in what is a digit to it alone, in what Python cannot say how to normalize."""
        strange = numpy.zeros(len(characters), bool)
        if self.rule.lines:
            strange |= characters == LONG_S
        elif self.rule.digits:
            step = self.library.pre_tokenizers.Digits(individual_digits=True)
            strange = numpy.array([step.pre_tokenize_str(f"a{c}") != [(f"a{c}", (0, 2))] for c in text]) != (kinds == DIGIT)
        if self.normalized:
            strange |= numpy.array([unicodedata.category(c) == "Cn" for c in text])
        return strange


def part(rule, characters, kinds):
    """Where words begin: True or False for each character, of which the last is a BORDER."""
    if rule.digits and not rule.lines:  # digits are parted from a text before anything else
        kinds = numpy.where(kinds == DIGIT, BORDER, kinds)
    begins = numpy.ones(len(kinds), bool)
    begins[1:] = (kinds[1:] != kinds[:-1]) | (kinds[1:] == BORDER)
    if rule.lines:
        part_lines(characters, kinds, begins)
        part_digits(rule.digits, kinds, begins)
    part_spaces(rule, characters, kinds, begins)
    if rule.lines:
        join_letters(kinds, begins)
    part_contractions(rule, characters, begins)
    return begins


def is_break(characters):
    return (characters == 10) | (characters == 13)


def part_lines(characters, kinds, begins):
    """White space up to its last line break is a word, but the breaks behind other characters belong to these."""
    breaks = numpy.flatnonzero(is_break(characters))
    if not len(breaks):
        return
    run = numpy.cumsum(begins, dtype=numpy.int32)[breaks]
    begins[breaks[numpy.append(run[1:] != run[:-1], True)] + 1] = True
    gap = numpy.diff(breaks) > 1
    first, last = breaks[numpy.append(True, gap)], breaks[numpy.append(gap, True)]
    taken = kinds[first - 1] == OTHER  # a text begins with a BORDER
    begins[first[taken]] = False
    begins[last[taken] + 1] = True


def part_digits(most, kinds, begins):
    digits = numpy.flatnonzero(kinds == DIGIT)
    first = numpy.maximum.accumulate(numpy.where(begins[digits], digits, 0))
    begins[digits[(digits - first) % most == 0]] = True


def part_spaces(rule, characters, kinds, begins):
    """The last of white space goes to what follows it if that takes it, and is a word of its own otherwise."""
    space = kinds == SPACE
    last = numpy.flatnonzero(space[:-1] & ~space[1:] & (kinds[1:] != BORDER))
    behind = kinds[last + 1]
    taken = characters[last] == ord(" ")
    if rule.lines:
        inside = ~is_break(characters[last])
        last, behind, taken = last[inside], behind[inside], taken[inside]
        taken = (behind == LETTER) | (taken & (behind == OTHER))
    begins[last] = True
    begins[last[taken] + 1] = False


def join_letters(kinds, begins):
    """One other character goes to the letters behind it."""
    single = numpy.flatnonzero(begins[:-1] & (kinds[:-1] == OTHER) & (kinds[1:] == LETTER))
    begins[single + 1] = False


def part_contractions(rule, characters, begins):
    """'s 't 'm 'd 're 've 'll where a word would begin with the apostrophe."""
    at = numpy.flatnonzero(characters == ord("'"))
    at = at[begins[at]]
    case = 0x20 if rule.lines else 0
    one, two = (characters[numpy.minimum(at + i, len(characters) - 1)] | characters.dtype.type(case) for i in (1, 2))
    length = numpy.zeros(len(at), numpy.int64)
    for word in ("s", "t", "m", "d", "re", "ve", "ll"):
        length[(one == ord(word[0])) & ((two == ord(word[-1])) | (len(word) == 1))] = len(word)
    at, length = at[length > 0], length[length > 0]
    begins[at + 1] = False
    begins[at + 1 + length] = True
