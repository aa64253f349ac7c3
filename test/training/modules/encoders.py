# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Encoders, encoder-decoders, and models of several inputs or outputs."""

import math

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from registry import (LENGTH, SAMPLES, VOCABULARY, floats, language, module,
                      sentences, tokens, vectors)

WIDTH, HEADS = 32, 4


@module(sentences, "cross-entropy")
class TransformerEncoder(nn.Module):
    """PyTorch's own layers, with padding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, dropout=0.0,
                                           activation="gelu", batch_first=True,
                                           norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(WIDTH),
                                             enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, input_ids, mask):
        x = self.encoder(self.embed(input_ids), src_key_padding_mask=~mask)
        return self.head(x[:, 0])


@module(language, "causal-lm")
class TimeFirst(nn.Module):
    """PyTorch's tutorial: time along axis 0, sines for positions."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 48, dropout=0.0)
        self.encoder = nn.TransformerEncoder(layer, 2,
                                             enable_nested_tensor=False)
        self.decoder = nn.Linear(WIDTH, VOCABULARY)
        place = torch.arange(LENGTH).unsqueeze(1)
        rate = torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000) / WIDTH))
        table = torch.zeros(LENGTH, 1, WIDTH)
        table[:, 0, 0::2] = torch.sin(place * rate)
        table[:, 0, 1::2] = torch.cos(place * rate)
        self.register_buffer("pe", table)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, input_ids):
        x = self.embed(input_ids.t()) * math.sqrt(WIDTH)
        x = x + self.pe[:x.size(0)]
        mask = nn.Transformer.generate_square_subsequent_mask(x.size(0))
        return self.decoder(self.encoder(x, mask, is_causal=True)
                            ).transpose(0, 1)


def translations(random):
    source = tokens(random, (8,), low=1)
    target = (source[:, ::-1] * 5 + 1) % VOCABULARY
    return {"source": source, "target": target, "labels": numpy.roll(
        target, -1, axis=1)}


@module(translations)
class Translator(nn.Module):
    """nn.Transformer; padding is left out of the loss."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH, padding_idx=0)
        self.places = nn.Embedding(8, WIDTH)
        self.transformer = nn.Transformer(WIDTH, HEADS, 1, 1, 48, dropout=0.0,
                                          batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source, target, labels):
        places = self.places.weight
        mask = nn.Transformer.generate_square_subsequent_mask(target.size(1))
        x = self.transformer(self.embed(source) + places,
                             self.embed(target) + places, tgt_mask=mask,
                             tgt_is_causal=True)
        return F.cross_entropy(self.head(x).flatten(0, 1), labels.flatten(),
                               ignore_index=0)


def bucket(distance):
    """T5's: near places one by one, the others by powers."""
    result = (distance > 0) * 4
    distance = distance.abs()
    far = 2 + (torch.log(distance.float().clamp(min=1) / 2)
               / math.log(8 / 2) * 2).long()
    return result + torch.where(distance < 2, distance, far.clamp(max=3))


@module(sentences, "cross-entropy")
class RelativeBias(nn.Module):
    """T5's encoder: learned biases of distances that all layers share."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.bias = nn.Embedding(8, HEADS)
        self.qkv = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH, bias=False)
                                 for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(WIDTH, WIDTH, bias=False)
                                 for _ in range(2))
        self.norms = nn.ModuleList(nn.RMSNorm(WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, input_ids, mask):
        place = torch.arange(input_ids.shape[1], device=input_ids.device)
        bias = self.bias(bucket(place[None] - place[:, None])).permute(2, 0, 1)
        hidden = torch.zeros(mask.shape).masked_fill(~mask, -1e9)
        bias = bias[None] + hidden[:, None, None, :]
        x = self.embed(input_ids)
        for qkv, out, norm in zip(self.qkv, self.out, self.norms):
            q, k, v = (y.unflatten(-1, (HEADS, -1)).transpose(1, 2)
                       for y in qkv(norm(x)).chunk(3, -1))
            y = torch.softmax(q @ k.transpose(2, 3) + bias, -1) @ v
            x = x + out(y.transpose(1, 2).flatten(2))
        x = self.norms[2](x) * mask[..., None]
        return self.head(x.sum(1) / mask.sum(1, keepdim=True))


def two_tasks(random):
    made = sentences(random)
    words = numpy.where(random.random((SAMPLES, LENGTH)) < 0.3,
                        made["input_ids"], -100)
    words[:, 0] = 1  # in each sample at least one word counts
    return {"input_ids": made["input_ids"], "token_types":
            (numpy.arange(LENGTH) >= 6) * numpy.ones_like(words),
            "words": words, "kind": made["labels"]}


@module(two_tasks)
class TwoHeads(nn.Module):
    """BERT's two losses, weighted by learned uncertainties."""

    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(VOCABULARY, WIDTH)
        self.kind = nn.Embedding(2, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 48, dropout=0.0,
                                                batch_first=True)
        self.words = nn.Linear(WIDTH, VOCABULARY)
        self.pool = nn.Linear(WIDTH, WIDTH)
        self.classes = nn.Linear(WIDTH, 5)
        self.log_variance = nn.Parameter(torch.zeros(2))

    def forward(self, input_ids, token_types, words, kind):
        x = self.norm(self.word(input_ids) + self.kind(token_types))
        x = self.layer(x)
        first = F.cross_entropy(self.words(x).view(-1, VOCABULARY),
                                words.view(-1))
        logits = self.classes(torch.tanh(self.pool(x[:, 0])))
        second = F.cross_entropy(logits, kind)
        weight = torch.exp(-self.log_variance)
        loss = (weight * torch.stack((first, second))).sum()
        return loss + self.log_variance.sum(), logits


@module(sentences, "cross-entropy")
class Perceiver(nn.Module):
    """Learned latents read tokens by nn.MultiheadAttention."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 24)
        self.latents = nn.Parameter(torch.randn(5, WIDTH) * 0.02)
        self.read = nn.MultiheadAttention(WIDTH, HEADS, kdim=24, vdim=24,
                                          batch_first=True)
        self.think = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm_1, self.norm_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, input_ids, mask):
        x = self.embed(input_ids)
        z = self.latents.unsqueeze(0).expand(x.size(0), -1, -1)
        z = z + self.read(self.norm_1(z), x, x, key_padding_mask=~mask,
                          need_weights=False)[0]
        y = self.norm_2(z)
        z = z + self.think(y, y, y)[0]
        return self.head(z.mean(1))


def bags(random):
    ids = tokens(random, (7,))
    return {"tokens": ids, "labels": ids.sum(1) % 5}


@module(bags, "cross-entropy")
class Bags(nn.Module):
    """nn.EmbeddingBag, as in PyTorch's text classification tutorial."""

    def __init__(self):
        super().__init__()
        self.mean = nn.EmbeddingBag(VOCABULARY, 16, mode="mean")
        self.sum = nn.EmbeddingBag(VOCABULARY, 16, mode="sum")
        self.head = nn.Sequential(nn.Linear(32, 24), nn.PReLU(),
                                  nn.Linear(24, 5))

    def forward(self, tokens):
        return self.head(torch.cat((self.mean(tokens), self.sum(tokens)), 1))


def tables(random):
    return {"numbers": floats(random, 6),
            "category": random.integers(0, 9, (SAMPLES, 3)),
            "text": tokens(random, (5,)),
            "target": (random.random((SAMPLES, 3)) < 0.4).astype("float32")}


@module(tables)
class Tables(nn.Module):
    """Numbers, categories and text; several answers, each yes or no."""

    def __init__(self):
        super().__init__()
        self.categories = nn.ModuleList(nn.Embedding(9, 8) for _ in range(3))
        self.text = nn.Embedding(VOCABULARY, 12, padding_idx=0)
        self.numbers = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16),
                                     nn.SiLU())
        self.deep = nn.Sequential(nn.Linear(24 + 12 + 16, 32), nn.LeakyReLU(),
                                  nn.Linear(32, 3))
        self.wide = nn.Linear(6, 3)
        self.register_buffer("positive", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, numbers, category, text, target):
        parts = [table(category[:, i])
                 for i, table in enumerate(self.categories)]
        words = self.text(text).max(dim=1).values
        x = torch.cat([*parts, words, self.numbers(numbers)], dim=-1)
        logits = self.deep(x) + self.wide(numbers)
        return F.binary_cross_entropy_with_logits(logits, target,
                                                  pos_weight=self.positive)


@module(vectors, "mse")
class Stacks(nn.Module):
    """torch.hstack and its kin, which the newer exporter maps over a sequence,
    and a mean without what is no number, whose comparison reads detach()."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(10, 16)
        self.outer = nn.Linear(32, 4)

    def forward(self, x):
        y = torch.tanh(self.inner(x))
        y = y - y.nanmean(dim=1, keepdim=True)
        y = torch.vstack([y, 2 * y])[:len(x)]
        return self.outer(torch.hstack([y, y * y]))


def captions(random):
    """Words among which the places of four patches are marked by the last."""
    made = language(random)
    ids = made["input_ids"] % (VOCABULARY - 1)
    first = random.integers(0, LENGTH - 4, (SAMPLES, 1))
    place = numpy.arange(LENGTH) - first
    ids[(place >= 0) & (place < 4)] = VOCABULARY - 1
    return {"input_ids": ids, "pixels": floats(random, 3, 8, 8),
            "labels": made["labels"]}


class PicturesAmongWords(nn.Module):
    """Patches take the places of words that stand for them, as in LLaVA."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, WIDTH)
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 64, dropout=0.0,
                                           batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def put(self, x, chosen, found):
        return x.masked_scatter(chosen[..., None].expand_as(x), found)

    def forward(self, input_ids, pixels):
        found = self.patches(pixels).flatten(2).transpose(1, 2)
        x = self.put(self.words(input_ids), input_ids == VOCABULARY - 1, found)
        return self.head(self.encoder(x))


@module(captions, "cross-entropy")
class Captions(PicturesAmongWords):
    """By masked_scatter."""


@module(captions, "cross-entropy")
class CaptionsAssigned(PicturesAmongWords):
    """By an assignment to what a mask selects."""

    def put(self, x, chosen, found):
        x = x.clone()
        x[chosen] = found.flatten(0, 1)
        return x


def speech(random):
    """Frames of sound, and masks over time, which no sample is without, and
    over whole stretches of it."""
    hidden = random.random((SAMPLES, LENGTH)) < 0.4
    hidden[:, 0] = True
    return {"sound": floats(random, LENGTH, 20), "hidden": hidden,
            "silent": random.random((SAMPLES, LENGTH)) < 0.2}


@module(speech)
class HiddenSpeech(nn.Module):
    """wav2vec 2.0 and BEiT: one row takes the place of what is hidden, and is
    written over by another mask; what was there is to be found."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(20, 16)
        self.hidden_embed = nn.Parameter(torch.rand(16))
        layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0,
                                           batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1)
        self.head = nn.Linear(16, 20)

    def forward(self, sound, hidden, silent):
        x = self.project(sound)
        x[hidden] = self.hidden_embed.to(x.dtype)
        x[silent] = 0
        found = self.head(self.encoder(x))[hidden]
        return 1 - F.cosine_similarity(found, sound[hidden]).mean()
