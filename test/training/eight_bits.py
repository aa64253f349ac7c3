# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AdamW and SGD with their state in eight bits, by bitsandbytes' formulas.

As its kOptimizerStatic8bit*Blockwise kernels (csrc/kernels.cu) with the maps of
create_dynamic_map (functional.py): state is decoded, stepped, the step is taken
with it, and it is encoded with each block's largest magnitude as its scale. All
tensors are quantised, small ones too, and weight decay comes before the step,
as in torch.optim.AdamW. Blocks of 256 begin with each parameter.
"""

import torch

BLOCK = 256


def dynamic_map(signed):
    """What codes stand for, sorted (max_exponent_bits = 7, total_bits = 8)."""
    entries = [0.0, 1.0]
    for i in range(7):
        count = 2**i if signed else 2 ** (i + 1)
        bounds = torch.linspace(0.1, 1, count + 1, dtype=torch.float64)
        middles = 10.0 ** (i - 6) * (bounds[:-1] + bounds[1:]) / 2
        entries += middles.tolist()
        if signed:
            entries += (-middles).tolist()
    return torch.tensor(sorted(entries), dtype=torch.float32)


class Blocks:
    """A tensor in eight bits."""

    def __init__(self, like, signed):
        self.shape = like.shape
        self.map = dynamic_map(signed)
        self.middles = (self.map[:-1] + self.map[1:]) / 2
        self.zero = int((self.map == 0).nonzero())
        self.set(torch.zeros_like(like))

    def get(self):
        values = self.map[self.codes] * self.scales
        return values.flatten()[: self.shape.numel()].reshape(self.shape)

    def set(self, values):
        flat = values.flatten()
        flat = torch.nn.functional.pad(flat, (0, -flat.numel() % BLOCK))
        blocks = flat.reshape(-1, BLOCK)
        self.scales = blocks.abs().amax(dim=1, keepdim=True)
        scaled = blocks / torch.where(self.scales > 0, self.scales, 1)
        codes = torch.bucketize(scaled, self.middles)
        # What is negative stays so.
        self.codes = torch.where((scaled < 0) & (codes == self.zero), codes - 1,
                                 codes)


class Optimizer(torch.optim.Optimizer):
    def __init__(self, groups, kind, lr, betas, eps, momentum):
        self.kind = kind
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps,
                                      momentum=momentum, weight_decay=0.0))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["step"] = 0
                    state["first"] = Blocks(parameter, signed=True)
                    state["second"] = Blocks(parameter, signed=False)
                state["step"] += 1
                update = self.adamw if self.kind == "adamw" else self.sgd
                update(group, parameter, parameter.grad, state)

    @staticmethod
    def adamw(group, parameter, gradient, state):
        lr, (beta1, beta2) = group["lr"], group["betas"]
        first = beta1 * state["first"].get() + (1 - beta1) * gradient
        second = beta2 * state["second"].get() + (1 - beta2) * gradient**2
        root = second.sqrt() / (1 - beta2 ** state["step"]) ** 0.5
        parameter *= 1 - lr * group["weight_decay"]
        parameter -= (lr / (1 - beta1 ** state["step"]) * first
                      / (root + group["eps"]))
        state["first"].set(first)
        state["second"].set(second)

    @staticmethod
    def sgd(group, parameter, gradient, state):
        gradient = gradient + group["weight_decay"] * parameter
        first = gradient
        if state["step"] > 1:
            first = group["momentum"] * state["first"].get() + gradient
        parameter -= group["lr"] * first
        state["first"].set(first)
