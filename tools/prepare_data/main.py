# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line."""

import argparse
import os
import signal
import sys

from . import chat, check, examples, mixture, packing, sources, tokenizer, writers
from .errors import UsageError, UserError, need, printable

DESCRIPTION = """\
Makes training data of text: token shards (.bin) for pretraining, or packed
samples with labels (.safetensors) for fine-tuning.

  prepare-data books/*.txt --tokenizer tokenizer.json -o train.bin
  prepare-data chat.jsonl --tokenizer MODEL_DIR --seq 2048 -o train.safetensors
  prepare-data mixture.json -o train.safetensors
  prepare-data --check train.safetensors

A record of .jsonl or .parquet has "text", "prompt" and "completion", or
"messages", which a chat template writes out. docs/prepare-data.md tells all.
"""

# Below this many bytes starting workers costs more than they save.
WORTH_WORKERS = 8 << 20


def parser():
    made = argparse.ArgumentParser("prepare-data", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    add = made.add_argument
    add("inputs", nargs="*", metavar="INPUT", help="files, folders or quoted patterns of .txt, .jsonl and .parquet, or one mixture (.json)")
    add("-o", "--output", metavar="FILE", help=".bin: token shards; .safetensors: input_ids, labels, position_ids")
    add("--tokenizer", metavar="PATH", help="tokenizer.json, a SentencePiece .model, or a folder with one")
    add("--seq", type=positive, metavar="N", help="tokens of a sample (.safetensors)")
    add("--packing", choices=sorted(packing.PACKERS), help="best-fit: whole documents share samples; join: cut where a sample ends; none [join for text alone, else best-fit]")
    add("--too-long", choices=("error", "truncate", "drop", "split"), default="error", help="a document longer than a sample [error]")
    add("--train-on", choices=("assistant", "last", "all"), default="assistant", help="labels: completions and the assistant's turns, the last turn, everything [assistant]")
    add("--chat-template", metavar="FILE", help="a Jinja template [that of the tokenizer's folder]")
    add("--column", action="append", default=[], metavar="NAME=FIELD", help="text, prompt, completion or messages is called FIELD in the files")
    add("--split", choices=("file", "paragraph", "line"), default="file", help="what a document of a .txt file is [file]")
    add("--eos", metavar="TOKEN", help="ends a document [the tokenizer's]")
    add("--no-eos", action="store_true", help="documents are not ended by a token")
    add("--no-special-tokens", action="store_true", help="without what the tokenizer puts around a text (as <s>)")
    add("--skip-empty", action="store_true", help="leave out documents without a token to train on")
    add("--tokens", type=positive, metavar="N", help="of a mixture: how many, sources repeat as needed [until the first one ends]")
    add("--shard-tokens", type=positive, default=writers.SHARD_TOKENS, metavar="N", help="of a .bin file [100,000,000]")
    add("--workers", type=positive, metavar="N", help="processes [the machine's cores]")
    add("--quiet", action="store_true", help="no progress bar")
    add("--check", metavar="FILE", help="compare FILE with its manifest and print a sample, what is trained in colour")
    add("--sample", type=int, default=0, metavar="I", help="which one --check prints [0]")
    add("--color", choices=("auto", "always", "never"), default="auto", help="[auto]")
    made.print_usage = lambda *_: None  # an error is one line
    made.print_help = lambda *_: show([made.format_help().rstrip()])
    return made


def positive(text):
    value = int(text.replace("_", "").replace(",", ""))
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def columns_of(words):
    named = dict(word.split("=", 1) if "=" in word else (word, "") for word in words)
    for name, field in named.items():
        if name not in examples.NAMES or not field:
            raise UsageError(f"--column: '{name}={field}' is not NAME=FIELD with NAME one of {', '.join(examples.NAMES)}")
    return named


class Job:
    """What is asked for: from the command line, and a mixture, whose words the command line overrides."""

    def __init__(self, args):
        self.args = args
        self.mixture = {}
        if len(args.inputs) == 1 and args.inputs[0].endswith(".json"):
            self.mixture = mixture.read_mixture(args.inputs[0])
        elif not args.inputs:
            raise UsageError("INPUT is missing: files of .txt, .jsonl or .parquet")
        self.sources = self.mixture.get("sources") or [{"name": "input", "files": args.inputs}]
        self.seq = args.seq or self.mixture.get("seq")
        self.check_output()
        path = args.tokenizer or self.mixture.get("tokenizer")
        if not path:
            raise UsageError("--tokenizer is missing: a tokenizer.json, a SentencePiece .model, or a folder with one")
        self.tokenizer = tokenizer.Tokenizer(path, args.eos)
        self.files = [sources.find_files(source["files"]) for source in self.sources]
        self.blocks = [[block for path in files for block in sources.blocks_of(path, source.get("split", args.split))]
                       for source, files in zip(self.sources, self.files)]

    def check_output(self):
        output = self.args.output
        if not output or not output.endswith((".bin", ".safetensors")):
            raise UsageError("-o FILE.bin or -o FILE.safetensors is missing" if not output else f"-o: '{output}' is neither .bin nor .safetensors")
        self.packed = output.endswith(".safetensors")
        if self.packed and not self.seq:
            raise UsageError("--seq is missing: how many tokens a sample has")
        if not self.packed and (self.args.packing or self.args.too_long != "error"):
            raise UsageError("--packing and --too-long are for .safetensors: a .bin file is one stream of tokens")
        if not self.packed and self.args.seq:
            raise UsageError("--seq is for .safetensors: a .bin file is one stream of tokens, which the program cuts (shardonnx compile --seq)")
        if self.args.tokens and not self.mixture:
            raise UsageError("--tokens is for a mixture (.json), whose sources repeat as needed: leave it out")

    def packing(self):
        text_only = all(path.endswith(".txt") for files in self.files for path in files)
        return self.args.packing or self.mixture.get("packing") or ("join" if text_only else "best-fit")

    def options(self):
        """Of each source. A template is looked for where a record may want one: not in plain text."""
        made = []
        for source, files in zip(self.sources, self.files):
            text_only = all(path.endswith(".txt") for path in files)
            template = None if text_only else chat.find_template(self.tokenizer, self.args.chat_template or self.mixture.get("chat_template"))
            columns = columns_of(self.args.column) or source.get("columns", {})
            made.append(examples.Options(source.get("split", self.args.split), columns, source.get("train_on", self.args.train_on),
                                         not self.args.no_special_tokens, not self.args.no_eos, self.args.skip_empty, template))
        return made

    def workers(self):
        size = sum(block.size for blocks in self.blocks for block in blocks)
        count = self.args.workers or (len(os.sched_getaffinity(0)) if size >= WORTH_WORKERS else 1)
        return examples.Workers(count, self.tokenizer, self.args.eos, self.options())


def prepare(args):
    job = Job(args)
    counts = packing.Counts()
    bar = need("tqdm").tqdm(total=sum(block.size for blocks in job.blocks for block in blocks), unit="B", unit_scale=True,
                            disable=args.quiet or not sys.stderr.isatty())
    workers = job.workers()
    files = writers.Files()
    try:
        streams = [mixture.Stream(source["name"], source.get("weight", 1), reader(workers, i, job.blocks[i], counts, bar))
                   for i, source in enumerate(job.sources)]
        documents = mixture.mix(streams, args.tokens or job.mixture.get("tokens"))
        write(job, files, documents, counts)
        bar.close()
        described = describe(job, streams, counts)
        described["files"] = files.commit()
        writers.write_json(files, check.manifest_path(args.output), described)
        files.commit()
    finally:
        workers.close()
        files.discard()
    summarize(job, described)


def reader(workers, index, blocks, counts, bar):
    def documents():
        for batch in workers.batches(index, blocks):
            bar.update(batch.size)
            counts.skipped += batch.skipped
            yield from examples.documents_of(batch)

    return documents


def write(job, files, documents, counts):
    if job.packed:
        writer = writers.SampleWriter(files, job.args.output, job.seq)
        pad = next((number for number in (job.tokenizer.pad, job.tokenizer.eos) if number is not None), 0)
        for sample in packing.samples(documents, job.seq, pad, job.packing(), job.args.too_long, counts):
            writer.add(sample)
        made = writer.samples
    else:
        writer = writers.TokenWriter(files, job.args.output, job.tokenizer.size, job.args.shard_tokens)
        for document in documents:
            if not document.trained.all():
                raise UserError(f"{document.where}: a .bin file trains every token, and some of this record are a prompt: "
                                "write .safetensors, or give --train-on=all")
            writer.add(document.ids)
        counts.tokens = counts.trained = made = writer.tokens
    if not made:
        raise UserError("there is nothing to train on in the input")
    writer.close()


def describe(job, streams, counts):
    """The manifest: nothing in it depends on the machine, on when, or on how many workers."""
    model = job.tokenizer
    described = {
        "format": "shardonnx-data", "version": 1, "seq": job.seq, "packing": job.packing() if job.packed else None,
        "tokenizer": {"path": os.path.abspath(model.path), "sha256": tokenizer.sha256(model.path), "vocabulary": model.size, "bos": model.bos, "eos": model.eos, "pad": model.pad},
        "documents": sum(stream.documents for stream in streams), "samples": counts.samples, "tokens": counts.tokens, "trained_tokens": counts.trained,
        "padding": counts.padding, "split": counts.split, "truncated": counts.truncated, "dropped": counts.dropped, "skipped": counts.skipped,
        "sources": [{"name": stream.name, "weight": stream.weight, "documents": stream.documents, "tokens": stream.tokens, "epochs": stream.epochs,
                     "files": [{"path": path, "bytes": os.path.getsize(path), "sha256": tokenizer.sha256(path)} for path in paths]}
                    for stream, paths in zip(streams, job.files)],
    }
    return described


def summarize(job, described):
    names = [entry["name"] for entry in described["files"]]
    what = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]}"
    lines = [f"{what}: {described['tokens']:,} tokens of {described['documents']:,} documents"]
    if job.packed:
        used = described["tokens"] / (described["tokens"] + described["padding"])
        lines.append(f"{described['samples']:,} samples of {job.seq:,} tokens, {used:.1%} used; {described['trained_tokens']:,} tokens trained")
    lines += [f"{described[name]:,} documents {said}" for name, said in
              (("truncated", "cut"), ("dropped", "left out: too long"), ("skipped", "left out: nothing to train on")) if described[name]]
    for source in described["sources"] if len(described["sources"]) > 1 else []:
        lines.append(f"  {source['name']}: {source['tokens']:,} tokens, {1 + source['epochs'] if source['epochs'] else 1} epochs begun")
    show(lines)


def show(lines):
    """To whoever reads what is printed, until he has seen enough."""
    try:
        for line in lines:
            print(line)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            raise UserError(f"cannot write to standard output: {error.strerror}") from None


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        args = parser().parse_args()
        if args.check:
            colour = args.color == "always" or (args.color == "auto" and sys.stdout.isatty() and "NO_COLOR" not in os.environ)
            show(check.check(args.check, args.sample, args.tokenizer, colour))
        else:
            prepare(args)
        return 0
    except (UserError, UsageError) as error:
        print(f"prepare-data: error: {printable(error)}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except OSError as error:
        # A full disk shows when a file is written, which has no name by then.
        said = error if error.filename else f"-o: '{args.output}' cannot be written: {error.strerror}"
        print(f"prepare-data: error: {printable(said)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
