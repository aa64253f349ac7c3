#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes adapters from PEFT, trains them, and takes them back to PEFT and ONNX Runtime.

    .deps/torch/bin/python test/training/check_peft.py [--shardonnx build/bin/shardonnx] [--filter REGEX]

Of each recorded adapter (cases.py): five steps from PEFT's folder, what PEFT
finds missing or unexpected in the folder that comes out, PEFT's loss on the
samples of the sixth step beside ours, and PEFT's logits beside those of the
merged ONNX model and of ONNX Runtime with an .onnx_adapter. Needs the environment
of models/make_env.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy
import peft
import torch

import cases
import record

STEPS = 5
BAR = 1e-5


def call(*words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}")


def train(case, compiler):
    """Leaves adapter/ of STEPS steps and merged.onnx; the loss of the step behind them."""
    batch = [] if "--batch" in cases.MODELS[case["model"]] else [f"--batch={case['batch']}"]
    call(compiler, "compile", cases.model_path(case["model"]), "-o", "train", *case["compile"], *batch)
    call("./train", "--data", cases.data_path(case["data"]), "--steps", str(STEPS + 1), "--nproc", "2", "--accumulate",
         str(cases.GLOBAL_BATCH // (2 * case["batch"])), "--save", "ckpt", "--save-every", str(STEPS), "--log", "log.jsonl",
         *case["run"])
    at = f"ckpt/step-{STEPS:08}"
    call(compiler, "export", at, "-o", "adapter")
    call(compiler, "export", at, "--merge", "-o", "merged.onnx")
    with open("log.jsonl") as file:
        return [json.loads(line)["loss"] for line in file][STEPS]


def load(case):
    """PEFT's model with our adapter, and keys that are missing or too many."""
    module, _ = record.build(cases.MODELS[case["model"]].split())
    if case.get("base"):
        record.quantise_base(case, module)
    model = peft.get_peft_model(module, peft.LoraConfig.from_pretrained("adapter"))
    found = peft.set_peft_model_state_dict(model, peft.load_peft_weights("adapter"))
    missing = [key for key in found.missing_keys if "lora_" in key or "modules_to_save.default" in key]
    return model.eval(), missing + list(found.unexpected_keys)


def far(mine, theirs):
    return float(abs(mine - theirs).max() / abs(theirs).max())


def evaluate(compiler, inputs):
    """The merged model's logits."""
    words = []
    for name, array in inputs.items():
        numpy.save(f"{name}.npy", array)
        words += ["--input", f"{name}={name}.npy"]
    call(compiler, "eval", "merged.onnx", *words, "--output-dir", "out")
    return numpy.load("out/logits.npy")


def has_places(case):
    """Whether ONNX Runtime's adapters can be what ours are: they have no lengths, experts are no products of their own there, and what
    packs the base is not in a graph."""
    with open("adapter/adapter_config.json") as file:
        config = json.load(file)
    return not case.get("base") and not config["use_dora"] and not config.get("target_parameters")


def run_onnx(case, inputs):
    """ONNX Runtime's logits with the adapter active."""
    import onnxruntime

    call(sys.executable, os.path.join(cases.ROOT, "tools", "onnx-adapter"), cases.model_path(case["model"]), "adapter", "-o",
         "tuned.onnx")
    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession("tuned.onnx", quiet)
    adapter = onnxruntime.LoraAdapter()
    adapter.Load("tuned.onnx_adapter")
    options = onnxruntime.RunOptions()
    options.add_active_adapter(adapter)
    return session.run(["logits"], inputs, options)[0]


def check(case, compiler):
    """What PEFT and ONNX Runtime make of the case, as pairs of what and by how much."""
    ours = train(case, compiler)
    model, wrong = load(case)
    yield "keys", len(wrong)
    samples = record.load_samples(case, model)
    which = [(STEPS * cases.GLOBAL_BATCH + i) % len(samples["labels"]) for i in range(cases.GLOBAL_BATCH)]
    batch = {name: torch.from_numpy(array[which]) for name, array in samples.items()}
    with torch.no_grad(), record.our_dropout(case, model, STEPS * cases.GLOBAL_BATCH):
        loss, labels = record.step_loss(case, model, batch)
    model.eval()
    yield "next loss", abs(ours / (loss.item() / labels) - 1)
    inputs = {name: array[which[:2]] for name, array in samples.items() if name != "labels"}
    with torch.no_grad():
        logits = model(**{name: torch.from_numpy(array) for name, array in inputs.items()}).logits.numpy()
    yield "merged", far(evaluate(compiler, inputs), logits)
    if has_places(case):
        yield "ONNX Runtime", far(run_onnx(case, inputs), logits)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shardonnx", default=os.path.join(cases.ROOT, "build", "bin", "shardonnx"))
    parser.add_argument("--filter", default="", metavar="REGEX")
    options = parser.parse_args()
    torch.set_num_threads(2)
    good = True
    compiler = os.path.abspath(options.shardonnx)
    for case in cases.CASES:
        if "lora" not in case or not re.search(options.filter, case["name"]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            rows = list(check(case, compiler))
            os.chdir(cases.ROOT)
        fine = all(value < BAR for _, value in rows)
        good &= fine
        print("ok  " if fine else "FAIL", case["name"], ", ".join(f"{name} {value:.1e}" for name, value in rows), flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
