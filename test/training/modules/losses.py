# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Losses that people write into their modules, and one that is ours."""

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from decoders import Decoder
from registry import (LENGTH, SAMPLES, VOCABULARY, floats, module, tokens,
                      vectors)


def pairs(random):
    return {"pixels": floats(random, 20), "tokens": tokens(random, (6,))}


@module(pairs)
class TwoTowers(nn.Module):
    """CLIP: each picture shall find its text and the other way round."""

    def __init__(self):
        super().__init__()
        self.picture = nn.Sequential(nn.Linear(20, 32), nn.GELU(),
                                     nn.Linear(32, 16, bias=False))
        self.embed = nn.Embedding(VOCABULARY, 24)
        self.text = nn.Linear(24, 16, bias=False)
        self.logit_scale = nn.Parameter(torch.ones([]) * 2.6592)

    def forward(self, pixels, tokens):
        p = self.picture(pixels)
        t = self.text(self.embed(tokens).mean(1))
        p = p / p.norm(dim=1, keepdim=True)
        t = t / t.norm(dim=1, keepdim=True)
        scores = self.logit_scale.exp() * p @ t.t()
        labels = torch.arange(scores.shape[0], device=scores.device)
        loss = (F.cross_entropy(scores, labels)
                + F.cross_entropy(scores.t(), labels)) / 2
        return loss


def preferences(random):
    ids = {key: tokens(random, (LENGTH,), low=1)
           for key in ("chosen", "rejected")}
    ids["rejected"][:, 8:] = 0  # padding
    return ids | {key + "_reference": -30 + floats(random) for key in ids}


@module(preferences)
class Preferences(Decoder):
    """DPO; what the reference model says is data."""

    def log_probability(self, ids):
        scores = F.log_softmax(self.head(self.hidden(ids))[:, :-1], dim=-1)
        chosen = ids[:, 1:]
        picked = scores.gather(2, chosen.unsqueeze(2)).squeeze(2)
        return (picked * (chosen != 0)).sum(-1)

    def forward(self, chosen, rejected, chosen_reference, rejected_reference):
        margin = (self.log_probability(chosen) - chosen_reference
                  - self.log_probability(rejected) + rejected_reference)
        return -F.logsigmoid(0.1 * margin).mean()


@module(lambda random: {key: value for key, value in preferences(
    random).items() if not key.endswith("reference")})
class RewardModel(Decoder):
    """Bradley-Terry on one number a text, read at its last token."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(self.norm.normalized_shape[0], 1)

    def reward(self, ids):
        last = (ids != 0).sum(1) - 1
        rewards = self.head(self.hidden(ids)).squeeze(-1)
        return rewards[torch.arange(ids.shape[0], device=ids.device), last]

    def forward(self, chosen, rejected):
        return -F.logsigmoid(self.reward(chosen)
                             - self.reward(rejected)).mean()


def couples(random):
    return {"left": tokens(random, (6,)), "right": tokens(random, (6,)),
            "same": (random.random(SAMPLES) < 0.5).astype("float32")}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 24)
        self.conv = nn.Conv1d(24, 24, 3, padding="same")
        self.out = nn.Linear(24, 12)

    def forward(self, tokens):
        x = F.relu(self.conv(self.embed(tokens).transpose(1, 2)))
        return self.out(F.adaptive_max_pool1d(x, 1).squeeze(-1))


@module(couples)
class Siamese(nn.Module):
    """One encoder of both; the contrastive loss with a margin."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, left, right, same):
        distance = F.pairwise_distance(self.encoder(left), self.encoder(right))
        return (same * distance.pow(2) + (1 - same)
                * F.relu(1.0 - distance).pow(2)).mean()


@module(lambda random: {key: tokens(random, (6,))
                        for key in ("anchor", "positive", "negative")})
class Triplets(nn.Module):
    """PyTorch's triplet loss, and a cosine beside it."""

    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, anchor, positive, negative):
        a, p, n = map(self.encoder, (anchor, positive, negative))
        loss = F.triplet_margin_loss(a, p, n, margin=1.0)
        return loss + 0.1 * (1 - F.cosine_similarity(a, p)).mean()


@module(lambda random: {"x": floats(random, 14), "noise": floats(random, 4)})
class Autoencoder(nn.Module):
    """A variational one; the noise is data."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(14, 24), nn.Tanh())
        self.mean, self.log_variance = nn.Linear(24, 4), nn.Linear(24, 4)
        self.decoder = nn.Sequential(nn.Linear(4, 24), nn.ELU(),
                                     nn.Linear(24, 14))

    def forward(self, x, noise):
        hidden = self.encoder(x)
        mean, variance = self.mean(hidden), self.log_variance(hidden)
        z = mean + torch.exp(0.5 * variance) * noise
        error = F.mse_loss(self.decoder(z), x, reduction="sum") / x.shape[0]
        divergence = -0.5 * torch.sum(
            1 + variance - mean.pow(2) - variance.exp(), dim=1).mean()
        return error + divergence


@module(lambda random: {"x": floats(random, 10)})
class Quantised(nn.Module):
    """VQ-VAE: gradients go straight through what was rounded to a code."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(10, 6), nn.Linear(6, 10)
        self.codes = nn.Parameter(torch.randn(12, 6))

    def forward(self, x):
        z = self.encoder(x)
        distance = (z[:, None] - self.codes).pow(2).sum(-1)
        code = self.codes[distance.argmin(-1)]
        made = self.decoder(z + (code - z).detach())
        return (F.mse_loss(made, x) + F.mse_loss(code, z.detach())
                + 0.25 * F.mse_loss(z, code.detach()))


@module(lambda random: {"x": floats(random, 10)})
class FakeQuantised(nn.Module):
    """Training that is aware of 8 bits: gradients go straight through the
    roundings of a weight, by channels, and of activations, some of which are
    out of range."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(10, 24), nn.Linear(24, 10)
        self.register_buffer("scales", torch.linspace(0.002, 0.004, 24))
        self.register_buffer("zeros", torch.zeros(24, dtype=torch.int32))

    def forward(self, x):
        weight = torch.fake_quantize_per_channel_affine(
            self.encoder.weight, self.scales, self.zeros, 0, -128, 127)
        z = F.linear(x, weight, self.encoder.bias)
        z = torch.fake_quantize_per_tensor_affine(z, 0.01, 100, 0, 255)
        return F.mse_loss(self.decoder(z), x)


@module(lambda random: {"x": floats(random, 7, 10)}, training=True)
class Stochastic(nn.Module):
    """Denoising of what is partly hidden, with stochastic depth as transformers
    and timm write it: all that a module in training may draw."""

    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(10, 24), nn.Linear(24, 10)
        self.block, self.other = nn.Linear(24, 24), nn.Linear(24, 24)
        self.hidden = nn.Parameter(torch.zeros(10))

    def forward(self, x):
        hidden = torch.rand(x.shape[:2])[..., None] < 0.3
        z = torch.where(hidden, self.hidden, x + 0.2 * torch.randn_like(x))
        z = self.encoder(z)
        kept = 0.8 + torch.rand((x.shape[0], 1, 1), dtype=x.dtype)
        z = z + self.block(z).div(0.8) * kept.floor()
        mask = z.new_empty((x.shape[0], 1, 1)).bernoulli_(0.75)
        z = z + F.dropout(F.gelu(self.other(z)), 0.1, self.training) * (
            mask.div_(0.75))
        z = z * torch.bernoulli(torch.sigmoid(z))
        return F.mse_loss(self.decoder(z) * (0.9 + 0.2 * torch.rand_like(x)), x)


def classes(random):
    return {"x": floats(random, 10), "target": random.integers(0, 6, SAMPLES)}


def timed(random):
    return {"x": floats(random, 10), "time": random.random(SAMPLES) * 40,
            "labels": random.integers(0, 5, SAMPLES)}


@module(timed)
class Doubles(nn.Module):
    """Angles, a norm and a loss in float64, and a clock that comes as such."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(18, 16), nn.Linear(16, 5)

    def forward(self, x, time, labels):
        rates = 0.3 ** torch.arange(4, dtype=torch.float64)
        angles = time[:, None] * rates
        x = torch.cat([x, angles.cos().float(), angles.sin().float()], -1)
        y = torch.tanh(self.inner(x)).double()
        y = y / torch.linalg.vector_norm(y, dim=-1, keepdim=True)
        z = torch.nan_to_num(self.outer(y.float())).double()
        return (torch.logsumexp(z, -1)
                - z.gather(-1, labels[:, None])[:, 0]).mean()


@module(classes)
class FocalLoss(nn.Module):
    """Focal loss beside smoothed and weighted cross-entropies."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 24), nn.Mish(),
                                 nn.Linear(24, 6))
        self.register_buffer("weight", torch.linspace(0.5, 1.5, 6))

    def forward(self, x, target):
        logits = self.net(x)
        log_p = F.log_softmax(logits, dim=-1)
        log_p = log_p.gather(1, target[:, None]).squeeze(1)
        focal = (-(1 - log_p.exp()) ** 2 * log_p).mean()
        smooth = F.cross_entropy(logits, target, label_smoothing=0.1)
        weighted = F.cross_entropy(logits, target, weight=self.weight)
        return focal + smooth + 0.5 * weighted


@module(classes)
class Distillation(nn.Module):
    """A frozen teacher in the graph, its scores softened."""

    def __init__(self):
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(10, 32), nn.ReLU(),
                                     nn.Linear(32, 6)).requires_grad_(False)
        self.student = nn.Sequential(nn.Linear(10, 12), nn.ReLU(),
                                     nn.Linear(12, 6))

    def forward(self, x, target):
        with torch.no_grad():
            teacher = self.teacher(x)
        student = self.student(x)
        soft = F.kl_div(F.log_softmax(student / 2, -1),
                        F.softmax(teacher / 2, -1), reduction="batchmean")
        return 0.5 * F.cross_entropy(student, target) + 0.5 * 4 * soft


@module(lambda random: vectors(random, results=1), "mse")
class OneOutput(nn.Module):
    """Regression with one output: [batch, 1]."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(),
                                 nn.Linear(24, 1))

    def forward(self, x):
        return self.net(x)


def one_number(random):
    made = vectors(random, results=1)
    return {"x": made["x"], "y": made["labels"][:, 0]}


@module(one_number)
class OneNumber(nn.Module):
    """The same with a robust loss inside: [batch]."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 24), nn.SELU(),
                                 nn.Linear(24, 24), nn.Softplus(),
                                 nn.Linear(24, 1))

    def forward(self, x, y):
        guess = self.net(x).squeeze(-1)
        return (F.smooth_l1_loss(guess, y) + 0.1 * F.l1_loss(guess, y)
                + 0.1 * F.huber_loss(guess, y, delta=0.5))


def partly_known(random):
    y = floats(random, 5, 4)
    unknown = random.random(y.shape) < 0.4
    unknown[:, 0] = False
    y[unknown] = numpy.nan
    return {"x": floats(random, 5, 10), "y": y}


@module(partly_known)
class KnownTargets(nn.Module):
    """Targets that are NaN where nothing is known, which a mask leaves out."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 24), nn.Tanh(),
                                 nn.Linear(24, 4))

    def forward(self, x, y):
        guess = self.net(x)
        known = ~torch.isnan(y)
        whole = known.all(-1)
        error = guess[whole] - y[(~torch.isnan(y)).all(-1)]
        return (F.mse_loss(guess[known], y[known])
                + error.norm(dim=-1).sum() / (error.shape[0] + 1)
                + 0.1 * guess[known].std())


def boxes(random):
    """Positions, sizes and classes of what is there; zeros, -100 elsewhere."""
    there = random.random((SAMPLES, 5)) < 0.5
    there[:, 0] = True
    size = random.random((SAMPLES, 5, 2), dtype=numpy.float32) + 0.3
    return {"x": floats(random, 5, 10),
            "place": floats(random, 5, 2) * there[..., None],
            "size": size * there[..., None],
            "kind": numpy.where(there, random.integers(0, 4, there.shape),
                                -100)}


@module(boxes)
class Boxes(nn.Module):
    """Logarithms, roots, quotients, powers and distances of boxes that are
    there, and the focal loss of their classes: all that is infinite or out of
    range where none is."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 24), nn.GELU(),
                                 nn.Linear(24, 8))
        self.scale = nn.Embedding(4, 2)

    def forward(self, x, place, size, kind):
        there = kind != -100
        guess = self.net(x) * there[..., None]
        guess, size, kind = guess[there], size[there], kind[there]
        width = guess[:, 2:4].exp() * F.softplus(self.scale(kind))
        distance = guess[:, :2] - place[there]
        loss = (torch.log(width / size) ** 2).mean()
        loss += (width.sqrt() - size.sqrt()).abs().mean()
        loss += (distance.norm(dim=-1) + (distance ** 2).mean(-1) ** 0.75
                 * torch.rsqrt(width.prod(-1))).mean()
        log_p = F.log_softmax(guess[:, 4:], dim=-1)
        log_p = log_p.gather(1, kind[:, None]).squeeze(1)
        focal = -(1 - log_p.exp()) ** 2 * log_p
        return loss + focal.sum() / there.sum()


def paths(random):
    x = numpy.cumsum(floats(random, 10, 2), axis=1) * numpy.float32(0.3)
    return {"past": x[:, :8], "future": x[:, 8:]}


@module(paths)
class Quantiles(nn.Module):
    """A forecast: GRU cells in a loop, the pinball loss of quantiles."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(2, 16)
        self.head = nn.Linear(16, 6)
        self.register_buffer("quantiles", torch.tensor([0.1, 0.5, 0.9]))

    def forward(self, past, future):
        h = past.new_zeros(past.shape[0], 16)
        for step in past.unbind(1):
            h = self.cell(step, h)
        guesses = []
        for _ in range(future.shape[1]):
            guess = self.head(h).view(-1, 2, 3)
            guesses.append(guess)
            h = self.cell(guess[..., 1], h)
        error = future[..., None] - torch.stack(guesses, 1)
        return torch.maximum(self.quantiles * error,
                             (self.quantiles - 1) * error).mean()


def columns(random):
    """Pictures of bytes, and categories of 3, 5 and 7 kinds side by side."""
    return {"img": random.integers(0, 256, (SAMPLES, 3, 6, 6), dtype="uint8"),
            "kinds": numpy.stack([random.integers(0, n, SAMPLES)
                                  for n in (3, 5, 7)], axis=1),
            "y": random.integers(0, 2, SAMPLES).astype("float32")}


@module(columns)
class BytesAndColumns(nn.Module):
    """A probability that is 0 or 1 for some, whose loss PyTorch keeps finite,
    and beside the loss what is only looked at."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, 8) for n in (3, 5, 7))
        self.patches = nn.Conv2d(3, 8, 3, stride=3)
        self.head = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))

    def forward(self, img, kinds, y):
        x = self.patches(img.float() / 255).flatten(2).mean(-1)
        for i, table in enumerate(self.tables):
            x = x + table(kinds[:, i])
        logits = self.head(x).squeeze(-1) * 60
        p = torch.sigmoid(logits)
        right = ((p > 0.5) == (y > 0.5)).float().mean()
        return F.binary_cross_entropy(p, y), logits, right


def labelled_frames(random):
    """Labels of which none repeats the one before it, and headings on axes."""
    headings = numpy.array([[0, 1], [0, -1], [1, 0], [-1, 0]], numpy.float32)
    return {"frames": floats(random, LENGTH, 8),
            "labels": random.permuted(numpy.tile([1, 2, 3], (SAMPLES, 1)),
                                      axis=1),
            "heading": headings[random.integers(0, 4, SAMPLES)]}


@module(labelled_frames)
class Alignment(nn.Module):
    """CTC over its steps by logaddexp, an angle, and classes by how many
    there are: what exporters write out of primitives."""

    IMPOSSIBLE = -1e5

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(8, 4)
        self.turn = nn.Linear(8, 2)

    def likelihood(self, frames, labels):
        scores = F.log_softmax(self.score(frames), -1)
        blanks = torch.zeros_like(labels)
        states = F.pad(torch.stack([blanks, labels], 2).flatten(1), (0, 1))
        scores = scores.gather(2, states[:, None].expand(-1, LENGTH, -1))
        skips = torch.arange(7) % 2 == 1
        way = torch.where(torch.arange(7) < 2, scores[:, 0], self.IMPOSSIBLE)
        for step in range(1, LENGTH):
            last = F.pad(way, (1, 0), value=self.IMPOSSIBLE)[:, :-1]
            skipped = F.pad(way, (2, 0), value=self.IMPOSSIBLE)[:, :-2]
            skipped = torch.where(skips, skipped, self.IMPOSSIBLE)
            way = scores[:, step] + torch.logaddexp(
                torch.logaddexp(way, last), skipped)
        return torch.logaddexp(way[:, -1], way[:, -2])

    def forward(self, frames, labels, heading):
        first = labels[:, 0]
        weight = 1 / torch.bincount(first, minlength=4).float().clamp(min=1)
        y, x = self.turn(frames.mean(1)).unbind(1)
        error = torch.atan2(heading[:, 1], heading[:, 0]) - torch.atan2(y, x)
        return (-self.likelihood(frames, labels) * weight[first]).mean() + (
            1 - torch.cos(error / 2)).mean()
