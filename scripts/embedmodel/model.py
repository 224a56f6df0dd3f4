"""BERT in plain PyTorch: the student, which is trained, and the teacher."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import Shape


class Block(nn.Module):
    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.heads = s.H
        self.attn_q, self.attn_k, self.attn_v, self.attn_output = (nn.Linear(s.D, s.D) for _ in range(4))
        self.attn_output_norm, self.layer_output_norm = (nn.LayerNorm(s.D, s.eps) for _ in range(2))
        self.ffn_up, self.ffn_down = nn.Linear(s.D, s.F), nn.Linear(s.F, s.D)

    def forward(self, h: Tensor, mask: Tensor) -> Tensor:
        split = lambda x: x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        seen = functional.scaled_dot_product_attention(split(self.attn_q(h)), split(self.attn_k(h)), split(self.attn_v(h)), mask[:, None, None, :])
        h = self.attn_output_norm(h + self.attn_output(seen.transpose(1, 2).flatten(-2)))
        return self.layer_output_norm(h + self.ffn_down(functional.gelu(self.ffn_up(h))))


class Bert(nn.Module):
    """Names are llama.cpp's."""

    def __init__(self, s: Shape) -> None:
        super().__init__()
        self.token_embd, self.position_embd, self.token_types = nn.Embedding(s.V, s.D), nn.Embedding(s.C, s.D), nn.Embedding(1, s.D)
        self.token_embd_norm = nn.LayerNorm(s.D, s.eps)
        self.blk = nn.ModuleList(Block(s) for _ in range(s.layers))
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02 if isinstance(module, nn.Embedding) else module.weight.shape[1] ** -0.5)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Embeddings of length 1: the mean of a text's rows. tokens [N, T], lengths [N]."""
        mask = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        h = self.token_embd_norm(self.token_embd(tokens) + self.position_embd.weight[: tokens.shape[1]] + self.token_types.weight[0])
        for block in self.blk:
            h = block(h, mask)
        kept = h.float() * mask[..., None]
        return functional.normalize(kept.sum(1) / lengths[:, None], dim=-1)
