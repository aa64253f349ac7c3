# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Chat templates, as transformers' apply_chat_template renders them, and which characters of a conversation are the assistant's."""

import datetime
import json
import os

from .errors import UserError, need

# Around what a template's {% generation %} block gives; no text holds these (Unicode's noncharacters).
BEGIN, END = "\ufdd0", "\ufdd1"


def find_template(tokenizer, path):
    """The template of --chat-template, of the tokenizer's folder, or of its configuration; None where there is none."""
    folder = os.path.dirname(os.path.abspath(tokenizer.path))
    beside = os.path.join(folder, "chat_template.jinja")
    if path or os.path.isfile(beside):
        with open(path or beside, encoding="utf-8") as file:
            return file.read()
    template = tokenizer.config.get("chat_template")
    if isinstance(template, list):  # several by name
        template = next((t.get("template") for t in template if t.get("name") == "default"), None)
    return template if isinstance(template, str) else None


def environment():
    jinja2 = need("jinja2")
    need("jinja2.sandbox")
    need("jinja2.ext")

    class Generation(jinja2.ext.Extension):
        """{% generation %} … {% endgeneration %} around what the assistant says."""

        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

        def _mark(self, caller):
            return BEGIN + caller() + END

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return made


class ChatTemplate:
    def __init__(self, text, special):
        self.errors = need("jinja2").exceptions.TemplateError
        self.special = {name: word for name, word in special.items() if word is not None}
        try:
            self.template = environment().from_string(text)
        except self.errors as error:
            raise UserError(f"the chat template is not valid: {error}") from None
        self.marks = "generation" in text and "endgeneration" in text

    def render(self, messages, fields, prompt=False):
        values = {name: fields[name] for name in ("tools", "documents") if fields.get(name)}
        return self.template.render(messages=messages, add_generation_prompt=prompt, **values, **self.special)

    def apply(self, where, messages, fields, which):
        """The text, and the spans [begin, end) of it to train on: `all` of it, the `assistant`'s turns, or its `last` one."""
        self.verify(where, messages)
        try:
            marked = self.render(messages, fields)
            text = marked.replace(BEGIN, "").replace(END, "")
            if which == "all":
                return text, [(0, len(text))]
            spans = self.marked_spans(marked) if self.marks else self.turns(where, messages, fields, text, which)
        except (self.errors, TypeError, KeyError) as error:
            raise UserError(f"{where}: the chat template refuses this conversation: {error}") from None
        return text, spans[-1:] if which == "last" else spans

    @staticmethod
    def verify(where, messages):
        good = isinstance(messages, list) and messages
        for message in messages if good else []:
            good = good and isinstance(message, dict) and isinstance(message.get("role"), str)
            if good and any(mark in str(message.get("content")) for mark in (BEGIN, END)):
                raise UserError(f"{where}: a message holds the noncharacter U+FDD0 or U+FDD1: remove it")
        if not good:
            raise UserError(f'{where}: "messages" is no list of {{"role": …, "content": …}}')

    @staticmethod
    def marked_spans(marked):
        spans, length = [], 0
        for i, piece in enumerate(marked.split(BEGIN)):
            inside, found, behind = piece.partition(END)
            if i > 0 and found:
                spans.append((length, length + len(inside)))
            length += len(inside) + len(behind)
        return spans

    def turns(self, where, messages, fields, text, which):
        """A turn is what the template adds for it behind its own prompt."""
        turns = [i for i, message in enumerate(messages) if message["role"] == "assistant"]
        spans = []
        for i in turns[-1:] if which == "last" else turns:
            before = self.render(messages[:i], fields, prompt=True) if i else ""
            behind = self.render(messages[: i + 1], fields) if i + 1 < len(messages) else text
            if not (text.startswith(behind) and behind.startswith(before)):
                raise UserError(f"{where}: the chat template writes message {i} otherwise when others follow it, and does not mark it with {{% generation %}}: "
                                "give a --chat-template that does, or --train-on=all")
            spans.append((len(before), len(behind)))
        return spans
