"""The chat template: rendered by Jinja, as engines do, and by plain Python for millions of training chats."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from jinja2.sandbox import ImmutableSandboxedEnvironment

END_OF_TEXT, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (END_OF_TEXT, START, END)  # ids 0, 1, 2
IMAGE, AROUND, WHOLE = "<image>", "<fake_token_around_image>", "<global-img>"
PICTURE = (IMAGE, AROUND, WHOLE)  # the last three ids: see sight/tokens.py

TEMPLATE = (Path(__file__).parent / "template.jinja").read_text()
CALL_HINT = 'To call one, answer <tool_call>{"name": ..., "arguments": {...}}</tool_call>'


@cache
def _compiled():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)  # as transformers does: no HTML escapes
    return env.from_string(TEMPLATE)


def render(messages: list[dict], tools: list[dict] | None = None, add_generation_prompt: bool = False) -> str:
    """The text of a chat by the Jinja template that ships in the model file."""
    return _compiled().render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt)


def render_fast(messages: list[dict], tools: list[dict] | None = None) -> str:
    """The text of `render` for training chats, whose messages are plain; `check.py` compares both."""
    out, rest = [], messages
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    if system or tools:
        out.append(f"{START}system\n{system}")
        if tools:
            out.append(("\n\n" if system else "") + "You can call these tools:\n")
            out += [json.dumps(tool, ensure_ascii=False) + "\n" for tool in tools]
            out.append(CALL_HINT)
        out.append(END + "\n")
    if messages[0]["role"] == "system":
        rest = messages[1:]
    out += [f"{START}{m['role']}\n{m['content']}{END}\n" for m in rest]
    return "".join(out)
