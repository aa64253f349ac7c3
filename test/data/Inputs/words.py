#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""words.py TOKENIZER TEXT BIN: tokens by way of words, and which are trained, are those that the tokenizers' library gives, for tokenizers made
of TOKENIZER (tokenizer.json) in the ways of known models; and so are those of BIN, which was made of TEXT by paragraphs."""

import copy
import json
import os
import random
import re
import sys

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools"))
from prepare_data import words  # noqa: E402
from prepare_data.tokenizer import Tokenizer  # noqa: E402

# Pieces that patterns look at: letters of contractions, digits, white space and line breaks of all kinds, marks, what normalizes, what
# is in no block of Unicode, and tokens that were added.
PIECES = ["a", "b", "s", "t", "m", "d", "re", "ve", "ll", "S", "RE", "Ll", "'", "'s", "'ll", "0", "1", "2345", " ", "  ", "   ", "\t", "\n", "\n\n", "\r\n",
          "\r", "\x0b", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", "(", "((", "_", ".", "-", "é", "ß", "中文", "한", "ा", "٣", "Ⅷ", "²", "𝟘", "e\u0301",
          "\u0301", "😀", "ſ", "\u200b", "\ufeff", "\u0378", "\x00", "\U00100000", "<|endoftext|>", "<|im_end|>", "<|im", "<tool>"]


def split(pattern):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}, byte_level(use_regex=False)]}


def byte_level(**fields):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True} | fields


def template(token, number):
    return {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]}}}


def tokenizers(described):
    """Name, tokenizer.json, and whether its words are known."""
    def changed(**fields):
        return copy.deepcopy(described) | fields

    def added(contents, **flags):
        vocabulary = 1 + max(described["model"]["vocab"].values())
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False} | flags
        return described["added_tokens"] + [{"id": vocabulary + i, "content": content} | flags for i, content in enumerate(contents)]

    digits = {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level()]}
    yield "gpt2", changed(), True
    yield "llama3", changed(pre_tokenizer=split(words.GPT4 % "{1,3}"), post_processor=template("<|im_start|>", 1)), True
    yield "qwen", changed(pre_tokenizer=split(words.GPT4 % ""), normalizer={"type": "NFC"}), True
    yield "smollm", changed(pre_tokenizer=digits), True
    yield "neox", changed(normalizer={"type": "NFC"}, added_tokens=added(["  ", "   ", "t\n"])), True
    yield "strips", changed(added_tokens=added(["<tool>"], lstrip=True)), True
    yield "prefix", changed(pre_tokenizer=byte_level(add_prefix_space=True)), False
    yield "dropout", changed(model=described["model"] | {"unk_token": None, "dropout": 0.0}), True
    yield "trims", changed(post_processor=byte_level(add_prefix_space=True)), True
    yield "lower", changed(normalizer={"type": "Lowercase"}), False


def spans_of(text, draw):
    borders = sorted(draw.randint(0, len(text)) for _ in range(2 * draw.randint(0, 3)))
    return list(zip(borders[::2], borders[1::2]))


def verify(what, made, wanted):
    if not all(map(numpy.array_equal, made, wanted)):
        sys.exit(f"{what}: {made} is not {wanted}")


def compare(name, tokenizer, known, draw):
    for i in range(300):
        few = draw.sample(PIECES, draw.randint(2, 12)) if i % 3 else PIECES
        texts = ["".join(draw.choice(few) for _ in range(draw.randint(0, 30))) for _ in range(draw.randint(1, 6))]
        spans = [spans_of(text, draw) for text in texts]
        for special in (True, False):
            verify(f"{name}: {texts!r}", tokenizer.encode_all(texts, special), tokenizer.model.encode_whole(texts, None, special))
            verify(f"{name}: {texts!r}, {spans}", tokenizer.encode_marked(texts, spans, special), tokenizer.model.encode_whole(texts, spans, special))
    encoder = tokenizer.model.by_words[True]
    if (encoder is not None and encoder.encode(["it's the 2 seas\n\n  and", ""]) is not None) != known:
        sys.exit(f"{name}: {'does not go' if known else 'goes'} by way of words")
    print(name, "as the library")


def main():
    with open(os.path.join(sys.argv[1], "tokenizer.json"), encoding="utf-8") as file:
        described = json.load(file)
    draw = random.Random(1)
    for name, made, known in tokenizers(described):
        os.makedirs(name, exist_ok=True)
        with open(os.path.join(name, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(made, file)
        compare(name, Tokenizer(name), known, draw)
    tokenizer = Tokenizer(sys.argv[1])
    with open(sys.argv[2], encoding="utf-8") as file:
        paragraphs = [text for text in re.split(r"\n\s*\n", file.read()) if text.strip()]
    wanted = [number for text in paragraphs for number in (*tokenizer.model.model.encode(text.strip()).ids, tokenizer.eos)]
    if numpy.fromfile(sys.argv[3], "<u2")[512:].tolist() != wanted:
        sys.exit("the shard is not what the library makes of the text")
    print(len(wanted), "tokens of the shard as the library")


if __name__ == "__main__":
    main()
