# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The training runs that executables must reproduce.

One list, read by record.py (which runs PyTorch) and by run_cases.py (which
runs Shardonnx and needs nothing but Python's standard library).

A model is a file in models/ and the words that export.py is called with, or
the name of a module in record.py or modules/ for what transformers does not
have. A case
is a model, the data it is trained on, and how. Every step sees 12 samples;
the ranks and microbatches they are dealt to must not matter.
"""

import os

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

STEPS = 20
GLOBAL_BATCH = 12

GPT2 = ("gpt2-small --layers 2 --hidden 48 --heads 3 --vocab 257 --seq 32 "
        "--jitter 0.1 --seed 1")
LLAMA = ("llama-small --layers 2 --hidden 48 --heads 6 --kv-heads 2 --ffn 72 "
         "--vocab 257 --seq 32 --jitter 0.1 --seed 2")
# Five layers: the fourth and no other has no rotary embedding.
SMOLLM3 = ("smollm3-3b --layers 5 --hidden 48 --heads 6 --kv-heads 2 --ffn 72 "
           "--vocab 257 --seq 32 --jitter 0.1 --seed 7")
# What is fed arrays: its architecture makes them, too.
ARRAYS = ("tiny --hidden 32 --ffn 48 --vocab 64 --seq 16 --spread 0.12 "
          "--jitter 0.1 --seed 8 --architecture")

# Two of four experts for each token, where there are any.
EXPERTS = ("tiny --hidden 32 --ffn 40 --vocab 257 --seq 16 --spread 0.12 "
           "--jitter 0.1 --seed 9 --architecture")

# As many heads as a mesh of 8 ranks has.
EIGHT = "--layers 2 --hidden 64 --heads 8 --vocab 257 --seq 32 --jitter 0.1"

MODELS = {
    "gpt2-18": f"{GPT2} --opset 18",
    "gpt2-18-optimized": f"{GPT2} --opset 18 --optimize",
    "gpt2-23": f"{GPT2} --opset 23",
    "gpt2-23-optimized": f"{GPT2} --opset 23 --optimize",
    "llama-18": f"{LLAMA} --opset 18",
    "llama-18-optimized": f"{LLAMA} --opset 18 --optimize",
    "llama-23": f"{LLAMA} --opset 23",
    "llama-23-optimized": f"{LLAMA} --opset 23 --optimize",
    "smollm3-18": f"{SMOLLM3} --opset 18",
    # Every size a multiple of 16, as products of 8 bits want it.
    "llama-sixteens": "llama-small --layers 2 --hidden 64 --heads 4 "
                      "--kv-heads 2 --ffn 96 --vocab 257 --seq 32 "
                      "--jitter 0.1 --seed 2 --opset 23",
    "gpt2-untied-static": f"{GPT2} --opset 18 --optimize --no-tied --batch 2",
    "llama-tied-static": f"{LLAMA} --opset 23 --tied --batch 1",
    "gpt2-eager": f"{GPT2} --opset 18 --attention eager",
    "llama-eager": f"{LLAMA} --opset 23 --optimize --attention eager",
    "gpt2-labels": f"{GPT2} --opset 18 --labels",
    "llama-labels": f"{LLAMA} --opset 23 --optimize --labels",
    "llama-dynamic-seq": f"{LLAMA} --opset 18 --seq dynamic --optimize",
    "llama-inputs": f"{LLAMA} --opset 23 --optimize --attention-mask "
                    "--position-ids",
    # Nothing here is a multiple of a vector: remainders everywhere.
    "gpt2-odd": "gpt2-small --layers 3 --hidden 36 --heads 3 --vocab 261 "
                "--seq 27 --jitter 0.1 --seed 3 --opset 23 --optimize",
    # Rows longer than a tile of attention, and no multiple of one.
    "llama-long": "llama-small --layers 2 --hidden 32 --heads 2 --kv-heads 1 "
                  "--ffn 40 --vocab 257 --seq 200 --jitter 0.1 --seed 6 "
                  "--opset 18 --optimize",
    # Exported in training mode, with dropout everywhere. What the fused
    # attention drops has no training_mode in this graph, and does nothing.
    "gpt2-dropout": f"{GPT2} --opset 18 --attention eager --dropout 0.2",
    "gpt2-dropout-fused": f"{GPT2} --opset 18 --dropout 0.2 --optimize",
    "gpt2-positions": f"{GPT2} --opset 18 --attention-mask --position-ids "
                      "--optimize",
    "bert": f"{ARRAYS} bert --opset 18",
    "bert-labels": f"{ARRAYS} bert --opset 23 --attention eager --labels",
    "distilbert-classifier": f"{ARRAYS} distilbert_cls --opset 23",
    # An encoder beside a decoder, and attention from one to the other.
    "t5": f"{ARRAYS} t5 --opset 18 --attention eager",
    "mixtral": f"{EXPERTS} mixtral --opset 18 --optimize",
    "qwen3-moe": f"{EXPERTS} qwen3_moe --opset 23 --optimize",
    # A sink beside the keys of each head, which the exporter's optimizer would
    # fold; a window in every second layer.
    "gpt-oss": f"{EXPERTS} gpt_oss --opset 18 --attention eager",
    "qwen3": f"{EXPERTS} qwen3 --opset 23 --optimize",
    "gpt2-eight": f"gpt2-small {EIGHT} --seed 11 --opset 18",
    "llama-eight": f"llama-small {EIGHT} --kv-heads 2 --ffn 96 --seed 12 "
                   "--opset 23 --optimize",
    "qwen3-eight": f"tiny {EIGHT} --kv-heads 4 --ffn 96 --seed 13 --opset 23 "
                   "--architecture qwen3",
    "gemma3-eight": f"tiny {EIGHT} --kv-heads 4 --ffn 96 --seed 14 "
                    "--opset 18 --architecture gemma3",
    "gpt2-small": "gpt2-small",
    "llama-small": "llama-small --opset 23",
    "regressor": "module Regressor --opset 18",
    "classifier": "module Classifier --opset 23",
    # People's own modules (modules/): the exporter's setting.
    "focal-loss": "own FocalLoss default --batch 6",
    "quantised": "own Quantised unoptimized --batch 6",
    "fake-quantised": "own FakeQuantised default --batch 6",
    "stochastic": "own Stochastic default --batch 6",
    "tables": "own Tables default --batch 6",
    "one-output": "own OneOutput legacy --batch 6",
    "padded-left": "own PaddedOnTheLeft default --batch 6",
    "modulation": "own Modulation legacy --batch 6",
    "routed-experts": "own RoutedExperts default --batch 6",
    "added-experts": "own AddedExperts unoptimized --batch 6",
    "bytes-and-columns": "own BytesAndColumns unoptimized --batch 6",
    "hidden-words": "own HiddenWords legacy-unfolded --batch 6",
    "known-targets": "own KnownTargets legacy --batch 6",
    "boxes": "own Boxes default --batch 6",
    "hidden-speech": "own HiddenSpeech default --batch 6",
}

# These two are the project's models/*.onnx and are not exported again.
SHIPPED = ("gpt2-small", "llama-small")

TOKENS = "tokens.bin"  # models/data/tokens.bin

# Tolerances of the f32 runs; a case may set its own.
LOSS_RTOL = 1e-4
NORM_RTOL = 1e-3


def case(name, model=None, data=TOKENS, batch=1, compile=(), run=(), **other):
    """`compile` and `run` are options of the compiler and the executable;
    `like` names the recorded case that it is compared with, if not its own."""
    return dict(name=name, model=model or name, data=data, batch=batch,
                compile=list(compile), run=list(run), **other)


def adapter_path(name):
    """The folder of the adapter that a case starts from."""
    return os.path.join(HERE, "adapters", name)


def lora(name, model, options="", targets="all-linear", base=None, saved=None,
         parameters=(), **other):
    """An adapter that PEFT has made: `options` are those of --lora behind the
    rank, `base` is --base-dtype, `saved` are PEFT's modules_to_save,
    `parameters` its target_parameters; `other` are case()'s."""
    words = dict(w.split("=") if "=" in w else (w, True)
                 for w in options.split(",") if w)
    peft = {"r": other.pop("r", 4), "lora_alpha": int(words.get("alpha", 8)),
            "target_modules": targets}
    if "dropout" in words:
        peft["lora_dropout"] = float(words["dropout"])
        other["dropout"] = "all"
    if "rslora" in words:
        peft["use_rslora"] = True
    if "dora" in words:
        peft["use_dora"] = True
    if saved:
        peft["modules_to_save"] = saved
    if parameters:
        peft["target_parameters"] = list(parameters)
    if other.pop("head", True):
        peft["task_type"] = "CAUSAL_LM"
    words = [f"--lora={peft['r']}{options}"]
    if targets != "all-linear":
        named = [targets] + [".*\\." + p.replace(".", "\\.") for p in parameters]
        words.append(f"--lora-targets={'|'.join(named)}")
    if base:
        words.append(f"--base-dtype={base}")
    return case(name, model=model, lora=peft, base=base,
                compile=words + list(other.pop("compile", ())),
                run=[f"--adapter={adapter_path(name)}",
                     *other.pop("run", ())], **other)


def f8(name, model, matmul, **other):
    """Products of 8 bits, however small: a value that lies between two is
    rounded up in one program and down in another, hence the bars."""
    return case(name, model=model, matmul=matmul, loss_rtol=1e-3,
                norm_rtol=5e-2, compile=[f"--matmul-dtype={matmul}",
                                         "--matmul-gain=0"], **other)


CODES = ["--param-dtype=bf16", "--reduce-dtype=f32", "--matmul-dtype=fp8",
         "--matmul-gain=0", "--gather-dtype=fp8"]


def gathered(name, model, gather, **other):
    """As with products of 8 bits."""
    return case(name, model=model, gather=gather, loss_rtol=1e-3,
                norm_rtol=1e-2, compile=[f"--gather-dtype={gather}"], **other)


def config(name):
    return "--config=" + os.path.join(HERE, "configs", name)


CASES = [
    case("gpt2-18"),
    case("gpt2-18-optimized"),
    case("gpt2-23"),
    case("gpt2-23-optimized"),
    case("llama-18"),
    case("llama-18-optimized"),
    case("llama-23"),
    case("llama-23-optimized"),
    case("smollm3-18"),
    case("gpt2-untied-static", batch=2),
    case("llama-tied-static"),
    case("gpt2-eager"),
    case("llama-eager"),
    case("gpt2-labels"),
    case("llama-labels"),
    case("llama-dynamic-seq", batch=2, seq=24,
         compile=["--seq=24"]),
    case("llama-inputs"),
    # Padding masks that the program reads, token types, classes.
    case("bert", data="bert.npz", batch=2),
    case("bert-labels", data="bert.npz", batch=3),
    case("distilbert-classifier", data="distilbert_cls.npz", batch=2),
    case("t5", data="t5.npz", batch=2, compile=["--logits=logits"]),
    # Tokens go to the experts that a product with their state chooses.
    case("mixtral", batch=3),
    case("qwen3-moe", batch=2),
    case("gpt-oss", batch=2),
    case("gpt2-eight"),
    case("llama-eight"),
    case("llama-eight-batch", model="llama-eight", like="llama-eight", batch=3),
    case("llama-eight-documents", model="llama-eight", batch=2, separator=32,
         compile=["--document-separator=32"]),
    case("qwen3-eight", batch=2),
    case("gemma3-eight"),
    case("gpt2-odd"),
    case("llama-long", batch=2),
    case("gpt2-small", batch=3),
    case("llama-small", batch=2),
    # Fewer samples than two steps use: the data starts again.
    case("gpt2-short-data", model="gpt2-18", data="short.bin"),
    # Labels of their own, some of them ignored, not equally many a sample.
    case("llama-masked-labels", model="llama-23", data="masked.npz"),
    case("gpt2-sgd", model="gpt2-18", optimizer="sgd", lr=0.1, momentum=0.9,
         compile=["--optimizer=sgd"], run=["--lr=0.1", "--momentum=0.9"]),
    case("llama-adam", model="llama-18", optimizer="adam",
         compile=["--optimizer=adam"]),
    # The matrices of blocks torch.optim.Muon's, the rest AdamW's (muon.py).
    case("gpt2-muon", model="gpt2-18", optimizer="muon", muon_lr=5e-3,
         compile=["--optimizer=muon"], run=["--muon-lr=5e-3"]),
    case("llama-muon", model="llama-23", optimizer="muon", momentum=0.9,
         adjust="match_rms_adamw", schedule="cosine", warmup=3, batch=2,
         compile=["--optimizer=muon"],
         run=["--momentum=0.9", "--adjust-lr-fn=match_rms_adamw",
              "--schedule=cosine", "--warmup=3"]),
    # The optimizer's state in few bits: eight as bitsandbytes has it
    # (eight_bits.py); of bf16, rounded at random, the means are those of f32.
    case("gpt2-adamw-int8", model="gpt2-18", optimizer="adamw-int8",
         loss_rtol=1e-3, norm_rtol=1e-2, compile=["--optimizer-dtype=int8"]),
    case("gpt2-sgd-int8", model="gpt2-18", optimizer="sgd-int8", lr=0.1,
         momentum=0.9, loss_rtol=1e-3, norm_rtol=1e-2,
         compile=["--optimizer=sgd", "--optimizer-dtype=int8"],
         run=["--lr=0.1", "--momentum=0.9"]),
    case("gpt2-adamw-bf16-state", model="gpt2-18", like="gpt2-18",
         loss_rtol=1e-3, norm_rtol=1e-2, compile=["--optimizer-dtype=bf16"]),
    # Gathered in few bits, rounded as torch rounds (gathers.py).
    gathered("gpt2-gathered-int8", "gpt2-18", "int8"),
    gathered("gpt2-gathered-fp8", "gpt2-18", "fp8"),
    gathered("gpt2-gathered-bf16", "gpt2-18", "bf16"),
    gathered("llama-gathered-int8", "llama-sixteens", "int8"),
    gathered("llama-gathered-fp8", "llama-sixteens", "fp8"),
    # Masters of bf16 are rounded at random: the means are those of f32.
    case("gpt2-bf16-masters", model="gpt2-18", like="gpt2-bf16",
         loss_rtol=2e-2, norm_rtol=5e-2,
         compile=["--param-dtype=bf16", "--master-dtype=bf16"]),
    case("gpt2-no-clip", model="gpt2-18", clip=0.0,
         run=["--clip-grad-norm=0"]),
    case("gpt2-cosine", model="gpt2-18", schedule="cosine", warmup=5,
         min_lr=1e-4,
         run=["--schedule=cosine", "--warmup=5", "--min-lr=1e-4"]),
    case("gpt2-linear", model="gpt2-18", schedule="linear", warmup=4,
         run=["--schedule=linear", "--warmup=4"]),
    case("gpt2-wsd", model="gpt2-18", schedule="wsd", warmup=3, min_lr=1e-5,
         run=["--schedule=wsd", "--warmup=3", "--min-lr=1e-5"]),
    case("gpt2-no-decay", model="gpt2-18", no_decay=r".*(bias|ln_\w+\.weight)",
         run=[r"--no-decay=.*(bias|ln_\w+\.weight)"]),
    case("gpt2-freeze", model="gpt2-18", freeze=r"transformer\.wpe\.weight",
         compile=[r"--freeze=transformer\.wpe\.weight"]),
    # Adapters on a frozen base, beside PEFT's.
    lora("gpt2-lora", "gpt2-18"),
    # A norm trained beside them, which PEFT's folder has, too.
    lora("gpt2-lora-saved", "gpt2-23", saved=["ln_f"], targets=r".*\.c_attn",
         compile=[r"--freeze=transformer\.(h|wte|wpe)\..*"]),
    lora("llama-lora", "llama-18-optimized", ",alpha=16", r=16),
    lora("llama-lora-targets", "llama-23", ",alpha=4,rslora",
         targets=r".*\.(q_proj|v_proj|down_proj)"),
    lora("llama-lora-dropout", "llama-18", ",dropout=0.2",
         targets=r".*\.(q_proj|o_proj|up_proj)"),
    lora("llama-dora", "llama-23", ",alpha=16,dora",
         targets=r".*\.(k_proj|o_proj|down_proj)"),
    lora("gpt2-dora-dropout", "gpt2-18", ",dora,dropout=0.1",
         targets=r".*\.(c_attn|c_fc)"),
    lora("qwen3-lora", "qwen3", ",alpha=32", r=16),
    # Routers and experts in one tensor, too; by name, of one rank.
    lora("mixtral-lora", "mixtral", batch=2),
    lora("qwen3-moe-lora", "qwen3-moe", ",alpha=16", batch=2, r=16),
    lora("mixtral-lora-experts", "mixtral", ",alpha=4,rslora", batch=3,
         targets=r".*\.q_proj",
         parameters=["experts.gate_up_proj", "experts.down_proj"]),
    lora("bert-lora", "bert", data="bert.npz", batch=2, head=False),
    lora("t5-lora", "t5", ",alpha=16", data="t5.npz", batch=2, head=False,
         r=16, compile=["--logits=logits"]),
    # Their matrices are matrices of blocks; lengths of rows are none. What
    # bf16 rounds of four small directions moves the norm.
    lora("gpt2-lora-muon", "gpt2-18", optimizer="muon", norm_rtol=5e-3,
         targets=r".*\.(c_attn|c_fc)", compile=["--optimizer=muon"]),
    lora("llama-dora-muon", "llama-23", ",alpha=16,dora", optimizer="muon",
         adjust="match_rms_adamw", targets=r".*\.(k_proj|o_proj|down_proj)",
         compile=["--optimizer=muon"], run=["--adjust-lr-fn=match_rms_adamw"]),
    # Adapters on what bitsandbytes makes of the base.
    lora("llama-qlora", "llama-18", ",alpha=16", base="nf4",
         targets=r".*\.(q_proj|v_proj)"),
    lora("gpt2-lora-int8", "gpt2-23", base="int8",
         targets=r".*\.(c_attn|c_proj)"),
    lora("llama-qdora", "llama-23", ",dora", base="nf4",
         targets=r".*\.(v_proj|gate_proj)"),
    # PyTorch with the masks of runtime/Random.h.
    case("gpt2-dropout", dropout="all"),
    case("gpt2-dropout-fused", batch=3, dropout="no attention"),
    case("gpt2-dropout-off", model="gpt2-dropout", compile=["--dropout=off"]),
    # Documents that end with a space, apart by an explicit mask in PyTorch.
    case("gpt2-documents", model="gpt2-18", separator=32,
         compile=["--document-separator=32"]),
    case("gpt2-documents-positions", model="gpt2-positions", batch=2,
         separator=32, compile=["--document-separator=32"]),
    case("gpt2-documents-labels", model="gpt2-labels", separator=32,
         compile=["--document-separator=32"]),
    case("llama-documents", model="llama-long", batch=2, separator=10,
         compile=["--document-separator=10"]),
    case("llama-documents-bf16", model="llama-long", batch=2, separator=10,
         policy="bf16", loss_rtol=2e-2, norm_rtol=1e-1,
         compile=["--document-separator=10", "--param-dtype=bf16",
                  "--reduce-dtype=f32"]),
    case("regressor", data="regressor.npz", batch=2, loss="mse", lr=1e-2,
         compile=["--loss=mse"], run=["--lr=1e-2"]),
    case("classifier", data="classifier.npz", batch=2, lr=1e-2,
         run=["--lr=1e-2"]),
    # Smoothed labels, detach(), padding rows, a bias of one number, and
    # parameters that start equal, of which ONNX says nothing.
    case("focal-loss", data="focal-loss.npz", batch=6),
    case("quantised", data="quantised.npz", batch=6),
    case("fake-quantised", data="fake-quantised.npz", batch=6),
    # Uniform, normal and Bernoulli numbers, and stochastic depth.
    case("stochastic", data="stochastic.npz", batch=6),
    case("tables", data="tables.npz", batch=6),
    case("one-output", data="one-output.npz", batch=6,
         compile=["--loss=mse"]),
    # Padding before the text, which the loss counts.
    case("padded-left", data="padded-left.npz", batch=6,
         compile=["--attention-mask=input"]),
    case("modulation", data="modulation.npz", batch=6),
    # Rows that a mask selects: experts that are modules, and labels.
    case("routed-experts", data="routed-experts.npz", batch=6),
    case("added-experts", data="added-experts.npz", batch=6),
    case("hidden-words", data="hidden-words.npz", batch=6),
    case("known-targets", data="known-targets.npz", batch=6),
    case("boxes", data="boxes.npz", batch=6),
    case("hidden-speech", data="hidden-speech.npz", batch=6),
    # Pictures of bytes, columns of categories, a saturated sigmoid's loss, and
    # a number beside the loss.
    case("bytes-and-columns", data="bytes-and-columns.npz", batch=6),
    # Rounding differs from PyTorch's in every product, hence the bar of 2 %.
    case("gpt2-bf16", model="gpt2-18", policy="bf16", loss_rtol=2e-2,
         norm_rtol=1e-1,
         compile=["--param-dtype=bf16", "--reduce-dtype=f32"]),
    case("llama-bf16", model="llama-23", policy="bf16", loss_rtol=2e-2,
         norm_rtol=1e-1,
         compile=["--param-dtype=bf16", "--reduce-dtype=f32"]),
    case("qwen3-moe-bf16", model="qwen3-moe", batch=2, policy="bf16",
         loss_rtol=2e-2, norm_rtol=1e-1,
         compile=["--param-dtype=bf16", "--reduce-dtype=f32"]),
    # torch's float8, with the same scales and roundings.
    f8("gpt2-fp8", "gpt2-18", "fp8", batch=2),
    f8("gpt2-fp8-rowwise", "gpt2-18", "fp8:rowwise"),
    f8("llama-fp8", "llama-sixteens", "fp8"),
    f8("llama-fp8-rowwise", "llama-sixteens", "fp8:rowwise", batch=3),
    # Gathered as what products multiply, which are those of 8 bits alone; norms,
    # embedding and head in blocks.
    case("gpt2-fp8-codes", model="gpt2-18", like="gpt2-fp8", batch=2,
         loss_rtol=2e-2, norm_rtol=1e-1, compile=CODES),
    case("llama-fp8-codes", model="llama-sixteens", like="llama-fp8",
         loss_rtol=2e-2, norm_rtol=1e-1, compile=CODES),
    # Float16 with its loss scale, against the run in float32: `like`.
    case("gpt2-f16", model="gpt2-18", like="gpt2-18", loss_rtol=1e-2,
         norm_rtol=1e-1, compile=["--param-dtype=f16", "--reduce-dtype=f32"]),
    case("llama-f16", model="llama-23", like="llama-23", loss_rtol=1e-2,
         norm_rtol=1e-1, compile=["--param-dtype=f16", "--reduce-dtype=f16"]),
    # Blocks in bf16, one with a f32 module inside, the rest in f32.
    case("gpt2-mixed-units", model="gpt2-18", like="gpt2-18", loss_rtol=2e-2,
         norm_rtol=1e-1, compile=[config("mixed.json")]),
]


def model_path(name):
    if name in SHIPPED:
        return os.path.join(ROOT, "models", name + ".onnx")
    return os.path.join(HERE, "models", name + ".onnx")


def data_path(name):
    if name == TOKENS:
        return os.path.join(ROOT, "models", "data", name)
    return os.path.join(HERE, "data", name)


def by_name(name):
    return next(c for c in CASES if c["name"] == name)
