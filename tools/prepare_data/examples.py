# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records to token ids and which of them are trained. Worker processes take a source block by block; what they make comes back in
the order of the files, whatever their number."""

import collections
import concurrent.futures
import concurrent.futures.process
import multiprocessing
import os
import signal

import numpy

from . import sources
from .chat import ChatTemplate
from .errors import UserError
from .packing import Document

# What a worker makes of a block: one array of ids, one of what is trained, the ends of the documents in them, whether each begins a
# document, and the place of each.
Batch = collections.namedtuple("Batch", "ids trained ends begins places skipped size")

# How a record is read and encoded; `columns` names a field otherwise, `template` is the chat template's text or None.
Options = collections.namedtuple("Options", "split columns train_on special append_eos skip_empty template")

FORMS = {"messages": ("messages",), "prompt": ("prompt", "completion"), "text": ("text",)}
NAMES = sorted({name for form in FORMS.values() for name in form} | {"tools", "documents"})


class Encoder:
    def __init__(self, tokenizer, options):
        self.tokenizer, self.options = tokenizer, options
        self.chat = ChatTemplate(options.template, tokenizer.special) if options.template is not None else None

    def block(self, block):
        """A Batch of the block's documents."""
        documents, skipped = [], 0
        plain = []  # texts that wait, to be encoded together
        for record in sources.read_block(block, self.options.split):
            fields = dict(record.fields)
            for name, column in self.options.columns.items():
                fields[name] = fields.pop(column, None)
            form = next((form for form, names in FORMS.items() if all(fields.get(name) is not None for name in names)), None)
            if form == "text":
                plain.append((record.where, self.string(record.where, fields, "text"), fields.get(sources.PART, (True, True))))
                continue
            if form is None:
                raise UserError(f'{record.where}: none of "text", "prompt" with "completion", "messages" (it has {self.names(record.fields)}): name them with --column')
            documents += self.texts(plain)
            plain = []
            documents.append(self.conversation(record.where, fields, form))
        documents += self.texts(plain)
        kept = []
        for where, ids, trained, begins in documents:
            if trained.any():
                kept.append((where, ids, trained, begins))
            elif begins and not self.options.skip_empty:
                raise UserError(f"{where}: {'the document is empty' if not len(ids) else 'nothing of it would be trained'}: remove it, or give --skip-empty")
            else:
                skipped += 1
        return pack_batch(kept, skipped, block)

    @staticmethod
    def names(fields):
        names = [str(name) for name in fields if name != sources.PART]
        return ", ".join(f'"{name}"' for name in names[:6]) + (", …" if len(names) > 6 else "") if names else "no fields"

    @staticmethod
    def string(where, fields, name):
        if not isinstance(fields[name], str):
            raise UserError(f'{where}: "{name}" is no string')
        return fields[name]

    def texts(self, plain):
        encoded = self.tokenizer.encode_all([text for _, text, _ in plain], self.options.special) if plain else []
        for (where, text, (first, last)), ids in zip(plain, encoded):
            if not first:
                ids = self.without_begin(ids)
            if last and text.strip():
                ids = self.with_end(ids)
            for part in self.parts(numpy.array(ids, numpy.uint32)):
                yield where, part, numpy.full(len(part), bool(text.strip())), first
                first = True

    def parts(self, ids):
        """A text may have the token that ends a document inside."""
        if self.tokenizer.eos is None:
            return [ids]
        ends = numpy.flatnonzero(ids[:-1] == self.tokenizer.eos) + 1
        return numpy.split(ids, ends) if len(ends) else [ids]

    def without_begin(self, ids):
        return ids[1:] if self.options.special and ids and ids[0] == self.tokenizer.bos else ids

    def with_end(self, ids):
        add = self.options.append_eos and self.tokenizer.eos is not None and (not ids or ids[-1] != self.tokenizer.eos)
        return ids + [self.tokenizer.eos] if add else ids

    def conversation(self, where, fields, form):
        special = False
        if form == "messages":
            text, spans = self.template(where).apply(where, fields["messages"], fields, self.options.train_on)
        elif isinstance(fields["prompt"], list):
            text, spans = self.turns(where, fields)
        else:
            special = self.options.special
            prompt = self.string(where, fields, "prompt")
            text = prompt + self.string(where, fields, "completion")
            spans = [(0 if self.options.train_on == "all" else len(prompt), len(text))]
            if spans[0][0] == len(text):
                spans = []
        ids, offsets = self.tokenizer.encode(text, special, spans=True)
        trained = mark(offsets, spans)
        if form == "prompt" and isinstance(fields["prompt"], str):
            more = self.with_end(ids)
            trained = numpy.append(trained, numpy.full(len(more) - len(ids), trained.any()))
            ids = more
        return where, numpy.array(ids, numpy.uint32), trained, True

    def turns(self, where, fields):
        """A prompt and a completion that are messages: all turns of the completion are trained."""
        if not isinstance(fields["completion"], list):
            raise UserError(f'{where}: "prompt" is a list of messages and "completion" is none')
        template = self.template(where)
        text, _ = template.apply(where, fields["prompt"] + fields["completion"], fields, "all")
        if self.options.train_on == "all":
            return text, [(0, len(text))]
        before = template.render(fields["prompt"], fields, prompt=True)
        if not text.startswith(before):
            raise UserError(f"{where}: the chat template writes the prompt otherwise when the completion follows it: give messages, or --train-on=all")
        return text, [(len(before), len(text))]

    def template(self, where):
        if self.chat is None:
            raise UserError(f"{where}: a conversation wants a chat template: tokenizer_config.json has none, give --chat-template")
        return self.chat


def mark(offsets, spans):
    """Tokens that begin inside a span; one that a span's border cuts belongs to what is before it."""
    if not spans or not offsets:
        return numpy.zeros(len(offsets), bool)
    begins = numpy.array([begin for begin, _ in offsets])
    nonempty = numpy.array([end > begin for begin, end in offsets])
    trained = numpy.zeros(len(offsets), bool)
    for begin, end in spans:
        trained |= (begins >= begin) & (begins < end)
    return trained & nonempty


def pack_batch(documents, skipped, block):
    where, ids, trained, begins = zip(*documents) if documents else ((), (), (), ())
    ends = numpy.cumsum([len(each) for each in ids], dtype=numpy.int64)
    none = numpy.zeros(0, numpy.uint32)
    return Batch(numpy.concatenate((none, *ids)), numpy.concatenate((none.astype(bool), *trained)), ends, begins, where, skipped, block.size)


def documents_of(batch):
    begin = 0
    for end, begins, where in zip(batch.ends, batch.begins, batch.places):
        yield Document(batch.ids[begin:end], batch.trained[begin:end], begins, where)
        begin = end


# ---- Worker processes

_encoders = []


def _begin(make, path, eos, options):
    """In a worker: an encoder for each source. Ctrl-C is for the process that waits for it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tokenizer = make(path, eos)
    _encoders[:] = [Encoder(tokenizer, each) for each in options]


def _work(source, block):
    try:
        return _encoders[source].block(block)
    except UserError as error:
        return error


class Workers:
    """Encodes blocks side by side. A few wait beyond those at work, so that memory does not grow with the files."""

    def __init__(self, count, tokenizer, eos, options):
        self.count, self.pool = count, None
        if count == 1:
            _encoders[:] = [Encoder(tokenizer, each) for each in options]
            return
        context = multiprocessing.get_context("spawn")
        self.pool = concurrent.futures.ProcessPoolExecutor(count, context, _begin, (type(tokenizer), tokenizer.path, eos, options))

    def batches(self, source, blocks):
        """Of each block, in order."""
        if not self.pool:
            yield from (self.checked(_work(source, block)) for block in blocks)
            return
        waiting = collections.deque()
        for block in blocks:
            waiting.append(self.pool.submit(_work, source, block))
            if len(waiting) > 2 * self.count:
                yield self.result(waiting.popleft())
        while waiting:
            yield self.result(waiting.popleft())

    def result(self, waiting):
        try:
            return self.checked(waiting.result())
        except concurrent.futures.process.BrokenProcessPool:
            raise UserError("a worker process was ended from outside (out of memory?): give fewer --workers") from None

    @staticmethod
    def checked(made):
        if isinstance(made, UserError):
            raise made
        return made

    def close(self):
        if self.pool:
            self.pool.shutdown(cancel_futures=True)
