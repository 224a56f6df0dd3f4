"""Training in time slices: stops after `max_seconds` with a checkpoint, from which the next slice continues."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

from . import tokenizer as tokenizers
from .batches import IGNORE, Packer
from .config import SHAPE, Training
from .model import Llama, chat_mask


class Batches(Dataset):
    """Batches by number, made in worker processes."""

    def __init__(self, tokenizer_file: Path, plan: Training):
        self.tokenizer_file, self.plan, self.packer = tokenizer_file, plan, None

    def __len__(self) -> int:
        return self.plan.steps

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        if self.packer is None:
            self.packer = Packer(tokenizers.load(self.tokenizer_file), self.plan.seed, self.plan.rows)
        batch = self.packer.batch(index)
        return tuple(torch.from_numpy(part) for part in (batch.tokens, batch.targets, batch.chats))


def rate(plan: Training, step: int) -> float:
    """Warm-up, constant, then linearly to zero."""
    left = (plan.steps - step) / max(1, plan.decay * plan.steps)
    return plan.rate * min(1.0, (step + 1) / plan.warmup, left)


def optimizer(model: Llama, plan: Training, cuda: bool) -> torch.optim.AdamW:
    matrices = [p for n, p in model.named_parameters() if p.dim() == 2 and "embd" not in n]
    others = [p for n, p in model.named_parameters() if p.dim() != 2 or "embd" in n]
    groups = [{"params": matrices, "weight_decay": plan.weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=plan.rate, betas=(plan.beta1, plan.beta2), fused=cuda)


def train(plan: Training, tokenizer_file: Path, checkpoint: Path, resume: bool, max_seconds: float, workers: int,
          compiled: bool | None) -> bool:
    """Runs one slice; True when the last step is done. `compiled` None: where there is a GPU."""
    began = time.monotonic()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    torch.manual_seed(plan.seed)
    torch.set_float32_matmul_precision("high")
    model = Llama(SHAPE)
    model.initialise()
    model.to(device)
    optimize = optimizer(model, plan, cuda)
    step, seconds = 0, 0.0
    if resume and checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        if saved["plan"] != asdict(plan):
            raise ValueError(f"{checkpoint} was made with another plan; train without --resume to start anew")
        model.load_state_dict(saved["model"])
        optimize.load_state_dict(saved["optimizer"])
        step, seconds = saved["step"], saved["seconds"]
    run = torch.compile(model) if (cuda if compiled is None else compiled) else model
    loader = DataLoader(
        Batches(tokenizer_file, plan), batch_size=None, sampler=range(step, plan.steps), num_workers=workers,
        prefetch_factor=6 if workers else None, pin_memory=cuda)
    shown = time.monotonic()
    for tokens, targets, chats in loader:
        tokens, targets, chats = (t.to(device, non_blocking=True) for t in (tokens, targets, chats))
        for group in optimize.param_groups:
            group["lr"] = rate(plan, step)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            hidden = run(tokens, chat_mask(chats))
            asked = targets != IGNORE
            logits = model.logits(hidden[asked])
        loss = F.cross_entropy(logits.float(), targets[asked])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), plan.clip)
        optimize.step()
        optimize.zero_grad(set_to_none=True)
        step += 1
        if step % 100 == 0 or step == plan.steps:
            now = time.monotonic()
            line = {"step": step, "loss": round(loss.item(), 5), "rate": round(rate(plan, step - 1), 6),
                    "seconds": round(seconds + now - began, 1), "ms_step": round((now - shown) * 10, 1)}
            print(json.dumps(line), flush=True)
            shown = time.monotonic()
        if step % 10 == 0 and time.monotonic() - began > max_seconds:
            break
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    facts = {"plan": asdict(plan), "step": step, "seconds": round(seconds + time.monotonic() - began, 1),
             "device": torch.cuda.get_device_name() if cuda else "CPU", "torch": str(torch.__version__)}
    torch.save({**facts, "model": model.state_dict(), "optimizer": optimize.state_dict()}, checkpoint)
    checkpoint.with_suffix(".json").write_text(json.dumps(facts, indent=2) + "\n")
    return step >= plan.steps
