# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mixtures whose experts are modules, each run on the tokens that chose it."""

import torch
from torch import nn
from torch.nn import functional as F

from decoders import WIDTH, Decoder
from registry import language, module, tokens


class Expert(nn.Module):
    def __init__(self, hidden=24, bias=False):
        super().__init__()
        self.w1 = nn.Linear(WIDTH, hidden, bias=bias)
        self.w2 = nn.Linear(hidden, WIDTH, bias=bias)
        self.w3 = nn.Linear(WIDTH, hidden, bias=bias)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Chosen(nn.Module):
    """torch.where and y[token] += …, as Mistral's and DeepSeek's own code."""

    def __init__(self, experts=4):
        super().__init__()
        self.gate = nn.Linear(WIDTH, experts, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(experts))

    def forward(self, x):
        shape = x.shape
        x = x.view(-1, shape[-1])
        weight, chosen = self.gate(x).topk(2)
        weight = weight.softmax(1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            token, slot = torch.where(chosen == i)
            y[token] += weight[token, slot, None] * expert(x[token])
        return y.view(shape)


class Added(nn.Module):
    """A mask of ones and index_add_, with a shared expert and biases."""

    def __init__(self, experts=3):
        super().__init__()
        self.gate = nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(Expert(bias=True) for _ in range(experts))
        self.shared = Expert()

    def forward(self, x):
        shape = x.shape
        x = x.view(-1, shape[-1])
        weight, chosen = self.gate(x).softmax(-1).topk(2)
        mask = F.one_hot(chosen, len(self.experts)).permute(2, 1, 0)
        y = self.shared(x)
        for i, expert in enumerate(self.experts):
            slot, token = torch.where(mask[i])
            rows = x[None, token].reshape(-1, shape[-1])
            y.index_add_(0, token, expert(rows) * weight[token, slot, None])
        return y.view(shape)


class Masked(nn.Module):
    """y[mask] = expert(x[mask]), the best alone, of tokens as they lie."""

    def __init__(self, experts=3):
        super().__init__()
        self.gate = nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 24), nn.ReLU(),
                          nn.Linear(24, WIDTH)) for _ in range(experts))

    def forward(self, x):
        share, best = self.gate(x).softmax(-1).max(-1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mask = best == i
            y[mask] = expert(x[mask]) * share[mask][:, None]
        return y


@module(language, "causal-lm")
class RoutedExperts(Decoder):
    def __init__(self):
        super().__init__(mlp=Chosen)


@module(language, "causal-lm")
class AddedExperts(Decoder):
    def __init__(self):
        super().__init__(mlp=Added)


@module(language, "causal-lm")
class MaskedExperts(Decoder):
    def __init__(self):
        super().__init__(mlp=Masked)


def hidden_words(random):
    ids = tokens(random)
    seen = random.random(ids.shape) < 0.7
    seen[:, 0] = False
    return {"input_ids": ids * seen, "labels": ids - (ids + 100) * seen}


@module(hidden_words)
class HiddenWords(Decoder):
    """A loss over the positions that have a label, picked out by a mask."""

    def forward(self, input_ids, labels):
        logits = super().forward(input_ids)
        active = labels.view(-1) != -100
        logits, labels = logits.view(-1, logits.shape[-1]), labels.view(-1)
        loss = F.cross_entropy(logits[active], labels[active])
        return loss + 1e-4 * (logits[active] ** 2).mean()
