"""SigLIP's encoder and Idefics 3's projector in plain PyTorch, under the names of llama.cpp's tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model import Llama
from .config import Eye


class Block(nn.Module):
    def __init__(self, eye: Eye):
        super().__init__()
        self.eye = eye
        self.ln1, self.ln2 = nn.LayerNorm(eye.D, eps=eye.norm_eps), nn.LayerNorm(eye.D, eps=eye.norm_eps)
        self.attn_q, self.attn_k, self.attn_v, self.attn_out = (nn.Linear(eye.D, eye.D) for _ in range(4))
        self.ffn_up, self.ffn_down = nn.Linear(eye.D, eye.F), nn.Linear(eye.F, eye.D)

    def forward(self, x: Tensor) -> Tensor:
        B, N, D = x.shape
        h = self.ln1(x)
        q, k, v = (f(h).view(B, N, self.eye.H, -1).transpose(1, 2) for f in (self.attn_q, self.attn_k, self.attn_v))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, N, D)
        x = x + self.attn_out(a)
        return x + self.ffn_down(F.gelu(self.ffn_up(self.ln2(x)), approximate="tanh"))


class Tower(nn.Module):
    """(P, side, side, 3) bytes -> (P, rows, width of the language model)."""

    def __init__(self, eye: Eye, width: int):
        super().__init__()
        self.eye = eye
        self.patch_embd = nn.Linear(3 * eye.patch**2, eye.D)  # in the order channel, row, column
        self.position_embd = nn.Embedding(eye.side**2, eye.D)
        self.blk = nn.ModuleList(Block(eye) for _ in range(eye.layers))
        self.post_ln = nn.LayerNorm(eye.D, eps=eye.norm_eps)
        self.fc = nn.Linear(eye.D * eye.merge**2, width, bias=False)

    def initialise(self) -> None:
        deep = (2 * self.eye.layers) ** -0.5
        for name, p in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(p)
            elif p.dim() == 2:
                scale = deep if name.endswith(("attn_out.weight", "ffn_down.weight")) else 1.0
                nn.init.normal_(p, std=0.02 if "position" in name else scale * p.shape[1] ** -0.5)

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels (P, S, S, 3), 0 to 255."""
        e = self.eye
        P, side, m = len(pixels), e.side, e.merge
        x = pixels.float() / 127.5 - 1.0
        x = x.view(P, side, e.patch, side, e.patch, 3).permute(0, 1, 3, 5, 2, 4).reshape(P, side * side, -1)
        x = self.patch_embd(x) + self.position_embd.weight
        for block in self.blk:
            x = block(x)
        x = self.post_ln(x)
        x = x.view(P, side // m, m, side // m, m, e.D).transpose(2, 3).reshape(P, e.rows, m * m * e.D)
        return self.fc(x)


def with_rows(model: Llama, tokens: Tensor, rows: Tensor, image: int) -> Tensor:
    """Embeddings (B, T, D) of tokens, with a picture's rows where the tokens are `image`, one after another."""
    x = model.token_embd(tokens)
    return x.masked_scatter((tokens == image)[..., None], rows.to(x.dtype))
