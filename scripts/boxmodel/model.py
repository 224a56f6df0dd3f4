"""LlamaForCausalLM in plain PyTorch, under the names of llama.cpp's tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import Shape


class RMSNorm(nn.Module):
    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def rotary(shape: Shape, length: int) -> tuple[Tensor, Tensor]:
    """cos and sin, each (length, E): the two halves of a head turn together, as in Hugging Face's Llama."""
    rates = shape.rope_theta ** (-torch.arange(0, shape.E, 2, dtype=torch.float32) / shape.E)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), rates)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x: (B, heads, T, E)."""
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class Layer(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = s = shape
        self.attn_norm = RMSNorm(s.D, s.norm_eps)
        self.attn_q = nn.Linear(s.D, s.H * s.E, bias=False)
        self.attn_k = nn.Linear(s.D, s.G * s.E, bias=False)
        self.attn_v = nn.Linear(s.D, s.G * s.E, bias=False)
        self.attn_output = nn.Linear(s.H * s.E, s.D, bias=False)
        self.ffn_norm = RMSNorm(s.D, s.norm_eps)
        self.ffn_gate = nn.Linear(s.D, s.F, bias=False)
        self.ffn_up = nn.Linear(s.D, s.F, bias=False)
        self.ffn_down = nn.Linear(s.F, s.D, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, mask: Tensor, cache: list | None) -> Tensor:
        s = self.shape
        B, T, _ = x.shape
        h = self.attn_norm(x)
        q = rotate(self.attn_q(h).view(B, T, s.H, s.E).transpose(1, 2), cos, sin)  # (B, H, T, E)
        k = rotate(self.attn_k(h).view(B, T, s.G, s.E).transpose(1, 2), cos, sin)  # (B, G, T, E)
        v = self.attn_v(h).view(B, T, s.G, s.E).transpose(1, 2)  # (B, G, T, E)
        if cache is not None:
            if cache:
                k, v = torch.cat((cache[0], k), dim=2), torch.cat((cache[1], v), dim=2)
            cache[:] = k, v
        k, v = (t.repeat_interleave(s.H // s.G, dim=1) for t in (k, v))
        a = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, attn_mask=mask)
        x = x + self.attn_output(a.transpose(1, 2).reshape(B, T, s.H * s.E))
        h = self.ffn_norm(x)
        return x + self.ffn_down(F.silu(self.ffn_gate(h)) * self.ffn_up(h))


class Llama(nn.Module):
    """Tied embeddings: `token_embd` is the head as well."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        self.token_embd = nn.Embedding(shape.V, shape.D)
        self.blk = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.output_norm = RMSNorm(shape.D, shape.norm_eps)
        cos, sin = rotary(shape, shape.C)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initialise(self) -> None:
        deep = (2 * self.shape.layers) ** -0.5
        for name, p in self.named_parameters():
            if p.dim() == 2:
                scale = deep if name.endswith(("attn_output.weight", "ffn_down.weight")) else 1.0
                nn.init.normal_(p, std=0.02 if "embd" in name else scale * p.shape[1] ** -0.5)

    def forward(self, tokens: Tensor, mask: Tensor, start: int = 0, caches: list[list] | None = None) -> Tensor:
        """tokens (B, T), mask broadcast to (B, 1, T, start + T), True where seen -> hidden states (B, T, D)."""
        return self.embedded(self.token_embd(tokens), mask, start, caches)

    def embedded(self, x: Tensor, mask: Tensor, start: int = 0, caches: list[list] | None = None) -> Tensor:
        """The hidden states of rows (B, T, D), which are embeddings of tokens or what a tower made of a picture."""
        T = x.shape[1]
        cos, sin = self.cos[start : start + T], self.sin[start : start + T]
        for i, layer in enumerate(self.blk):
            x = layer(x, cos, sin, mask, caches[i] if caches is not None else None)
        return self.output_norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.token_embd.weight)


def chat_mask(chats: Tensor) -> Tensor:
    """(B, T) numbers of chats -> (B, 1, T, T): a token sees earlier tokens of its own chat only."""
    T = chats.shape[1]
    causal = torch.ones(T, T, dtype=torch.bool, device=chats.device).tril()
    return ((chats[:, :, None] == chats[:, None, :]) & causal)[:, None]
