# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Records to token ids and which of them are trained. Worker processes take a source block by block; what they make comes back in
the order of the files, whatever their number."""

import collections
import concurrent.futures
import concurrent.futures.process
import itertools
import multiprocessing
import os
import signal

import numpy

from . import sources
from .chat import ChatTemplate
from .errors import UserError
from .packing import Document

# What a worker makes of a block: one array of ids, one of what is trained, the ends of the documents in them, whether each begins a
# document, and the position of each in the file.
Batch = collections.namedtuple("Batch", "ids trained ends begins positions path skipped size")

# How a record is read and encoded; `columns` names a field otherwise, `template` is the chat template's text or None.
Options = collections.namedtuple("Options", "split columns train_on special append_eos skip_empty template")

# A document (or a `part` of one: is it the first, is it the last) to encode: a "text", a "pair" of prompt and completion, or a "chat";
# `spans` [begin, end) of its characters are trained, None: all.
Text = collections.namedtuple("Text", "kind where text spans part")

FORMS = {"messages": ("messages",), "prompt": ("prompt", "completion"), "text": ("text",)}
NAMES = sorted({name for form in FORMS.values() for name in form} | {"tools", "documents"})


def form_of(fields):
    for form, names in FORMS.items():
        if all([fields.get(name) is not None for name in names]):
            return form
    return None


class Encoder:
    def __init__(self, tokenizer, options):
        self.tokenizer, self.options = tokenizer, options
        self.chat = ChatTemplate(options.template, tokenizer.special) if options.template is not None else None

    def block(self, block):
        """A Batch of the block's documents. Those of one kind that follow each other are encoded together."""
        batch = Gathered(self.options.skip_empty)
        found = (self.text_of(record) for record in sources.read_block(block, self.options.split))
        for kind, texts in itertools.groupby(found, lambda text: text.kind):
            (self.plain if kind == "text" else self.marked)(list(texts), batch)
        return batch.made(block)

    def text_of(self, record):
        where, fields = record.where, record.fields
        if self.options.columns:
            fields = dict(fields)
            for name, column in self.options.columns.items():
                fields[name] = fields.pop(column, None)
        form = form_of(fields)
        if form == "text":
            return Text("text", where, self.string(where, fields, "text"), None, fields.get(sources.PART, (True, True)))
        if form == "messages":
            return Text("chat", where, *self.template(where).apply(where, fields["messages"], fields, self.options.train_on), None)
        if form == "prompt":
            return self.turns(where, fields) if isinstance(fields["prompt"], list) else self.pair(where, fields)
        raise UserError(f'{where}: none of "text", "prompt" with "completion", "messages" (it has {self.names(record.fields)}): name them with --column')

    @staticmethod
    def names(fields):
        names = [str(name) for name in fields if name != sources.PART]
        return ", ".join(f'"{name}"' for name in names[:6]) + (", …" if len(names) > 6 else "") if names else "no fields"

    @staticmethod
    def string(where, fields, name):
        if not isinstance(fields[name], str):
            raise UserError(f'{where}: "{name}" is no string')
        return fields[name]

    def plain(self, plain, batch):
        """Many texts at once: of a token or a text there is no object, only of all of them."""
        ids, lengths = self.tokenizer.encode_all([each.text for each in plain], self.options.special)
        first, last = numpy.array([each.part for each in plain]).T
        filled = numpy.array([bool(each.text) and not each.text.isspace() for each in plain])
        ids, lengths = self.without_begin(ids, lengths, ~first)
        ids, lengths = self.with_end(ids, lengths, last & filled)
        kept = filled & (lengths > 0)
        for i in numpy.flatnonzero(~kept):
            batch.skip(plain[i].where, lengths[i], first[i])
        ids, lengths, first = ids[numpy.repeat(kept, lengths)], lengths[kept], first[kept]
        positions = numpy.array([each.where.position for each in plain], numpy.int64)[kept]
        ends, text = self.parts(ids, numpy.cumsum(lengths))
        begins = first[text] | (numpy.diff(text, prepend=-1) == 0)
        batch.add(ids, numpy.ones(len(ids), bool), ends, begins, positions[text])

    def parts(self, ids, ends):
        """A text may have the token that ends a document inside: where its documents end, and which text each is of."""
        if self.tokenizer.eos is not None:
            ends, texts = numpy.union1d(ends, numpy.flatnonzero(ids == self.tokenizer.eos) + 1), ends
            return ends, numpy.searchsorted(texts, ends)
        return ends, numpy.arange(len(ends))

    def without_begin(self, ids, lengths, asked):
        if not self.options.special or self.tokenizer.bos is None or not len(ids):
            return ids, lengths
        begins = numpy.cumsum(lengths) - lengths
        drop = asked & (lengths > 0) & (ids[numpy.minimum(begins, len(ids) - 1)] == self.tokenizer.bos)
        return numpy.delete(ids, begins[drop]), lengths - drop

    def with_end(self, ids, lengths, asked):
        if not self.options.append_eos or self.tokenizer.eos is None:
            return ids, lengths
        ends = numpy.cumsum(lengths)
        has = lengths > 0
        has[has] = ids[ends[has] - 1] == self.tokenizer.eos
        add = asked & ~has
        return numpy.insert(ids, ends[add], self.tokenizer.eos), lengths + add

    def marked(self, texts, batch):
        """Texts of which some is trained, each a document."""
        pairs = texts[0].kind == "pair"
        ids, lengths, trained = self.tokenizer.encode_marked([each.text for each in texts], [each.spans for each in texts], pairs and self.options.special)
        kept = numpy.diff(numpy.append(0, numpy.cumsum(trained))[numpy.cumsum(lengths)], prepend=0) > 0
        for i in numpy.flatnonzero(~kept):
            batch.skip(texts[i].where, lengths[i], True)
        rows = numpy.repeat(kept, lengths)
        ids, trained, lengths = ids[rows], trained[rows], lengths[kept]
        if pairs:
            # The token that ends a document is trained.
            ends = numpy.cumsum(lengths)
            ids, more = self.with_end(ids, lengths, numpy.ones(len(lengths), bool))
            trained, lengths = numpy.insert(trained, ends[more > lengths], True), more
        positions = numpy.array([each.where.position for each in texts], numpy.int64)[kept]
        batch.add(ids, trained, numpy.cumsum(lengths), numpy.ones(len(lengths), bool), positions)

    def pair(self, where, fields):
        prompt = self.string(where, fields, "prompt")
        text = prompt + self.string(where, fields, "completion")
        begin = 0 if self.options.train_on == "all" else len(prompt)
        return Text("pair", where, text, [(begin, len(text))] if begin < len(text) else [], None)

    def turns(self, where, fields):
        """A prompt and a completion that are messages: all turns of the completion are trained."""
        if not isinstance(fields["completion"], list):
            raise UserError(f'{where}: "prompt" is a list of messages and "completion" is none')
        template = self.template(where)
        text, _ = template.apply(where, fields["prompt"] + fields["completion"], fields, "all")
        if self.options.train_on == "all":
            return Text("chat", where, text, [(0, len(text))], None)
        before = template.render(fields["prompt"], fields, prompt=True)
        if not text.startswith(before):
            raise UserError(f"{where}: the chat template writes the prompt otherwise when the completion follows it: give messages, or --train-on=all")
        return Text("chat", where, text, [(len(before), len(text))], None)

    def template(self, where):
        if self.chat is None:
            raise UserError(f"{where}: a conversation wants a chat template: tokenizer_config.json has none, give --chat-template")
        return self.chat


class Gathered:
    """The documents of a block, but those without a token to train on."""

    def __init__(self, skip_empty):
        self.skip_empty, self.skipped, self.size = skip_empty, 0, 0
        self.arrays = [[numpy.zeros(0, kind)] for kind in (numpy.uint32, bool, numpy.int64, bool, numpy.int64)]

    def skip(self, where, length, begins):
        if begins and not self.skip_empty:
            raise UserError(f"{where}: {'nothing of it would be trained' if length else 'the document is empty'}: remove it, or give --skip-empty")
        self.skipped += 1

    def add(self, ids, trained, ends, begins, positions):
        for arrays, more in zip(self.arrays, (ids, trained, ends + self.size, begins, positions)):
            arrays.append(more)
        self.size += len(ids)

    def made(self, block):
        return Batch(*map(numpy.concatenate, self.arrays), block.path, self.skipped, block.size)


def documents_of(batch):
    begin = 0
    for end, begins, position in zip(batch.ends.tolist(), batch.begins.tolist(), batch.positions.tolist()):
        yield Document(batch.ids[begin:end], batch.trained[begin:end], begins, sources.Where(batch.path, position))
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
