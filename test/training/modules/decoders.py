# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Language models that read from left to right, as people write them."""

import math

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from registry import LENGTH, SAMPLES, VOCABULARY, language, module

WIDTH, HEADS, LAYERS = 32, 4, 2


def heads_of(x, heads):
    """[batch, time, width] as [batch, heads, time, width of a head]."""
    b, t, c = x.shape
    return x.view(b, t, heads, c // heads).transpose(1, 2)


def merged(x):
    b, h, t, c = x.shape
    return x.transpose(1, 2).contiguous().view(b, t, h * c)


class SelfAttention(nn.Module):
    """Causal attention with one projection of queries, keys and values."""

    def __init__(self, width=WIDTH, heads=HEADS, bias=True):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, bias=bias)
        self.c_proj = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        q, k, v = (heads_of(y, self.heads)
                   for y in self.c_attn(x).split(x.shape[-1], dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(merged(y))


class MLP(nn.Module):
    def __init__(self, width=WIDTH, bias=True):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=bias)
        self.c_proj = nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, attention, mlp, norm):
        super().__init__()
        self.ln_1, self.attn = norm(), attention()
        self.ln_2, self.mlp = norm(), mlp()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Decoder(nn.Module):
    """Embedding, blocks, norm and head: what most modules below vary."""

    def __init__(self, attention=SelfAttention, mlp=MLP, norm=None,
                 positions=True, layers=LAYERS):
        super().__init__()
        norm = norm or (lambda: nn.LayerNorm(WIDTH))
        self.wte = nn.Embedding(VOCABULARY, WIDTH)
        self.wpe = nn.Embedding(LENGTH, WIDTH) if positions else None
        self.blocks = nn.ModuleList(Block(attention, mlp, norm)
                                    for _ in range(layers))
        self.norm = norm()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def hidden(self, input_ids):
        x = self.wte(input_ids)
        if self.wpe is not None:
            x = x + self.wpe(torch.arange(input_ids.shape[1],
                                          device=input_ids.device))
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def forward(self, input_ids):
        return self.head(self.hidden(input_ids))


@module(language)
class NanoGPT(Decoder):
    """Karpathy's: tied weights, scaled projections, the loss inside."""

    def __init__(self):
        super().__init__()
        self.apply(self.initialise)
        for name, parameter in self.named_parameters():
            if name.endswith("c_proj.weight"):
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * LAYERS))
        self.wte.weight = self.head.weight

    def initialise(self, part):
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.normal_(part.weight, std=0.02)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)

    def forward(self, input_ids, labels):
        logits = super().forward(input_ids)
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)),
                               labels.view(-1), ignore_index=-1)
        return logits, loss


class MaskedAttention(SelfAttention):
    """The older nanoGPT: a mask in a buffer, masked_fill and softmax."""

    def __init__(self):
        super().__init__(bias=False)
        self.register_buffer("bias", torch.tril(torch.ones(
            LENGTH, LENGTH)).view(1, 1, LENGTH, LENGTH))

    def forward(self, x):
        t = x.shape[1]
        q, k, v = (heads_of(y, self.heads)
                   for y in self.c_attn(x).split(x.shape[-1], dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(self.bias[:, :, :t, :t] == 0,
                                    float("-inf"))
        return self.c_proj(merged(F.softmax(scores, dim=-1) @ v))


@module(language, "causal-lm")
class BufferMask(Decoder):
    def __init__(self):
        super().__init__(MaskedAttention, lambda: MLP(bias=False))


class EagerAttention(SelfAttention):
    """As transformers computes it: a mask of the least number is added."""

    def forward(self, x, mask):
        q, k, v = (heads_of(y, self.heads)
                   for y in self.c_attn(x).split(x.shape[-1], dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(k.size(-1)) + mask
        return self.c_proj(merged(F.softmax(scores, dim=-1) @ v))


def padded_on_the_left(random):
    """Every position has a label, those of the padding too."""
    length = random.integers(2, LENGTH + 1, (SAMPLES, 1))
    mask = numpy.arange(LENGTH) >= LENGTH - length
    return dict(language(random), attention_mask=mask.astype(numpy.int64))


@module(padded_on_the_left, "causal-lm", compile=("--attention-mask=input",))
class PaddedOnTheLeft(Decoder):
    """A position before the text sees no key: the softmax of its scores, all
    of which are the least number, weighs all keys alike."""

    def __init__(self):
        super().__init__(EagerAttention)

    def forward(self, input_ids, attention_mask):
        t = input_ids.shape[1]
        causal = torch.ones(t, t, dtype=torch.bool).tril()
        seen = causal & attention_mask[:, None, None, :].bool()
        mask = torch.where(seen, 0.0, torch.finfo(torch.float32).min)
        x = self.wte(input_ids) + self.wpe(torch.arange(t))
        for block in self.blocks:
            x = x + block.attn(block.ln_1(x), mask)
            x = x + block.mlp(block.ln_2(x))
        return self.head(self.norm(x))


def rotate(x, cos, sin):
    """Rotary embedding of pairs of neighbours."""
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


class GroupedAttention(nn.Module):
    """Fewer heads of keys and values, rotary positions in buffers."""

    def __init__(self, groups=2):
        super().__init__()
        size = WIDTH // HEADS
        self.groups = groups
        self.q_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k_proj = nn.Linear(WIDTH, groups * size, bias=False)
        self.v_proj = nn.Linear(WIDTH, groups * size, bias=False)
        self.o_proj = nn.Linear(WIDTH, WIDTH, bias=False)
        angle = torch.outer(torch.arange(LENGTH).float(),
                            10000 ** (-torch.arange(0, size, 2) / size))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def forward(self, x):
        t = x.shape[1]
        q = rotate(heads_of(self.q_proj(x), HEADS), self.cos[:t], self.sin[:t])
        k = rotate(heads_of(self.k_proj(x), self.groups), self.cos[:t],
                   self.sin[:t])
        v = heads_of(self.v_proj(x), self.groups)
        k, v = (y.repeat_interleave(HEADS // self.groups, dim=1)
                for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(merged(y))


class SwiGLU(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Linear(WIDTH, 48, bias=False)
        self.w2 = nn.Linear(48, WIDTH, bias=False)
        self.w3 = nn.Linear(WIDTH, 48, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


@module(language, "causal-lm")
class GroupedQueries(Decoder):
    """Llama as in its paper's repository."""

    def __init__(self):
        super().__init__(GroupedAttention, SwiGLU,
                         lambda: nn.RMSNorm(WIDTH, eps=1e-6), positions=False)


class SinkAttention(GroupedAttention):
    """A sink of each head beside its keys, as in gpt-oss; pairs are rotated as
    complex numbers are, and values are scaled (MiMo)."""

    def __init__(self):
        super().__init__()
        self.sinks = nn.Parameter(torch.randn(HEADS))

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (heads_of(p(x), n) for p, n in (
            (self.q_proj, HEADS), (self.k_proj, self.groups),
            (self.v_proj, self.groups)))
        q, k = self.turn(q, t), self.turn(k, t)
        k, v = (y.repeat_interleave(HEADS // self.groups, dim=1)
                for y in (k, v * 0.7))
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        future = torch.ones(t, t, dtype=torch.bool).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(b, -1, t, 1)
        weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
        return self.o_proj(merged(weights @ v))

    def turn(self, x, t):
        cos, sin = self.cos[:t], self.sin[:t]
        a, b = x.reshape(*x.shape[:-1], -1, 2).unbind(-1)
        return torch.stack([a * cos - b * sin, a * sin + b * cos],
                           -1).flatten(-2)


@module(language, "causal-lm")
class Sinks(Decoder):
    def __init__(self):
        super().__init__(SinkAttention, SwiGLU, positions=False)


class OffsetNorm(nn.Module):
    """Gemma's: one is added to a weight that starts as zero."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x):
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return x * scale * (1 + self.weight)


@module(language, "causal-lm")
class OffsetNorms(Decoder):
    def __init__(self):
        super().__init__(mlp=SwiGLU, norm=OffsetNorm)


class LengthNorm(nn.Module):
    """x / |x| * g, as lucidrains writes it; g is one number."""

    def __init__(self):
        super().__init__()
        self.g = nn.Parameter(torch.ones(1))

    def forward(self, x):
        return F.normalize(x, dim=-1) * math.sqrt(WIDTH) * self.g


@module(language, "causal-lm")
class LengthNorms(Decoder):
    def __init__(self):
        super().__init__(norm=LengthNorm)


class PlainNorm(nn.Module):
    def forward(self, x):
        return F.layer_norm(x, (WIDTH,))


@module(language, "causal-lm")
class WeightFreeNorms(Decoder):
    """OLMo's norms have no weights; the last one has."""

    def __init__(self):
        super().__init__(norm=PlainNorm)
        self.norm = nn.LayerNorm(WIDTH)


class AlibiAttention(SelfAttention):
    def __init__(self):
        super().__init__()
        slopes = torch.tensor([2 ** (-8 * (i + 1) / HEADS)
                               for i in range(HEADS)])
        place = torch.arange(LENGTH)
        bias = slopes[:, None, None] * (place[None, :] - place[:, None])
        future = torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1)
        self.register_buffer("alibi", bias + future)

    def forward(self, x):
        q, k, v = (heads_of(y, self.heads) for y in self.c_attn(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5 + self.alibi
        return self.c_proj(merged(scores.softmax(-1) @ v))


@module(language, "causal-lm")
class Alibi(Decoder):
    def __init__(self):
        super().__init__(AlibiAttention, positions=False)


class WindowAttention(SelfAttention):
    """Each token sees the three before it."""

    def forward(self, x):
        place = torch.arange(x.shape[1], device=x.device)
        distance = place[:, None] - place[None, :]
        seen = (distance >= 0) & (distance < 4)
        q, k, v = (heads_of(y, self.heads) for y in self.c_attn(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.c_proj(merged(y))


@module(language, "causal-lm")
class SlidingWindow(Decoder):
    def __init__(self):
        super().__init__(WindowAttention)


class CosineAttention(SelfAttention):
    """Queries and keys of length one, a learned temperature a head."""

    def __init__(self):
        super().__init__()
        self.logit_scale = nn.Parameter(torch.full((HEADS, 1, 1),
                                                   math.log(10.0)))

    def forward(self, x):
        t = x.shape[1]
        q, k, v = (heads_of(y, self.heads) for y in self.c_attn(x).chunk(3, -1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        scores = q @ k.transpose(-2, -1)
        scores = scores * self.logit_scale.clamp(max=math.log(100.0)).exp()
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
        return self.c_proj(merged(scores.softmax(-1) @ v))


@module(language, "causal-lm")
class CosineScores(Decoder):
    def __init__(self):
        super().__init__(CosineAttention)


class Experts(nn.Module):
    """Every expert sees every token; a router mixes the best two."""

    def __init__(self, experts=4, hidden=24):
        super().__init__()
        self.router = nn.Linear(WIDTH, experts, bias=False)
        self.w_in = nn.Parameter(torch.randn(experts, WIDTH, hidden) * 0.1)
        self.w_out = nn.Parameter(torch.randn(experts, hidden, WIDTH) * 0.1)
        self.experts = experts

    def forward(self, x):
        weight, chosen = self.router(x).softmax(-1).topk(2, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)
        gate = (F.one_hot(chosen, self.experts) * weight[..., None]).sum(-2)
        hidden = F.gelu(torch.einsum("btd,edh->bteh", x, self.w_in))
        y = torch.einsum("bteh,ehd->bted", hidden, self.w_out)
        return (y * gate[..., None]).sum(2)


@module(language, "causal-lm")
class MixtureOfExperts(Decoder):
    def __init__(self):
        super().__init__(mlp=Experts)


class LoopedExperts(nn.Module):
    """A list of experts, each run on all tokens and masked."""

    def __init__(self, experts=3):
        super().__init__()
        self.gate = nn.Linear(WIDTH, experts)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 24), nn.ReLU(),
                          nn.Linear(24, WIDTH)) for _ in range(experts))

    def forward(self, x):
        probabilities = F.softmax(self.gate(x), dim=-1)
        best = probabilities.argmax(-1)
        y = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            share = probabilities[..., i:i + 1] * (best == i)[..., None]
            y = y + share * expert(x)
        return y


@module(language)
class SwitchExperts(Decoder):
    """With a loss that balances the experts."""

    def __init__(self):
        super().__init__(mlp=LoopedExperts)

    def forward(self, input_ids, labels):
        logits = super().forward(input_ids)
        share = F.softmax(self.blocks[0].mlp.gate(self.wte(input_ids)), -1)
        balance = (share.mean((0, 1)) ** 2).sum() * 3
        loss = F.cross_entropy(logits.transpose(1, 2), labels)
        return loss + 0.01 * balance


@module(language, "causal-lm")
class SharedLayers(nn.Module):
    """ALBERT: one block three times, a small embedding projected up."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 16)
        self.up = nn.Linear(16, WIDTH)
        self.positions = nn.Parameter(torch.zeros(1, LENGTH, WIDTH))
        self.block = Block(SelfAttention, MLP, lambda: nn.LayerNorm(WIDTH))
        self.down = nn.Linear(WIDTH, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, input_ids):
        x = self.up(self.embed(input_ids)) + self.positions
        for _ in range(3):
            x = self.block(x)
        return self.norm(self.down(x)) @ self.embed.weight.T


class ZeroProjections(Block):
    """ReZero's gates and projections that start as zero."""

    def __init__(self, attention, mlp, norm):
        super().__init__(attention, mlp, norm)
        self.alpha = nn.Parameter(torch.zeros(1))
        for part in (self.attn, self.mlp):
            nn.init.zeros_(part.c_proj.weight)
            nn.init.zeros_(part.c_proj.bias)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.alpha * self.mlp(self.ln_2(x)) + self.mlp(x)


@module(language, "causal-lm")
class ZeroInitialised(Decoder):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(
            ZeroProjections(SelfAttention, MLP, lambda: nn.LayerNorm(WIDTH))
            for _ in range(LAYERS))


class ParallelBlock(nn.Module):
    """PaLM: attention and MLP read one norm and one projection."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH, bias=False)
        self.fused = nn.Linear(WIDTH, 3 * WIDTH + 2 * 48, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.down = nn.Linear(48, WIDTH, bias=False)

    def forward(self, x):
        q, k, v, inner, gate = self.fused(self.norm(x)).split(
            [WIDTH, WIDTH, WIDTH, 48, 48], dim=-1)
        y = F.scaled_dot_product_attention(
            *(heads_of(y, HEADS) for y in (q, k, v)), is_causal=True)
        return x + self.out(merged(y)) + self.down(F.silu(gate) * inner)


@module(language, "causal-lm")
class ParallelBlocks(Decoder):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(ParallelBlock() for _ in range(LAYERS))


class Scan(nn.Module):
    """Mamba's selective scan, a loop over time, behind a causal convolution."""

    def __init__(self, inner=24, state=4):
        super().__init__()
        self.in_proj = nn.Linear(WIDTH, 2 * inner, bias=False)
        self.conv1d = nn.Conv1d(inner, inner, 3, groups=inner, padding=2)
        self.x_proj = nn.Linear(inner, 2 * state + 2, bias=False)
        self.dt_proj = nn.Linear(2, inner)
        self.A_log = nn.Parameter(torch.arange(1.0, state + 1).log().repeat(
            inner, 1))
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, WIDTH, bias=False)
        self.state = state

    def forward(self, x):
        t = x.shape[1]
        x, z = self.in_proj(x).chunk(2, dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[..., :t].transpose(1, 2))
        dt, b, c = self.x_proj(x).split([2, self.state, self.state], -1)
        dt = F.softplus(self.dt_proj(dt))
        decay = torch.exp(dt[..., None] * -torch.exp(self.A_log))
        update = (dt * x)[..., None] * b[:, :, None, :]
        h = torch.zeros_like(update[:, 0])
        ys = []
        for i in range(t):
            h = decay[:, i] * h + update[:, i]
            ys.append((h * c[:, i, None, :]).sum(-1))
        return self.out_proj((torch.stack(ys, 1) + x * self.D) * F.silu(z))


@module(language, "causal-lm")
class SelectiveScan(Decoder):
    def __init__(self):
        super().__init__(Scan, SwiGLU, lambda: nn.RMSNorm(WIDTH),
                         positions=False)


class LinearAttention(SelfAttention):
    """Katharopoulos: elu + 1 and running sums in place of a softmax."""

    def forward(self, x):
        q, k, v = (heads_of(y, self.heads) for y in self.c_attn(x).chunk(3, -1))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bhtd,bhte->bhtde", k, v).cumsum(2)
        weight = torch.einsum("bhtd,bhtd->bht", q, k.cumsum(2))
        y = torch.einsum("bhtd,bhtde->bhte", q, kv) / weight[..., None]
        return self.c_proj(merged(y))


@module(language, "causal-lm")
class LinearAttentions(Decoder):
    def __init__(self):
        super().__init__(LinearAttention)


@module(language, "causal-lm")
class RecurrentModel(nn.Module):
    """A two-layer LSTM and a GRU, as in PyTorch's word_language_model."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 20)
        self.lstm = nn.LSTM(20, 24, num_layers=2, batch_first=True)
        self.gru = nn.GRU(24, 16, batch_first=True)
        self.head = nn.Linear(16, VOCABULARY)

    def forward(self, input_ids):
        x, _ = self.lstm(self.embed(input_ids))
        return self.head(self.gru(x)[0])
