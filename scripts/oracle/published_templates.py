"""Compares what `millrace render` makes with what transformers makes of published chat templates.

    MILLRACE_BIN=target/debug/millrace python -m oracle.published_templates FOLDER…

A folder has templates as `*.jinja`, at any depth; none are kept here. Each renders some fifty conversations. They are

- equal: the text is transformers';
- shaped: it is transformers' for a conversation that says the same otherwise, see src/text/turns.rs: no tools as none
  or undefined, arguments as an object or as JSON, content as a text, parts or null, thoughts by another name;
- refused by both, refused here only, rendered here only, different.

Exit status 1 where one is different or refused here only."""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
USER = {"role": "user", "content": "Hi there"}
SYSTEM = {"role": "system", "content": "Be brief. "}
ANSWER = {"role": "assistant", "content": "Hello, what can I do?"}
AGAIN = {"role": "user", "content": "  Add 2 and 3,\nplease.\n"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": " there"}]}


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": f"What {name} does: \"é\" <b> & 'c'.",
            "parameters": {"type": "object", "properties": parameters, "required": list(parameters)[:1]},
        },
    }


ADD = tool("add", a={"type": "integer", "description": "The first"}, b={"type": "integer", "default": 1})
FIND = tool("find", what={"type": "string", "enum": ["x", "y"]}, where={"type": "array", "items": {"type": "string"}})
NONE = tool("now")


def call(n: int, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"call{n:05}", "type": "function", "function": {"name": name, "arguments": arguments}}


def calls(*list_: dict[str, Any], content: str | None = "", **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(list_), **more}


def result(n: int, name: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call{n:05}", "name": name, "content": content}


ADDS, FINDS = call(1, "add", {"a": 2, "b": 3}), call(2, "find", {"what": "x", "where": ["é", "\"q\""]})
THOUGHT = {"role": "assistant", "content": "Five.", "reasoning_content": "2 + 3 = 5"}
TAGGED = {"role": "assistant", "content": "<think>\n2 + 3 = 5\n</think>\n\nFive."}

# The messages, the tools, further variables.
CONVERSATIONS: list[tuple[list[dict[str, Any]], list[dict[str, Any]] | None, dict[str, Any]]] = [
    (messages, tools, extra)
    for messages, tools in [
        ([USER], None),
        ([SYSTEM, USER], None),
        ([SYSTEM, USER, ANSWER, AGAIN], None),
        ([USER, ANSWER, AGAIN], None),
        ([USER, ANSWER], None),
        ([USER, ANSWER, AGAIN, ANSWER, USER, ANSWER, AGAIN], None),
        ([USER, AGAIN], None),
        ([SYSTEM], None),
        ([SYSTEM, SYSTEM, USER], None),
        ([USER, SYSTEM, AGAIN], None),
        ([{"role": "developer", "content": "Be brief."}, USER], None),
        ([], None),
        ([ANSWER], None),
        ([{"role": "user", "content": ""}], None),
        ([{"role": "system", "content": ""}, USER], None),
        ([USER, {"role": "assistant", "content": ""}, AGAIN], None),
        ([PARTS], None),
        ([SYSTEM, PARTS, {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]}, USER], None),
        ([{"role": "user", "content": []}], None),
        ([{"role": "user", "content": "<|im_end|> {{ x }} <tool_call> </think> \U0001f642 ▁ é"}], None),
        ([USER, THOUGHT, AGAIN], None),
        ([USER, THOUGHT], None),
        ([USER, TAGGED, AGAIN], None),
        ([USER, TAGGED], None),
        ([USER, {**THOUGHT, "reasoning_content": ""}, AGAIN], None),
        ([USER], []),
        ([USER], [ADD]),
        ([SYSTEM, USER], [ADD, FIND, NONE]),
        ([USER, ANSWER, AGAIN], [ADD]),
        ([AGAIN, calls(ADDS)], [ADD]),
        ([AGAIN, calls(ADDS), result(1, "add", "5")], [ADD]),
        ([SYSTEM, AGAIN, calls(ADDS, FINDS), result(1, "add", "5"), result(2, "find", "{\"x\": [1]}")], [ADD, FIND]),
        ([AGAIN, calls(ADDS), result(1, "add", "5"), ANSWER, USER], [ADD]),
        ([AGAIN, calls(ADDS), result(1, "add", "5"), calls(FINDS), result(2, "find", ""), ANSWER, USER], [ADD, FIND]),
        ([AGAIN, calls(ADDS, content="I add."), result(1, "add", "5")], [ADD]),
        ([AGAIN, calls(ADDS, content=None), result(1, "add", "5")], [ADD]),
        ([AGAIN, calls(call(3, "now", {})), result(3, "now", "12:00")], [NONE]),
        ([AGAIN, calls(ADDS, reasoning_content="A sum."), result(1, "add", "5")], [ADD]),
        ([AGAIN, calls(ADDS), result(1, "add", "5")], None),
        ([AGAIN, {**ANSWER, "tool_calls": []}, USER], [ADD]),
        ([result(1, "add", "5")], [ADD]),
        ([{"role": "critic", "content": "No."}], None),
    ]
    for extra in [{}]
] + [
    ([SYSTEM, USER], None, {"enable_thinking": False, "thinking": False}),
    ([SYSTEM, USER, THOUGHT, AGAIN], [ADD], {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    ([USER, ANSWER, AGAIN], None, {"add_generation_prompt": False}),
    ([USER], None, {"documents": [{"title": "A", "text": "b c", "content": "d"}], "date_string": "26 Jul 2024"}),
]


def transformers(template: str, messages: Any, tools: Any, extra: dict[str, Any], defined: bool = True) -> str | None:
    """The text; none where it is refused. Without `defined`, there is no variable `tools`."""
    given = {"add_generation_prompt": True, **TOKENS, **deepcopy(extra)}
    if not defined:
        # A variable of that name is always given; the template's own of another name is not.
        template = "{%- set tools = undefined_tools %}" + template
    try:
        return render_jinja_template([deepcopy(messages)], tools=deepcopy(tools), chat_template=template, **given)[0][0]
    except Exception:  # noqa: BLE001: templates fail in all ways
        return None


def shaped(messages: list[dict[str, Any]], arguments: str, parts: bool, thoughts: bool, nothing: str) -> list[Any]:
    """The same conversation otherwise."""
    out = deepcopy(messages)
    for message in out:
        if message.get("tool_calls"):
            for one in message["tool_calls"]:
                if arguments == "json":
                    one["function"]["arguments"] = json.dumps(one["function"]["arguments"], ensure_ascii=False)
            if message["content"] is None:
                message |= {"content": ""} if nothing == "empty" else {}
                if nothing == "missing":
                    del message["content"]
        if parts and isinstance(message.get("content"), str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        if thoughts and (thought := message.get("reasoning_content")) is not None:
            if not (message.get("tool_calls") and message.get("content")):
                message |= {"thinking": thought, "reasoning": thought}
    return out


def accepted(template: str, messages: Any, tools: Any, extra: dict[str, Any]) -> set[str]:
    """What transformers makes of the conversation in all shapes."""
    shapes = product(["object", "json"], [False, True], [False, True], ["null", "empty", "missing"], [True, False])
    seen: set[str] = set()
    texts = set()
    for arguments, parts, thoughts, nothing, defined in shapes:
        given = shaped(messages, arguments, parts, thoughts, nothing)
        key = json.dumps([given, defined or tools is not None])
        if key not in seen:
            seen.add(key)
            texts.add(transformers(template, given, tools, extra, defined or tools is not None))
    return {text for text in texts if text is not None}


def rendered(binary: str, template: Path, messages: Any, tools: Any, extra: dict[str, Any]) -> str | None:
    """`millrace render`'s text; none where it refuses."""
    options = {**TOKENS, **{name: value for name, value in extra.items() if name != "add_generation_prompt"}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "messages.json"
        file.write_text(json.dumps({"messages": messages, "tools": tools}))
        command = [binary, "render", "--template", str(template), "--messages", str(file)]
        command += ["--template-options", json.dumps(options)]
        if extra.get("add_generation_prompt") is False:
            command.append("--no-generation-prompt")
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    return done.stdout.decode() if done.returncode == 0 else None


def judged(render: Any, path: Path) -> list[str]:
    """What one template's conversations are."""
    template = path.read_text(encoding="utf-8")
    out = []
    for messages, tools, extra in CONVERSATIONS:
        ours = render(path, messages, tools, extra)
        theirs = transformers(template, messages, tools, extra)
        if ours is not None and ours == theirs:
            out.append("equal")
            continue
        texts = accepted(template, messages, tools, extra)
        if ours is None:
            out.append("refused here only" if theirs is not None else "refused by both")
        elif ours in texts:
            out.append("shaped")
        else:
            out.append("different" if texts else "rendered here only")
    return out


def main(folders: list[str]) -> int:
    binary = os.environ.get("MILLRACE_BIN", "target/debug/millrace")
    paths = sorted(path for folder in folders for path in Path(folder).rglob("*.jinja"))
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor() as pool:
        for path, kinds in zip(paths, pool.map(partial(judged, partial(rendered, binary)), paths), strict=True):
            counts.update(kinds)
            for n, kind in enumerate(kinds):
                if kind in ("different", "refused here only"):
                    print(f"{path}: conversation {n} is {kind}")
    total = sum(counts.values())
    kinds = ", ".join(f"{n} {kind}" for kind, n in counts.most_common())
    print(f"{len(paths)} templates, {total} conversations: {kinds}")
    return int(not total or counts["different"] + counts["refused here only"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
