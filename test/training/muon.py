# Part of Shardonnx, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.optim.Muon for the matrices of blocks, torch.optim.AdamW for the rest."""

import torch


def is_matrix_of_block(module, name, parameter):
    """Two-dimensional, no table of embeddings, below a numbered module."""
    path = name.split(".")[:-1]
    owner = module.get_submodule(".".join(path))
    return (parameter.ndim == 2 and any(part.isdigit() for part in path)
            and not isinstance(owner, torch.nn.Embedding))


class Optimizer:
    def __init__(self, case, module, groups, lr):
        matrices = {p for n, p in module.named_parameters()
                    if is_matrix_of_block(module, n, p)}
        mine, others = [], []
        for group in groups:
            decay = dict(weight_decay=group["weight_decay"])
            chosen = [p for p in group["params"] if p in matrices]
            rest = [p for p in group["params"] if p not in matrices]
            if chosen:
                ratio = case.get("muon_lr", lr) / lr
                mine.append(dict(params=chosen, lr_ratio=ratio, **decay))
            if rest:
                others.append(dict(params=rest, **decay))
        self.parts = [
            torch.optim.Muon(mine, lr=lr, momentum=case.get("momentum", 0.95),
                             adjust_lr_fn=case.get("adjust"))]
        if others:  # of adapters alone, none are
            self.parts.append(torch.optim.AdamW(
                others, lr=lr, betas=(0.9, 0.95), eps=1e-8))
        self.param_groups = [g for p in self.parts for g in p.param_groups]

    def zero_grad(self):
        for part in self.parts:
            part.zero_grad()

    def step(self):
        for part in self.parts:
            part.step()
