#!/usr/bin/env python3
# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Exports transformers of any size to ONNX, to be trained.

The model is built from a transformers configuration with random weights, so
nothing is downloaded. Dropout is off unless --dropout gives its ratio, the KV
cache is off, and by default the exporter's constant folding is off too: it
turns small parameters (position embeddings, norm weights) into constants that
no longer train. `--optimize` asks for the folded graph all the same.

    export.py gpt2-small -o gpt2-small.onnx
    export.py llama-8b --no-weights --opset 23 -o llama-8b.onnx
    export.py tiny --architecture gemma2 -o gemma2.onnx

Other scripts (test/training/record.py, benchmarks/) import `add_arguments`,
`build` and `export` from here, so that all of them speak of the same models.
"""

import argparse
import contextlib
import importlib.util
import inspect
import logging
import os
import sys
import warnings

import architectures
import shardonnx_export

# Name -> family and shape. `seq` is the exported sequence length and, for
# GPT-2, the number of learned positions.
PRESETS = {
    "tiny": dict(family="llama", layers=2, hidden=64, heads=4, kv_heads=2,
                 ffn=96, vocab=128, seq=32),
    "gpt2-small": dict(family="gpt2", layers=2, hidden=96, heads=3, vocab=256,
                       seq=128),
    "llama-small": dict(family="llama", layers=2, hidden=128, heads=4,
                        kv_heads=2, ffn=352, vocab=256, seq=128),
    "w1": dict(family="gpt2", layers=6, hidden=384, heads=6, vocab=8192,
               seq=256),
    "w2": dict(family="llama", layers=6, hidden=512, heads=8, kv_heads=4,
               ffn=1376, vocab=8192, seq=256),
    "w3": dict(family="llama", layers=12, hidden=768, heads=12, kv_heads=12,
               ffn=2048, vocab=32000, seq=512, tied=True),
    "w4": dict(architecture="bert", layers=12, hidden=768, heads=12, ffn=3072,
               vocab=30522, seq=128, padded=False),
    "w5": dict(architecture="vit", layers=12, hidden=384, heads=6, ffn=1536,
               seq=197, image=224, patch=16, classes=1000),
    "gpt2-124m": dict(family="gpt2", layers=12, hidden=768, heads=12,
                      vocab=50257, seq=1024),
    "gpt2-1.5b": dict(family="gpt2", layers=48, hidden=1600, heads=25,
                      vocab=50257, seq=1024),
    "smollm3-3b": dict(family="smollm3", layers=36, hidden=2048, heads=16,
                       kv_heads=4, ffn=11008, vocab=128256, seq=8192,
                       rope_theta=2000000.0),
    # Granite 3.0 1B-A400M's shape: 8 of 32 experts for each token.
    "qwen3-moe-1b": dict(architecture="qwen3_moe", layers=24, hidden=1024,
                         heads=16, kv_heads=8, head_dim=64, ffn=512,
                         vocab=49152, seq=2048, experts=32, chosen=8,
                         tied=True),
    "llama-8b": dict(family="llama", layers=32, hidden=4096, heads=32,
                     kv_heads=8, ffn=14336, vocab=128256, seq=2048,
                     rope_theta=500000.0),
    "llama-70b": dict(family="llama", layers=80, hidden=8192, heads=64,
                      kv_heads=8, ffn=28672, vocab=128256, seq=8192,
                      rope_theta=500000.0),
    "llama-405b": dict(family="llama", layers=126, hidden=16384, heads=128,
                       kv_heads=8, ffn=53248, vocab=128256, seq=8192,
                       rope_theta=500000.0),
}

# Offsets in an external data file start at multiples of this, so that mapped
# tensors are page-aligned.
EXTERNAL_ALIGNMENT = 4096


def add_arguments(parser):
    """The options that shape a model and its graph."""
    size = parser.add_argument_group("size (default: the preset's)")
    for name in ("layers", "hidden", "heads", "kv-heads", "ffn", "vocab"):
        size.add_argument(f"--{name}", type=int, metavar="N")
    size.add_argument("--rope-theta", type=float, metavar="X")
    size.add_argument("--batch", default="dynamic", metavar="N|dynamic")
    size.add_argument("--seq", metavar="N|dynamic")
    model = parser.add_argument_group("model")
    model.add_argument("--architecture", metavar="NAME",
                       choices=sorted(architectures.ARCHITECTURES),
                       help="build this in the preset's shape (default: the "
                       "preset's own): "
                       + ", ".join(architectures.ARCHITECTURES))
    model.add_argument("--dtype", choices=("f32", "bf16", "f16"),
                       default="f32")
    model.add_argument("--attention", choices=("sdpa", "eager"),
                       default="sdpa")
    model.add_argument("--tied", action=argparse.BooleanOptionalAction,
                       help="share the embedding with the head (default: no "
                       "for Llama, yes for the others)")
    model.add_argument("--dropout", type=float, default=0.0, metavar="X",
                       help="export GPT-2 in training mode, which drops this "
                       "share of embeddings, attention weights and results")
    model.add_argument("--seed", type=int, default=0)
    model.add_argument("--spread", type=float, metavar="X",
                       help="standard deviation of the random weights "
                       "(default: the configuration's)")
    model.add_argument("--jitter", type=float, metavar="X",
                       help="noise added to parameters that start as all "
                       "ones or zeros; the exporter merges equal parameters "
                       "(default: 0.02 with --optimize, else 0)")
    model.add_argument("--weights", action=argparse.BooleanOptionalAction,
                       default=True, help="--no-weights: a sparse external "
                       "file in place of the weights")
    graph = parser.add_argument_group("graph")
    graph.add_argument("--opset", type=int, choices=(18, 23), default=18)
    graph.add_argument("--legacy", action="store_true",
                       help="PyTorch's older exporter, as Optimum uses it")
    graph.add_argument("--optimize", action=argparse.BooleanOptionalAction,
                       default=False, help="let the exporter fold constants; "
                       "it then freezes some parameters (default: no)")
    graph.add_argument("--labels", action="store_true",
                       help="an input `labels` and the loss in the graph")
    graph.add_argument("--attention-mask", action="store_true",
                       help="an input `attention_mask`")
    graph.add_argument("--position-ids", action="store_true",
                       help="an input `position_ids`")


def parse(arguments):
    """Options as `add_arguments` defines them, from a list of words."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("preset", choices=sorted(PRESETS))
    parser.add_argument("-o", "--output", metavar="FILE")
    add_arguments(parser)
    options = parser.parse_args(arguments)
    for name in ("batch", "seq"):
        text = getattr(options, name)
        if text not in (None, "dynamic") and not (text.isdigit()
                                                  and int(text) > 0):
            parser.error(f"--{name}: '{text}' is neither a positive number "
                         "nor 'dynamic'")
    if options.legacy and (options.opset > 20 or not options.weights):
        parser.error("--legacy: that exporter knows opsets up to 20, and no "
                     "graphs without weights")
    if not 0 <= options.dropout < 1:
        parser.error(f"--dropout: {options.dropout} is not within [0, 1)")
    if options.dropout and (architecture_of(options) or
                            PRESETS[options.preset]["family"]) != "gpt2":
        parser.error("--dropout: only GPT-2 has dropout")
    return options


def shape_of(options):
    """The preset's shape with the command line's changes."""
    shape = dict(PRESETS[options.preset])
    for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab",
                 "rope_theta"):
        if getattr(options, name) is not None:
            shape[name] = getattr(options, name)
    if options.seq not in (None, "dynamic"):
        shape["seq"] = int(options.seq)
    return shape


def architecture_of(options):
    """The architecture's name; None for the presets' own families."""
    return options.architecture or PRESETS[options.preset].get("architecture")


def configuration(options):
    """The transformers configuration, without a cache."""
    from transformers import GPT2Config, LlamaConfig, SmolLM3Config

    shape = shape_of(options)
    common = dict(use_cache=False, bos_token_id=None, eos_token_id=None,
                  attn_implementation=options.attention)
    if "vocab" in shape:
        common["vocab_size"] = shape["vocab"]
    if options.spread:
        common["initializer_range"] = common["init_std"] = options.spread
    tied = shape.get("tied") if options.tied is None else options.tied
    name = architecture_of(options)
    if name and not options.dropout:
        return architectures.configuration(name, shape, tied, common)
    if shape["family"] == "gpt2":
        tied = tied is not False
        return GPT2Config(n_layer=shape["layers"], n_embd=shape["hidden"],
                          n_head=shape["heads"], n_inner=shape.get("ffn"),
                          n_positions=shape["seq"],
                          embd_pdrop=options.dropout,
                          attn_pdrop=options.dropout,
                          resid_pdrop=options.dropout,
                          tie_word_embeddings=tied, **common)
    # SmolLM3 differs in layers without rotary embedding: every fourth.
    smollm3 = shape["family"] == "smollm3"
    tied = tied is not False if smollm3 else tied is True
    kind = SmolLM3Config if smollm3 else LlamaConfig
    return kind(num_hidden_layers=shape["layers"],
                hidden_size=shape["hidden"],
                num_attention_heads=shape["heads"],
                num_key_value_heads=shape["kv_heads"],
                intermediate_size=shape["ffn"],
                max_position_embeddings=shape["seq"],
                rope_parameters={
                    "rope_type": "default",
                    "rope_theta": shape.get("rope_theta", 10000.0)},
                attention_dropout=0.0, pad_token_id=None,
                tie_word_embeddings=tied, **common)


def torch_dtype(options):
    import torch

    return {"f32": torch.float32, "bf16": torch.bfloat16,
            "f16": torch.float16}[options.dtype]


def build(options):
    """The model, with weights drawn from `options.seed`.

    Without dropout it stays in evaluation mode: both modes compute the same.
    """
    import torch
    import transformers

    torch.manual_seed(options.seed)
    name = architecture_of(options)
    task = (architectures.ARCHITECTURES[name].task if name
            else "AutoModelForCausalLM")
    model = getattr(transformers, task).from_config(configuration(options),
                                                    dtype=torch_dtype(options))
    jitter = options.jitter
    if jitter is None:
        jitter = 0.02 if options.optimize and options.weights else 0.0
    if jitter:
        add_jitter(model, jitter)
    return model.train() if options.dropout else model.eval()


def add_jitter(model, scale):
    """Tells constant parameters apart.

    Biases start as zeros and norm weights as ones; the exporter's optimizer
    would drop the former and share one initializer among the latter.
    """
    import torch

    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.min() == parameter.max():
                parameter += scale * torch.randn_like(parameter)


def trace_inputs(options):
    """Example inputs and dynamic dimensions, by input name."""
    import torch

    shape = shape_of(options)
    # 0 and 1 would be specialised, so dynamic dimensions are traced at 2.
    batch = 2 if options.batch == "dynamic" else int(options.batch)
    samples = samples_of(options)
    if samples:
        return sample_inputs(samples, batch, options)
    tokens = torch.zeros(batch, shape["seq"], dtype=torch.int64)
    inputs = {"input_ids": tokens}
    if options.attention_mask:
        inputs["attention_mask"] = torch.ones_like(tokens)
    if options.position_ids:
        inputs["position_ids"] = torch.arange(
            shape["seq"]).expand(batch, -1).contiguous()
    if options.labels:
        inputs["labels"] = torch.zeros_like(tokens)
    axes = {}
    if options.batch == "dynamic":
        axes[0] = torch.export.Dim("batch")
    if options.seq == "dynamic":
        axes[1] = torch.export.Dim("seq", max=shape["seq"])
    return inputs, {name: dict(axes) for name in inputs} if axes else None


def samples_of(options):
    """Arrays by name for what is fed more than tokens, and None for others."""
    name = architecture_of(options)
    make = name and architectures.ARCHITECTURES[name].samples
    return make(shape_of(options)) if make else None


def sample_inputs(samples, batch, options):
    """As trace_inputs, of an architecture that is fed more than tokens."""
    import torch

    inputs = {name: torch.from_numpy(array[:batch])
              for name, array in samples.items()
              if options.labels or name != "labels"}
    if inputs.get("labels") is not None and "decoder_input_ids" in inputs:
        del inputs["decoder_input_ids"]  # the model makes them of the labels
    inputs = {name: value.to(torch_dtype(options))
              if value.is_floating_point() else value
              for name, value in inputs.items()}
    if options.batch != "dynamic":
        return inputs, None
    return inputs, {name: {0: torch.export.Dim("batch")} for name in inputs}


def to_program(model, options):
    """Runs the exporter. The result is an ONNXProgram, not yet written."""
    import torch

    inputs, axes = trace_inputs(options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(
            model, (), kwargs=inputs, dynamo=True,
            opset_version=options.opset, optimize=options.optimize,
            input_names=list(inputs), output_names=output_names(options),
            dynamic_shapes=axes, verbose=False)
    shardonnx_export.drop_traces(program.model.graph.all_nodes())
    shardonnx_export.annotate(program, model)
    return program


def export_legacy(model, options, output):
    """The older exporter: paths in node names, transposed copies of weights."""
    import torch

    inputs, _ = trace_inputs(options)
    axes = {0: "batch"} if options.batch == "dynamic" else {}
    if options.seq == "dynamic":
        axes[1] = "seq"
    with warnings.catch_warnings(), takes_only(model, inputs):
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (), output, kwargs=inputs, dynamo=False,
                          opset_version=options.opset,
                          input_names=list(inputs),
                          output_names=output_names(options),
                          dynamic_axes={name: axes for name in inputs})
    shardonnx_export.annotate(output, model)


@contextlib.contextmanager
def takes_only(model, inputs):
    """Within it, forward takes these inputs and nothing else.

    The older exporter passes by position, and makes inputs of the defaults in
    between: of transformers' `logits_to_keep=0`, all logits, the first one.
    """
    forward = model.forward

    def narrow(*values):
        return forward(**dict(zip(inputs, values)))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    narrow.__signature__ = inspect.Signature(
        [inspect.Parameter(name, kind) for name in inputs])
    model.forward = narrow
    try:
        yield
    finally:
        del model.forward


def output_names(options):
    names = ["loss"] if options.labels else []
    name = architecture_of(options)
    return names + list(architectures.ARCHITECTURES[name].outputs if name
                        else ["logits"])


def real_buffers(model):
    """Non-persistent buffers of a fake model, computed for real.

    They are functions of the configuration (rotary frequencies), and a graph
    without their bytes would not be the same program.
    """
    buffers = {}
    for path, module in model.named_modules():
        names = [name for name, _ in module.named_buffers(recurse=False)]
        if names:
            real = type(module)(config=model.config)
            for name in names:
                buffers[f"{path}.{name}"] = real.get_buffer(name)
    return buffers


def save_without_weights(program, buffers, output):
    """Writes the graph and a sparse file of the weights' size beside it."""
    import onnx_ir

    location = os.path.basename(output) + ".data"
    offset = 0
    graph = program.model.graph
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if name in buffers:
            array = buffers[name].detach().numpy()
            value.const_value = onnx_ir.tensor(array, name=name)
            continue
        if not is_fake(tensor):
            continue
        length = tensor.nbytes
        value.const_value = onnx_ir.ExternalTensor(
            location, offset, length, tensor.dtype, shape=tensor.shape,
            name=name, base_dir=os.path.dirname(output) or ".")
        aligned = -(-length // EXTERNAL_ALIGNMENT) * EXTERNAL_ALIGNMENT
        offset += aligned
    with open(os.path.join(os.path.dirname(output), location), "wb") as data:
        data.truncate(offset)
    onnx_ir.save(program.model, output)


def is_fake(tensor):
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(getattr(tensor, "raw", None), FakeTensor)


def check_trainable(program, model, options):
    """Every parameter must still be an initializer under its own name."""
    names = set(program.model.graph.initializers)
    tied = getattr(model, "all_tied_weights_keys", {}) or {}
    lost = []
    for name, _ in model.named_parameters():
        aliases = {name} | {a for a, b in tied.items() if b == name}
        if not aliases & names:
            lost.append(name)
    if lost and not options.optimize:
        raise SystemExit("export.py: error: the exporter lost "
                         f"{len(lost)} parameters: {', '.join(lost)}")
    return lost


def export(options, output, model=None):
    """Exports to `output`. Returns the names of parameters that were lost."""
    if options.legacy:
        export_legacy(model or build(options), options, output)
        return []
    if not options.weights:
        from torch._subclasses.fake_tensor import FakeTensorMode
        mode = FakeTensorMode()
    else:
        mode = contextlib.nullcontext()
    with mode:
        model = model or build(options)
        program = to_program(model, options)
    lost = check_trainable(program, model, options)
    if options.weights:
        size = sum(p.nbytes for p in model.parameters())
        program.save(output, external_data=size > 1 << 30)
    else:
        save_without_weights(program, real_buffers(model), output)
    return lost


def main():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    options = parse(sys.argv[1:])
    for needed in ("torch", "transformers", "onnx", "onnxscript"):
        if importlib.util.find_spec(needed) is None:
            sys.exit(f"export.py: error: {needed} is not installed: models/make_env makes an environment that has it, "
                     "in .deps/torch")
    output = options.output or options.preset + ".onnx"
    lost = export(options, output)
    print(f"{output}: {os.path.getsize(output)} bytes")
    if lost:
        print(f"export.py: warning: {len(lost)} parameters are constants or "
              f"renamed in this graph: {', '.join(lost)}", file=sys.stderr)


if __name__ == "__main__":
    main()
