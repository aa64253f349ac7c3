# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters that are frozen, tied, equal, small or made of others."""

import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from decoders import MLP, WIDTH, Decoder, SelfAttention
from registry import (LENGTH, VOCABULARY, language, module, sentences,
                      vectors)


class LowRank(nn.Module):
    """LoRA around a linear layer: B starts as zero in every layer."""

    def __init__(self, base, rank=4, alpha=8):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T
                               ) * self.scaling


@module(language, "causal-lm")
class Adapters(Decoder):
    """LoRA on a frozen model."""

    def __init__(self):
        super().__init__()
        self.requires_grad_(False)
        for block in self.blocks:
            block.attn.c_attn = LowRank(block.attn.c_attn)
            block.attn.c_proj = LowRank(block.attn.c_proj)


@module(language, "causal-lm")
class AdaptersAndAll(Decoder):
    """The same, and everything else trains as well."""

    def __init__(self):
        super().__init__()
        for block in self.blocks:
            block.attn.c_proj = LowRank(block.attn.c_proj)
        self.requires_grad_(True)


@module(language, "causal-lm")
class FrozenParts(Decoder):
    """Embeddings and the first block do not train; the norms do."""

    def __init__(self):
        super().__init__()
        self.wte.requires_grad_(False)
        self.wpe.requires_grad_(False)
        self.blocks[0].requires_grad_(False)
        self.blocks[0].ln_1.requires_grad_(True)


@module(language, "causal-lm")
class SoftPrompt(Decoder):
    """Three learned places before the text; all else is frozen."""

    def __init__(self):
        super().__init__(positions=False)
        self.requires_grad_(False)
        self.prompt = nn.Parameter(torch.randn(3, WIDTH) * 0.1)

    def forward(self, input_ids):
        prompt = self.prompt.expand(input_ids.shape[0], -1, -1)
        x = torch.cat((prompt, self.wte(input_ids)), 1)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 3:]))


class OneMatrix(SelfAttention):
    """Queries and keys of one matrix, as Reformer has them."""

    def __init__(self):
        super().__init__()
        del self.c_attn
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, WIDTH, bias=False)
        self.v = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k.weight = self.q.weight

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in (self.q(x), self.k(x), self.v(x)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


@module(language, "causal-lm")
class OddlyTied(Decoder):
    """q with k, the MLPs' first matrices, all norms' biases, and the head
    with the embedding, which is scaled."""

    def __init__(self):
        super().__init__(OneMatrix)
        self.blocks[1].mlp.c_fc.weight = self.blocks[0].mlp.c_fc.weight
        for block in self.blocks:
            block.ln_1.bias = block.ln_2.bias = self.norm.bias
        nn.init.normal_(self.wte.weight, std=WIDTH ** -0.5)
        self.head.weight = self.wte.weight

    def forward(self, input_ids):
        x = self.wte(input_ids) * WIDTH ** 0.5 + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@module(language, "causal-lm")
class TiedAndTransposed(nn.Module):
    """An autoencoder's decoder is its encoder's transpose."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.weight = nn.Parameter(torch.randn(WIDTH, 20) * 0.2)
        self.bias_in = nn.Parameter(torch.zeros(20))
        self.bias_out = nn.Parameter(torch.zeros(WIDTH))
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, input_ids):
        x = self.embed(input_ids)
        for _ in range(2):
            h = torch.tanh(x @ self.weight + self.bias_in)
            x = x + F.linear(h, self.weight, self.bias_out) * self.gain
        return F.linear(x, self.embed.weight)


class ScalarBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.mlp = SelfAttention(), MLP()
        self.norm = nn.LayerNorm(WIDTH)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.shift = nn.Parameter(torch.zeros(()))
        self.mix = nn.Parameter(torch.tensor([1.0, 1.0]))

    def forward(self, x):
        y = self.norm(x) * self.scale + self.shift
        a, b = self.mix.softmax(0)
        return x + a * self.attn(y) + b * self.mlp(y)


@module(language, "causal-lm")
class ScalarParameters(Decoder):
    """Parameters of one element, of rank 0 and 1; a temperature."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(ScalarBlock() for _ in range(2))
        self.temperature = nn.Parameter(torch.tensor(1.5))

    def forward(self, input_ids):
        return super().forward(input_ids) / self.temperature


@module(vectors, "mse")
class WeightNorm(nn.Module):
    """Weights as a length and a direction."""

    def __init__(self):
        super().__init__()
        self.first = parametrizations.weight_norm(nn.Linear(10, 24))
        self.second = parametrizations.weight_norm(nn.Linear(24, 4), dim=1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


@module(vectors, "mse")
class FourierFeatures(nn.Module):
    """Fixed random waves in a buffer, learned ones beside them (SIREN)."""

    def __init__(self):
        super().__init__()
        self.register_buffer("waves", torch.randn(10, 12))
        self.siren = nn.Linear(10, 8)
        self.head = nn.Sequential(nn.Linear(32, 24), nn.GELU("tanh"),
                                  nn.Linear(24, 4))

    def forward(self, x):
        angle = 2 * math.pi * x @ self.waves
        return self.head(torch.cat((angle.sin(), angle.cos(),
                                    torch.sin(3 * self.siren(x))), -1))


class SpatialGate(nn.Module):
    """gMLP: places mixed by a matrix near zero, a bias of ones."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(24)
        self.spatial = nn.Linear(LENGTH, LENGTH)
        nn.init.constant_(self.spatial.bias, 1.0)
        nn.init.uniform_(self.spatial.weight, -1e-3, 1e-3)

    def forward(self, x):
        u, v = x.chunk(2, dim=-1)
        v = self.spatial(self.norm(v).transpose(1, 2)).transpose(1, 2)
        return u * v


@module(sentences, "cross-entropy")
class GatedMLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 48), nn.GELU(),
            SpatialGate(), nn.Linear(24, WIDTH)) for _ in range(2))
        self.head = nn.Linear(WIDTH, 5)

    def forward(self, input_ids, mask):
        x = self.embed(input_ids) * mask.unsqueeze(-1)
        for block in self.blocks:
            x = x + block(x)
        x = x.masked_fill(~mask.unsqueeze(-1), float("-inf"))
        return self.head(x.amax(dim=1))


@module(sentences, "cross-entropy")
class Modulation(nn.Module):
    """FiLM: a layer's gain and shift are made by another, from zero."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.films = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH)
                                   for _ in range(2))
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, 5)
        for film in self.films:
            nn.init.zeros_(film.weight)
            nn.init.zeros_(film.bias)

    def forward(self, input_ids, mask):
        x = self.embed(input_ids)
        c = F.silu((x * mask[..., None]).mean(1))
        for film, layer in zip(self.films, self.layers):
            shift, scale, gate = film(c)[:, None].chunk(3, dim=-1)
            y = torch.relu(layer(self.norm(x) * (1 + scale) + shift))
            x = x + gate * y
        return self.head(x.mean(1))
