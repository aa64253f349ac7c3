# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Models of pictures and signals."""

import numpy
import torch
from torch import nn
from torch.nn import functional as F

from registry import SAMPLES, floats, module, pictures


@module(pictures, "cross-entropy")
class VisionTransformer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, stride=4)
        self.cls = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width) * 0.02)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 48, 0.0, "gelu",
                                       batch_first=True, norm_first=True)
            for _ in range(2))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, 7)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, pixels):
        x = self.patch(pixels).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), 1)
        x = x + self.places
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


class Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, channels, made, stride, norm):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, made, 3, stride, 1, bias=False)
        self.bn1 = norm(made)
        self.conv2 = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.bn2 = norm(made)
        self.shortcut = nn.Sequential() if stride == 1 else nn.Sequential(
            nn.Conv2d(channels, made, 1, stride, bias=False), norm(made))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.shortcut(x))


class Residuals(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False),
                                  norm(8), nn.ReLU(), nn.MaxPool2d(2))
        self.layers = nn.Sequential(Residual(8, 8, 1, norm),
                                    Residual(8, 16, 2, norm))
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(16, 7)

    def forward(self, pixels):
        return self.fc(torch.flatten(self.pool(self.layers(
            self.stem(pixels))), 1))


def fresh_batch_norm(channels):
    return nn.BatchNorm2d(channels)


def trained_batch_norm(channels):
    """As after some training: no two numbers are equal."""
    norm = nn.BatchNorm2d(channels)
    nn.init.normal_(norm.running_mean, std=0.1)
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    nn.init.uniform_(norm.weight, 0.5, 1.5)
    nn.init.normal_(norm.bias, std=0.1)
    return norm


@module(pictures, "cross-entropy")
class FreshBatchNorm(Residuals):
    """In evaluation mode: running statistics are constants."""

    def __init__(self):
        super().__init__(fresh_batch_norm)


@module(pictures, "cross-entropy")
class FineTunedBatchNorm(Residuals):
    def __init__(self):
        super().__init__(trained_batch_norm)


@module(pictures, "cross-entropy", training=True)
class TrainedBatchNorm(Residuals):
    """In training mode: statistics of the batch."""

    def __init__(self):
        super().__init__(trained_batch_norm)


@module(pictures, "cross-entropy")
class GroupNorms(Residuals):
    def __init__(self):
        super().__init__(lambda channels: nn.GroupNorm(4, channels))


class MixerBlock(nn.Module):
    def __init__(self, places, width):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.places = nn.Sequential(nn.Linear(places, 24), nn.GELU(),
                                    nn.Linear(24, places))
        self.channels = nn.Sequential(nn.Linear(width, 40), nn.GELU(),
                                      nn.Linear(40, width))

    def forward(self, x):
        x = x + self.places(self.norm_1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm_2(x))


@module(pictures, "cross-entropy")
class Mixer(nn.Module):
    """MLP-Mixer; patches by reshaping."""

    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Linear(3 * 16, width)
        self.blocks = nn.Sequential(*(MixerBlock(16, width) for _ in range(2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 7)

    def forward(self, pixels):
        b = pixels.shape[0]
        x = pixels.reshape(b, 3, 4, 4, 4, 4).permute(0, 2, 4, 3, 5, 1)
        x = self.blocks(self.embed(x.reshape(b, 16, 48)))
        return self.head(self.norm(x).mean(dim=1))


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, 2 * width)
        self.pwconv2 = nn.Linear(2 * width, width)
        self.gamma = nn.Parameter(1e-6 * torch.ones(width))

    def forward(self, x):
        y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


@module(pictures, "cross-entropy")
class ConvNext(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 2, 2)
        self.stages = nn.Sequential(*(ConvNextBlock(width) for _ in range(2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 7)

    def forward(self, pixels):
        x = self.stages(self.stem(pixels))
        return self.head(self.norm(x.mean([-2, -1])))


class ShiftedWindow(nn.Module):
    """Swin's attention: windows of 2 x 2, rolled, biases from a table."""

    def __init__(self, width=24, heads=3, shift=0):
        super().__init__()
        self.heads, self.shift = heads, shift
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.table = nn.Parameter(torch.zeros(9, heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        place = torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2),
                                           indexing="ij")).flatten(1)
        apart = (place[:, :, None] - place[:, None, :]) + 1
        self.register_buffer("index", apart[0] * 3 + apart[1])

    def forward(self, x):
        b, h, w, c = x.shape
        y = self.norm(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = y.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(-1, 4, c)
        q, k, v = self.qkv(y).reshape(-1, 4, 3, self.heads, c // self.heads
                                      ).permute(2, 0, 3, 1, 4)
        bias = self.table[self.index.view(-1)].view(4, 4, -1).permute(2, 0, 1)
        scores = (q * (c // self.heads) ** -0.5) @ k.transpose(-2, -1) + bias
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 4, c)
        y = self.proj(y).view(b, h // 2, w // 2, 2, 2, c)
        y = y.permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        return x + y


@module(pictures, "cross-entropy")
class ShiftedWindows(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 4, 4)
        self.layers = nn.Sequential(ShiftedWindow(width), ShiftedWindow(
            width, shift=1))
        self.reduce = nn.Linear(4 * width, width, bias=False)
        self.head = nn.Linear(width, 7)

    def forward(self, pixels):
        x = self.layers(self.patch(pixels).permute(0, 2, 3, 1))
        x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
        return self.head(self.reduce(x).mean((1, 2)))


def noisy(random):
    time = random.integers(0, 50, SAMPLES)
    clean = numpy.cumsum(floats(random, 2, 16), axis=2) * numpy.float32(0.3)
    noise = floats(random, 2, 16)
    share = (time[:, None, None] / numpy.float32(50)).astype("float32")
    return {"signal": (1 - share) * clean + share * noise, "time": time,
            "labels": noise}


class UStage(nn.Module):
    def __init__(self, channels, made):
        super().__init__()
        self.norm = nn.GroupNorm(2, channels)
        self.conv = nn.Conv1d(channels, made, 3, padding=1)
        self.time = nn.Linear(16, made)

    def forward(self, x, time):
        return self.conv(F.silu(self.norm(x))) + self.time(time)[..., None]


@module(noisy, "mse")
class UNet(nn.Module):
    """A denoiser: steps of time as sines, skip connections, both ways."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rates", torch.exp(-torch.arange(8.0)))
        self.time = nn.Sequential(nn.Linear(16, 16), nn.SiLU())
        self.first = nn.Conv1d(2, 8, 3, padding=1)
        self.down_1, self.down_2 = UStage(8, 12), UStage(12, 16)
        self.shrink = nn.Conv1d(12, 12, 3, stride=2, padding=1)
        self.grow = nn.ConvTranspose1d(16, 12, 4, stride=2, padding=1)
        self.up = UStage(24, 8)
        self.last = nn.Conv1d(8, 2, 1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(self.last.bias)

    def forward(self, signal, time):
        angle = time.float()[:, None] * self.rates
        time = self.time(torch.cat((angle.sin(), angle.cos()), -1))
        skip = self.down_1(self.first(signal), time)
        x = self.down_2(self.shrink(skip), time)
        x = torch.cat((self.grow(x), skip), dim=1)
        return self.last(self.up(x, time))


@module(pictures, "mse")
class Upsampler(nn.Module):
    """Super-resolution: nearest and bilinear, pixel shuffle, padding."""

    def __init__(self):
        super().__init__()
        self.pad = nn.ReflectionPad2d(1)
        self.conv = nn.Conv2d(3, 12, 3)
        self.shuffle = nn.PixelShuffle(2)
        self.norm = nn.InstanceNorm2d(12, affine=True)
        self.head = nn.Linear(3, 1)

    def forward(self, pixels):
        x = F.hardswish(self.norm(self.conv(self.pad(pixels))))
        up = F.interpolate(F.avg_pool2d(pixels, 2), scale_factor=4,
                           mode="bilinear", align_corners=False)
        near = F.interpolate(pixels, scale_factor=2, mode="nearest")
        x = self.shuffle(x) + up + near
        return self.head(x.mean((2, 3))).squeeze(-1)


def maps(random):
    labels = random.integers(0, 5, (SAMPLES, 8, 8))
    labels[random.random(labels.shape) < 0.1] = -100
    return {"pixels": floats(random, 3, 8, 8), "labels": labels}


@module(maps, "cross-entropy")
class Segmenter(nn.Module):
    """Classes in axis 1, as torch.nn.functional.cross_entropy takes a map."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 2, 2)
        self.mix = nn.Conv2d(24, 24, 3, padding=1)
        self.norm, self.head = nn.GroupNorm(4, 24), nn.Conv2d(24, 5, 1)

    def forward(self, pixels):
        x = F.gelu(self.norm(self.patches(pixels)))
        x = x + F.silu(self.mix(x))
        return F.interpolate(self.head(x), scale_factor=2, mode="bilinear",
                             align_corners=False)


@module(pictures, "cross-entropy")
class Deformable(nn.Module):
    """Deformable DETR's attention: heads that read a map at points of their
    own, of whose places the gradient flows back."""

    def __init__(self, width=32, heads=4, points=3):
        super().__init__()
        self.heads, self.points = heads, points
        self.patches = nn.Conv2d(3, width, 2, 2)
        self.queries = nn.Parameter(torch.randn(5, width) * 0.5)
        self.offsets = nn.Linear(width, heads * points * 2)
        self.weights = nn.Linear(width, heads * points)
        self.values, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.head = nn.Linear(width, 7)

    def forward(self, pixels):
        x = self.patches(pixels)
        b, c, h, w = x.shape
        values = self.values(x.flatten(2).transpose(1, 2)).transpose(1, 2)
        values = values.reshape(b * self.heads, c // self.heads, h, w)
        q = self.queries + x.mean((2, 3))[:, None]
        shape = b, -1, self.heads, self.points
        grid = torch.tanh(self.offsets(q)).view(*shape, 2)
        grid = grid.transpose(1, 2).flatten(0, 1)
        weights = self.weights(q).view(shape).softmax(-1)
        weights = weights.transpose(1, 2).flatten(0, 1)[:, None]
        read = F.grid_sample(values, grid, mode="bilinear",
                             padding_mode="zeros", align_corners=False)
        read = (read * weights).sum(-1).view(b, c, -1).transpose(1, 2)
        return self.head((q + self.out(read)).mean(1))
