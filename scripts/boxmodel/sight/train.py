"""Trains tower and language model together, in time slices, from the language model's weights on."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from .. import tokenizer as tokenizers
from ..batches import IGNORE
from ..chat import IMAGE, PICTURE
from ..config import SHAPE
from ..model import Llama, chat_mask
from ..train import rate
from .batches import Painter
from .config import EYE, Training
from .tower import Tower, with_rows


class Batches(Dataset):
    """Batches by number, made in worker processes."""

    def __init__(self, tokenizer_file: Path, plan: Training):
        self.tokenizer_file, self.plan, self.painter = tokenizer_file, plan, None

    def __len__(self) -> int:
        return self.plan.steps

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        if self.painter is None:
            torch.set_num_threads(1)
            self.painter = Painter(tokenizers.load(self.tokenizer_file), self.plan)
        seen, text = self.painter.seen(index), self.painter.packer.batch(index)
        parts = (seen.tokens, seen.targets, seen.parts, seen.pixels, text.tokens, text.targets, text.chats)
        return tuple(torch.from_numpy(part) for part in parts)


def disturbed(pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Pictures as cameras make them: slightly turned, scaled, brighter or darker, noisy, soft; half stay as they are."""
    P, S = len(pixels), pixels.shape[1]
    draw = lambda *shape: torch.rand(*shape, device=pixels.device, generator=generator) * 2 - 1
    x = pixels.permute(0, 3, 1, 2).float()
    moved = (draw(P) > 0).float()
    turn, grow = draw(P) * 0.07 * moved, 1 + draw(P) * 0.06 * moved
    shift = draw(P, 2) * 0.04 * moved[:, None]
    cos, sin = torch.cos(turn) * grow, torch.sin(turn) * grow
    theta = torch.stack((torch.stack((cos, -sin, shift[:, 0]), 1), torch.stack((sin, cos, shift[:, 1]), 1)), 1)
    grid = F.affine_grid(theta, [P, 3, S, S], align_corners=False)
    turned = F.grid_sample(x, grid, mode="bilinear", padding_mode="border", align_corners=False)
    x = torch.where(moved[:, None, None, None] > 0, turned, x)
    each = lambda chance: (draw(P, 1, 1, 1) > 1 - 2 * chance).float()
    soft = F.avg_pool2d(x, 3, 1, 1)
    blurred = each(0.15)
    x = x * (1 - blurred) + soft * blurred
    changed = each(0.4)
    x = x * (1 + changed * draw(P, 1, 1, 1) * 0.15) + changed * draw(P, 1, 1, 1) * 15
    noise = each(0.4) * (draw(P, 1, 1, 1) + 1) * 6
    x = x + noise * torch.randn(x.shape, device=x.device, generator=generator)
    return x.clamp(0, 255).permute(0, 2, 3, 1)


def optimizer(models: list[torch.nn.Module], plan: Training, cuda: bool) -> torch.optim.AdamW:
    named = [(n, p) for model in models for n, p in model.named_parameters()]
    matrices = [p for n, p in named if p.dim() == 2 and "embd" not in n]
    others = [p for n, p in named if p.dim() != 2 or "embd" in n]
    groups = [{"params": matrices, "weight_decay": plan.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=plan.rate, betas=(plan.beta1, plan.beta2), fused=cuda)


def begin(text: Llama) -> None:
    """The rows of the three tokens, which were others' before."""
    with torch.no_grad():
        torch.nn.init.normal_(text.token_embd.weight[SHAPE.V - len(PICTURE):], std=0.02)


def train(plan: Training, text: Llama, eye: Tower | None, tokenizer_file: Path, checkpoint: Path, resume: bool,
          max_seconds: float, workers: int) -> bool:
    """Runs one slice; True when the last step is done. `text`: where the language model begins; `eye`: where the tower
    does, from random weights if None."""
    began = time.monotonic()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    torch.manual_seed(plan.seed)
    torch.set_float32_matmul_precision("high")
    model, tower = text, eye or Tower(EYE, SHAPE.D)
    if eye is None:
        tower.initialise()
        begin(model)
    model.train().to(device)
    tower.train().to(device)
    optimize = optimizer([model, tower], plan, cuda)
    step, seconds = 0, 0.0
    if resume and checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        if saved["plan"] != asdict(plan):
            raise ValueError(f"{checkpoint} was made with another plan; train without --resume to start anew")
        model.load_state_dict(saved["model"])
        tower.load_state_dict(saved["tower"])
        optimize.load_state_dict(saved["optimizer"])
        step, seconds = saved["step"], saved["seconds"]
    image = tokenizers.load(tokenizer_file).token_to_id(IMAGE)
    generator = torch.Generator(device).manual_seed(plan.seed + step)

    def hidden_of_pictures(pixels: torch.Tensor, tokens: torch.Tensor, parts: torch.Tensor) -> torch.Tensor:
        rows = tower(pixels)
        return model.embedded(with_rows(model, tokens, rows, image), chat_mask(parts))

    compiled = torch.compile if cuda else (lambda f: f)
    look, disturb = compiled(hidden_of_pictures), compiled(disturbed)
    read = compiled(lambda tokens, chats: model(tokens, chat_mask(chats)))
    loader = DataLoader(
        Batches(tokenizer_file, plan), batch_size=None, sampler=range(step, plan.steps), num_workers=workers,
        prefetch_factor=4 if workers else None, pin_memory=cuda)
    shown = time.monotonic()
    for batch in loader:
        tokens, targets, parts, pixels, words, wanted, chats = (t.to(device, non_blocking=True) for t in batch)
        for group in optimize.param_groups:
            group["lr"] = rate(plan, step)
        pixels = disturb(pixels, generator)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            asked = targets != IGNORE
            logits = model.logits(look(pixels, tokens, parts)[asked])
            asked_words = wanted != IGNORE
            logits_of_words = model.logits(read(words, chats)[asked_words])
        loss = F.cross_entropy(logits.float(), targets[asked])
        loss_of_words = F.cross_entropy(logits_of_words.float(), wanted[asked_words])
        (loss + loss_of_words).backward()
        torch.nn.utils.clip_grad_norm_([*model.parameters(), *tower.parameters()], plan.clip)
        optimize.step()
        optimize.zero_grad(set_to_none=True)
        step += 1
        if step % 100 == 0 or step == plan.steps:
            now = time.monotonic()
            line = {"step": step, "loss": round(loss.item(), 5), "text": round(loss_of_words.item(), 5),
                    "rate": round(rate(plan, step - 1), 6), "seconds": round(seconds + now - began, 1),
                    "ms_step": round((now - shown) * 10, 1)}
            print(json.dumps(line), flush=True)
            shown = now
        if step % 10 == 0 and time.monotonic() - began > max_seconds:
            break
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    facts = {"plan": asdict(plan), "step": step, "seconds": round(seconds + time.monotonic() - began, 1),
             "device": torch.cuda.get_device_name() if cuda else "CPU", "torch": str(torch.__version__)}
    torch.save({**facts, "model": model.state_dict(), "tower": tower.state_dict(), "optimizer": optimize.state_dict()}, checkpoint)
    checkpoint.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n")
    return step >= plan.steps
