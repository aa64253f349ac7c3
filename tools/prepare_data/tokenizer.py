# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tokenizer as Hugging Face or SentencePiece store it, with what its folder says of it."""

import hashlib
import json
import os

import numpy

from . import words_encoder
from .errors import UserError, UsageError, need

NAMES = ("tokenizer.json", "tokenizer.model", "spiece.model", "sentencepiece.bpe.model")


def locate(path):
    """The tokenizer's file: `path`, or the one in that folder."""
    if os.path.isdir(path):
        for name in NAMES:
            if os.path.isfile(os.path.join(path, name)):
                return os.path.join(path, name)
        raise UserError(f"--tokenizer: the folder '{path}' has none of {', '.join(NAMES)}")
    if not os.path.isfile(path):
        raise UserError(f"--tokenizer: there is no file '{path}'")
    if not path.endswith((".json", ".model")):
        raise UserError(f"--tokenizer: '{path}' is neither a tokenizer.json nor a SentencePiece .model")
    return path


def read_json(path):
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except (OSError, ValueError) as error:
        raise UserError(f"'{path}' cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise UserError(f"'{path}' is JSON, but no object")
    return value


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def joined(made):
    """Arrays of several groups of texts to one of each."""
    return tuple(map(numpy.concatenate, zip(*made)))


def flat(lists):
    """All ids, and how many each list has."""
    lengths = numpy.array([len(each) for each in lists], numpy.int64)
    return numpy.fromiter((number for each in lists for number in each), numpy.uint32, lengths.sum()), lengths


def mark(offsets, spans):
    """Of each text, its tokens' and its spans' characters; a token of no characters is what the tokenizer puts around a text."""
    trained = []
    for text, marks in zip(offsets, spans):
        begins, ends = numpy.array(text, numpy.int64).reshape(-1, 2).T
        inside = numpy.zeros(len(begins), bool)
        for begin, end in marks:
            inside |= (begins >= begin) & (begins < end)
        trained.append(inside & (ends > begins))
    return numpy.concatenate(trained)


class Tokenizer:
    """`eos`, `bos` and `pad` are ids or None."""

    def __init__(self, path, eos=None):
        self.path = locate(path)
        folder = os.path.dirname(self.path)
        config = os.path.join(folder, "tokenizer_config.json")
        self.config = read_json(config) if os.path.isfile(config) else {}
        self.model = HuggingFace(self.path) if self.path.endswith(".json") else SentencePiece(self.path)
        self.special = {name: self.word(name) for name in ("bos_token", "eos_token", "pad_token", "unk_token")}
        if eos is not None:
            self.special["eos_token"] = eos
        self.bos, self.eos, self.pad = (self.find(f"{name}_token") for name in ("bos", "eos", "pad"))
        if eos is not None and self.eos is None:
            raise UsageError(f"--eos: '{eos}' is no token of '{self.path}'")
        self.check_model(os.path.join(folder, "config.json"))

    def word(self, name):
        """A special token by its words; an AddedToken is an object."""
        value = self.config.get(name)
        if isinstance(value, dict):
            value = value.get("content")
        return value if isinstance(value, str) else self.model.special(name)

    def find(self, name):
        word = self.special[name]
        return None if word is None else self.model.token_to_id(word)

    @property
    def size(self):
        """One more than the largest id."""
        return self.model.size

    def check_model(self, path):
        """A model beside the tokenizer must have a row for each of its ids."""
        if not os.path.isfile(path):
            return
        config = read_json(path)
        rows = config.get("vocab_size") or (config.get("text_config") or {}).get("vocab_size")
        if isinstance(rows, int) and rows < self.size:
            raise UserError(f"'{self.path}' has ids up to {self.size - 1}, and the model of '{path}' has {rows} rows: take the tokenizer of that model")

    def encode_all(self, texts, special):
        """The ids of all, and how many each text has."""
        return joined([(numpy.zeros(0, numpy.uint32), numpy.zeros(0, numpy.int64)), *self.model.encode_all(texts, special)])

    def encode_marked(self, texts, spans, special):
        """The same, and which tokens begin inside of the spans of characters of their text; one that a span's border cuts belongs to
        what is before it."""
        return joined(self.model.encode_marked(texts, spans, special))

    def decode(self, ids):
        return self.model.decode(ids)


class HuggingFace:
    def __init__(self, path):
        tokenizers = need("tokenizers")
        try:
            self.model = tokenizers.Tokenizer.from_file(path)
        except Exception as error:  # the library raises nothing narrower
            raise UserError(f"--tokenizer: '{path}' is no tokenizer.json that can be read: {error}") from None
        # Samples are cut and padded here, not by what was last set there.
        self.model.no_truncation()
        self.model.no_padding()
        self.size = 1 + max(self.model.get_vocab(with_added_tokens=True).values(), default=-1)
        self.path, self.by_words = path, {}

    def special(self, name):
        """Where no tokenizer_config.json says it: the names that are in use."""
        known = {"eos_token": ("<|endoftext|>", "</s>", "<|end_of_text|>", "<eos>", "[SEP]"), "bos_token": (), "pad_token": (), "unk_token": ()}
        return next((word for word in known[name] if self.model.token_to_id(word) is not None), None)

    def token_to_id(self, word):
        return self.model.token_to_id(word)

    def by_words_of(self, special):
        if special not in self.by_words:
            self.by_words[special] = words_encoder.make_encoder(self.path, self.model, special)
        return self.by_words[special]

    def encode_all(self, texts, special):
        for group in words_encoder.groups(texts):
            yield self.encode_group(texts[group], None, special)

    def encode_marked(self, texts, spans, special):
        for group in words_encoder.groups(texts):
            yield self.encode_group(texts[group], spans[group], special)

    def encode_group(self, texts, spans, special):
        """By way of words, and the texts of which that is not certain as they are."""
        encoder = self.by_words_of(special)
        found = encoder and encoder.encode(texts, spans)
        if not found:
            return self.encode_whole(texts, spans, special)
        made, known = found
        if known.all():
            return made
        rest = numpy.flatnonzero(~known)
        others = self.encode_whole([texts[i] for i in rest], spans and [spans[i] for i in rest], special)
        return words_encoder.mended(made, known, others)

    def encode_whole(self, texts, spans, special):
        if spans is None:
            return flat([found.ids for found in self.model.encode_batch_fast(texts, add_special_tokens=special)])
        found = self.model.encode_batch(texts, add_special_tokens=special)
        return *flat([each.ids for each in found]), mark([each.offsets for each in found], spans)

    def decode(self, ids):
        return self.model.decode(ids, skip_special_tokens=False)


class SentencePiece:
    def __init__(self, path):
        sentencepiece = need("sentencepiece")
        try:
            self.model = sentencepiece.SentencePieceProcessor(model_file=path)
        except (OSError, RuntimeError) as error:
            raise UserError(f"--tokenizer: '{path}' is no SentencePiece model: {str(error).splitlines()[0]}") from None
        self.size = self.model.vocab_size()

    def special(self, name):
        number = {"bos_token": self.model.bos_id(), "eos_token": self.model.eos_id(), "pad_token": self.model.pad_id(), "unk_token": self.model.unk_id()}[name]
        return self.model.id_to_piece(number) if number >= 0 else None

    def token_to_id(self, word):
        number = self.model.piece_to_id(word)
        known = number != self.model.unk_id() or self.model.id_to_piece(number) == word
        return number if known else None

    def begin(self, special):
        return [self.model.bos_id()] if special and self.model.bos_id() >= 0 else []

    def encode_all(self, texts, special):
        begin = self.begin(special)
        yield flat([begin + self.model.encode(text) for text in texts])

    def encode_marked(self, texts, spans, special):
        begin = self.begin(special)
        found = [self.model.encode(text, out_type="offset_mapping") for text in texts]
        offsets = [[(0, 0)] * len(begin) + each["offsets"] for each in found]
        yield *flat([begin + each["ids"] for each in found]), mark(offsets, spans)

    def decode(self, ids):
        return self.model.decode([int(number) for number in ids])
