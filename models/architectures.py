# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The architectures of transformers that export.py can build at any size.

An architecture is a configuration class, how the shape of a preset is spelled
in it, and what it sets apart from its neighbours (a window, a soft cap, ALiBi):
those are scaled down so that they matter in a graph of 32 tokens.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Architecture:
    """`task` is the Auto class that builds it; `settings` maps a shape to
    arguments of its own; `tied` is what its published models do."""
    config: str
    settings: object = lambda shape: {}
    task: str = "AutoModelForCausalLM"
    tied: bool = False
    # The exporter refuses some implementations; PyTorch has others alone.
    attention: tuple = ("sdpa", "eager")
    # What the graph is fed, if not tokens: from the shape of the preset to
    # arrays by the names of its inputs, and `labels`.
    samples: object = None
    # Outputs of the graph; the first one is trained.
    outputs: tuple = ("logits",)


def plain(shape):
    """What most configurations call their shape."""
    return dict(num_hidden_layers=shape["layers"],
                hidden_size=shape["hidden"],
                num_attention_heads=shape["heads"],
                intermediate_size=shape["ffn"],
                max_position_embeddings=shape["seq"])


def rotary(shape, **more):
    return dict(rope_parameters={"rope_type": "default", "rope_theta":
                                 shape.get("rope_theta", 10000.0), **more})


def grouped(shape, **more):
    """Llama's shape: rotary embedding, key and value heads in groups."""
    return {**plain(shape), **rotary(shape),
            "num_key_value_heads": shape["kv_heads"], **more}


def window(shape):
    """A quarter of the sequence."""
    return shape["seq"] // 4


def alternating(shape):
    """Layers with a window, and every second one without."""
    kinds = ("sliding_attention", "full_attention")
    return [kinds[i % 2] for i in range(shape["layers"])]


def wide_heads(shape):
    """Heads that are not the hidden size over their number, if not given."""
    return shape.get("head_dim", shape["hidden"] // shape["heads"] * 3 // 2)


def gemma3_settings(shape):
    rope = {kind: {"rope_type": "default", "rope_theta": theta} for
            kind, theta in (("sliding_attention", 10000.0),
                            ("full_attention", 1000000.0))}
    return grouped(shape, rope_parameters=rope, sliding_window=window(shape),
                   layer_types=alternating(shape), query_pre_attn_scalar=16,
                   head_dim=wide_heads(shape))


def gpt2_like(shape):
    """Bloom's names."""
    return dict(n_layer=shape["layers"], hidden_size=shape["hidden"],
                n_head=shape["heads"])


DECODERS = {
    "gpt2": Architecture("GPT2Config", lambda s: dict(
        n_layer=s["layers"], n_embd=s["hidden"], n_head=s["heads"],
        n_inner=s.get("ffn"), n_positions=s["seq"], embd_pdrop=0.0,
        attn_pdrop=0.0, resid_pdrop=0.0), tied=True),
    "llama": Architecture("LlamaConfig", grouped),
    "mistral": Architecture("MistralConfig", lambda s: grouped(
        s, sliding_window=window(s))),
    "qwen2": Architecture("Qwen2Config", grouped),
    "qwen3": Architecture("Qwen3Config", lambda s: grouped(
        s, head_dim=wide_heads(s))),
    # Every second layer without rotary embedding.
    "smollm3": Architecture("SmolLM3Config", lambda s: grouped(
        s, no_rope_layer_interval=2), tied=True),
    "gemma2": Architecture("Gemma2Config", lambda s: grouped(
        s, sliding_window=window(s), layer_types=alternating(s),
        attn_logit_softcapping=5.0, final_logit_softcapping=3.0,
        query_pre_attn_scalar=16, head_dim=wide_heads(s)), tied=True,
        attention=("eager",)),
    "gemma3": Architecture("Gemma3TextConfig", gemma3_settings, tied=True),
    "phi3": Architecture("Phi3Config", lambda s: grouped(
        s, original_max_position_embeddings=s["seq"],
        sliding_window=window(s))),
    "opt": Architecture("OPTConfig", lambda s: dict(
        hidden_size=s["hidden"], num_hidden_layers=s["layers"],
        num_attention_heads=s["heads"], ffn_dim=s["ffn"], dropout=0.0,
        word_embed_proj_dim=s["hidden"], max_position_embeddings=s["seq"]),
        tied=True),
    # A quarter of each head is rotated.
    "gpt_neox": Architecture("GPTNeoXConfig", lambda s: {
        **plain(s), **rotary(s, partial_rotary_factor=0.25)}),
    "bloom": Architecture("BloomConfig", gpt2_like, tied=True,
                          attention=("eager",)),
    "falcon": Architecture("FalconConfig", lambda s: dict(
        hidden_size=s["hidden"], num_hidden_layers=s["layers"],
        num_attention_heads=s["heads"], ffn_hidden_size=s["ffn"],
        max_position_embeddings=s["seq"], **rotary(s)), tied=True),
    "olmo2": Architecture("Olmo2Config", grouped),
    "granite": Architecture("GraniteConfig", lambda s: grouped(
        s, embedding_multiplier=3.0, residual_multiplier=0.5,
        attention_multiplier=0.1, logits_scaling=2.0)),
    "stablelm": Architecture("StableLmConfig", lambda s: {
        **grouped(s), **rotary(s, partial_rotary_factor=0.25),
        "use_qkv_bias": True}),
    "starcoder2": Architecture("Starcoder2Config", lambda s: grouped(
        s, sliding_window=window(s)), tied=True),
    "cohere": Architecture("CohereConfig", lambda s: grouped(
        s, logit_scale=0.25, use_qk_norm=True), tied=True),
    "glm": Architecture("GlmConfig", lambda s: {
        **grouped(s, head_dim=s["hidden"] // s["heads"]),
        **rotary(s, partial_rotary_factor=0.5)}),
    # Half of each head is rotated, by pairs of neighbours.
    "gptj": Architecture("GPTJConfig", lambda s: dict(
        n_embd=s["hidden"], n_layer=s["layers"], n_head=s["heads"],
        n_inner=s["ffn"], n_positions=s["seq"], resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0,
        rotary_dim=s["hidden"] // s["heads"] // 2), attention=("eager",)),
    # Scores are not scaled; every second layer has a window.
    "gpt_neo": Architecture("GPTNeoConfig", lambda s: dict(
        hidden_size=s["hidden"], num_layers=s["layers"],
        num_heads=s["heads"], intermediate_size=s["ffn"],
        max_position_embeddings=s["seq"], window_size=window(s),
        attention_types=[[["global", "local"], s["layers"] // 2]],
        resid_dropout=0.0, embed_dropout=0.0, attention_dropout=0.0),
        attention=("eager",), tied=True),
    "gpt_bigcode": Architecture("GPTBigCodeConfig", lambda s: dict(
        n_embd=s["hidden"], n_layer=s["layers"], n_head=s["heads"],
        n_inner=s["ffn"], n_positions=s["seq"], resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0), tied=True),
    "mpt": Architecture("MptConfig", lambda s: dict(
        d_model=s["hidden"], n_layers=s["layers"], n_heads=s["heads"],
        max_seq_len=s["seq"], resid_pdrop=0.0, emb_pdrop=0.0),
        attention=("eager",), tied=True),
    # Attention and MLP side by side, half of each head rotated.
    "phi": Architecture("PhiConfig", lambda s: {
        **grouped(s, num_key_value_heads=s["heads"], resid_pdrop=0.0),
        **rotary(s, partial_rotary_factor=0.5)}),
    # Norms without weights.
    "olmo": Architecture("OlmoConfig", grouped),
    # Windows with rotary embedding, every second layer without both.
    "cohere2": Architecture("Cohere2Config", lambda s: grouped(
        s, sliding_window=window(s), layer_types=alternating(s)), tied=True),
    "gemma": Architecture("GemmaConfig", lambda s: grouped(
        s, head_dim=wide_heads(s)), tied=True),
    # Squared ReLU, norms of 1 + weight.
    "nemotron": Architecture("NemotronConfig", grouped),
}

# Sequences that samples() makes, and the tokens that they leave to the words.
SAMPLES = 36
PAD, MASK, WORDS = 0, 1, 2
# Share of the words that a masked language model predicts.
MASKED = 0.3
CLASSES = 3


def padded(shape):
    return shape.get("padded", True)


def text(shape):
    """Sequences of words, padded after their end unless the shape says that
    they are whole, and where words are."""
    import numpy

    draw = numpy.random.default_rng(0)
    size = (SAMPLES, shape["seq"])
    ids = draw.integers(WORDS, shape["vocab"], size)
    least = shape["seq"] // 2 if padded(shape) else shape["seq"]
    ends = draw.integers(least, shape["seq"] + 1, SAMPLES)
    seen = numpy.arange(shape["seq"]) < ends[:, None]
    return numpy.where(seen, ids, PAD), seen, draw


def masked_words(shape, types=True):
    """Some words hidden, to be predicted; whole sequences need no mask."""
    import numpy

    ids, seen, draw = text(shape)
    hidden = seen & (draw.random(ids.shape) < MASKED)
    samples = dict(input_ids=numpy.where(hidden, MASK, ids))
    if padded(shape):
        samples["attention_mask"] = seen.astype(numpy.int64)
    if types and padded(shape):
        samples["token_type_ids"] = (
            numpy.arange(shape["seq"]) >= shape["seq"] // 2) * seen.astype(
                numpy.int64)
    return dict(samples, labels=numpy.where(hidden, ids, -100))


def classes(shape):
    """One class for each sequence."""
    ids, seen, draw = text(shape)
    return dict(input_ids=ids, attention_mask=seen.astype("int64"),
                labels=draw.integers(0, CLASSES, SAMPLES))


def pairs(shape):
    """A sequence, and another one that is predicted word by word."""
    import numpy

    ids, seen, draw = text(shape)
    target, spoken, _ = text(dict(shape, seq=shape["seq"] * 3 // 4))
    target = numpy.roll(target, 1, axis=0)
    spoken = numpy.roll(spoken, 1, axis=0)
    return dict(input_ids=ids, attention_mask=seen.astype("int64"),
                decoder_input_ids=numpy.pad(target[:, :-1], ((0, 0), (1, 0))),
                labels=numpy.where(spoken, target, -100))


def side(shape):
    """Of a picture, in pixels."""
    return shape.get("image", 16)


def pictures(shape):
    """One class for each picture."""
    import numpy

    draw = numpy.random.default_rng(0)
    return dict(pixel_values=draw.standard_normal(
        (SAMPLES, 3, side(shape), side(shape))).astype(numpy.float32),
        labels=draw.integers(0, shape.get("classes", CLASSES), SAMPLES))


def encoder(shape):
    """BERT's shape, without dropout."""
    return {**plain(shape), "hidden_dropout_prob": 0.0, "pad_token_id": PAD,
            "attention_probs_dropout_prob": 0.0, "num_labels": CLASSES}


def distilled(shape):
    return dict(dim=shape["hidden"], n_layers=shape["layers"],
                n_heads=shape["heads"], hidden_dim=shape["ffn"],
                max_position_embeddings=shape["seq"], dropout=0.0,
                attention_dropout=0.0, seq_classif_dropout=0.0,
                pad_token_id=PAD, num_labels=CLASSES)


def roberta_settings(shape):
    """Positions count from behind the padding token's."""
    return {**encoder(shape), "type_vocab_size": 1,
            "max_position_embeddings": shape["seq"] + PAD + 1}


def experts(shape):
    """Chosen by products with all of their weights: the only form that the
    exporter takes."""
    return grouped(shape, experts_implementation="batched_mm",
                   num_experts_per_tok=shape.get("chosen", 2))


def how_many(shape):
    """Experts of a layer."""
    return shape.get("experts", 4)


def latent(shape):
    """DeepSeek's attention: keys and values from one narrow vector, rotated
    and plain parts of a head, values narrower than keys."""
    half = shape["hidden"] // shape["heads"] // 2
    return {**experts(shape), "num_key_value_heads": shape["heads"],
            "moe_intermediate_size": shape["ffn"] // 2,
            "n_routed_experts": how_many(shape),
            "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
            "kv_lora_rank": half * 2, "q_lora_rank": half * 3,
            "qk_nope_head_dim": half * 2, "qk_rope_head_dim": half,
            "head_dim": half, "v_head_dim": half * 2}


def modern(shape):
    """Windows in every second layer, gated MLPs, no biases."""
    return {**encoder(shape), "local_attention": window(shape) * 2,
            "global_attn_every_n_layers": 2, "attention_dropout": 0.0,
            "embedding_dropout": 0.0, "mlp_dropout": 0.0,
            "cls_token_id": WORDS, "sep_token_id": WORDS}


def translator(shape):
    """BART's shape, without dropout."""
    sides = {f"{side}_{name}": shape[key] for side in ("encoder", "decoder")
             for name, key in (("layers", "layers"), ("ffn_dim", "ffn"),
                               ("attention_heads", "heads"))}
    return dict(**sides, d_model=shape["hidden"], dropout=0.0,
                attention_dropout=0.0, activation_dropout=0.0,
                max_position_embeddings=shape["seq"], pad_token_id=PAD,
                decoder_start_token_id=PAD)


MASKED_LM, CLASSIFIER = ("AutoModelForMaskedLM",
                         "AutoModelForSequenceClassification")
ENCODERS = {
    "bert": Architecture("BertConfig", encoder, MASKED_LM, True,
                         samples=masked_words),
    "bert_cls": Architecture("BertConfig", encoder, CLASSIFIER, True,
                             samples=classes),
    "roberta": Architecture("RobertaConfig", roberta_settings, MASKED_LM, True,
                            samples=lambda s: masked_words(s, types=False)),
    "roberta_cls": Architecture("RobertaConfig", roberta_settings, CLASSIFIER,
                                True, samples=classes),
    "distilbert": Architecture("DistilBertConfig", distilled, MASKED_LM, True,
                               samples=lambda s: masked_words(s, types=False)),
    "distilbert_cls": Architecture("DistilBertConfig", distilled, CLASSIFIER,
                                   True, samples=classes),
    "t5": Architecture("T5Config", lambda s: dict(
        d_model=s["hidden"], d_kv=s["hidden"] // s["heads"], d_ff=s["ffn"],
        num_layers=s["layers"], num_heads=s["heads"], dropout_rate=0.0,
        relative_attention_num_buckets=8, relative_attention_max_distance=16,
        decoder_start_token_id=PAD, pad_token_id=PAD),
        "AutoModelForSeq2SeqLM", True, ("eager",), pairs,
        outputs=("logits", "encoder_last_hidden_state")),
    "bart": Architecture(
        "BartConfig", translator, "AutoModelForSeq2SeqLM", True,
        samples=pairs, outputs=("logits", "encoder_last_hidden_state")),
    # One layer, used several times; embeddings narrower than layers.
    "albert": Architecture("AlbertConfig", lambda s: {
        **encoder(s), "embedding_size": s["hidden"] // 2,
        "classifier_dropout_prob": 0.0}, MASKED_LM, True,
        samples=masked_words),
    "electra": Architecture("ElectraConfig", lambda s: {
        **encoder(s), "embedding_size": s["hidden"] // 2}, MASKED_LM, True,
        samples=masked_words),
    "modernbert": Architecture(
        "ModernBertConfig", modern, MASKED_LM, True,
        samples=lambda s: masked_words(s, types=False)),
    "dinov2": Architecture("Dinov2Config", lambda s: {
        **encoder(s), "image_size": side(s), "patch_size": s.get("patch", 4),
        "drop_path_rate": 0.0, "use_mask_token": False},
        "AutoModelForImageClassification", samples=pictures),
    "vit": Architecture("ViTConfig", lambda s: {
        **encoder(s), "image_size": side(s), "patch_size": s.get("patch", 4),
        "num_labels": s.get("classes", CLASSES)},
        "AutoModelForImageClassification", samples=pictures),
}
EXPERTS = {
    "mixtral": Architecture("MixtralConfig", lambda s: {
        **experts(s), "num_local_experts": how_many(s),
        "sliding_window": None}),
    "qwen3_moe": Architecture("Qwen3MoeConfig", lambda s: {
        **experts(s), "num_experts": how_many(s),
        "moe_intermediate_size": s["ffn"],
        "head_dim": wide_heads(s)}),
    # An expert that every token sees, behind a gate.
    "qwen2_moe": Architecture("Qwen2MoeConfig", lambda s: {
        **experts(s), "num_experts": how_many(s),
        "moe_intermediate_size": s["ffn"],
        "shared_expert_intermediate_size": s["ffn"]}),
    "deepseek_v3": Architecture("DeepseekV3Config", latent),
    # Each head has a sink that takes part in its softmax.
    "gpt_oss": Architecture("GptOssConfig", lambda s: {
        **experts(s), "num_local_experts": how_many(s),
        "sliding_window": window(s),
        "layer_types": alternating(s), "head_dim": s["hidden"] // s["heads"]},
        attention=("eager",)),
}

ARCHITECTURES = {**DECODERS, **ENCODERS, **EXPERTS}


def configuration(name, shape, tied, common):
    """The transformers configuration of an architecture."""
    import transformers

    architecture = ARCHITECTURES[name]
    tied = architecture.tied if tied is None else tied
    arguments = {"pad_token_id": None, **common,
                 **architecture.settings(shape), "tie_word_embeddings": tied}
    return getattr(transformers, architecture.config)(**arguments)
