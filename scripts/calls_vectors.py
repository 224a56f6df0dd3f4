"""Makes tests/data/calls/vectors.json of llama.cpp's tests/test-chat.cpp: what models of each template write, and what that says.

    python3 scripts/calls_vectors.py REPOSITORY ORIGIN      a checkout, or a bare one, of llama.cpp or a fork of it; its name, for the record

Of each case it keeps the model's text, the tools, and the message that is expected; of each template the marks that it writes, and the end of the
prompt as jinja2 renders it. Needs jinja2.
"""

import json
import re
import subprocess
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

SOURCE = "tests/test-chat.cpp"
TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<raw>R"(?P<d>[^(\s]*)\((?P<rawtext>.*?)\)(?P=d)")|(?P<str>"(?:\\.|[^"\\])*")|(?P<id>[A-Za-z_][\w:]*)|(?P<num>-?\d[\w.]*)|(?P<op>->|[-+{}()\[\].,;=&*<>!?|%:/\#\\'~^])""",
    re.S,
)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "'": "'", "0": "\0"}


def tokens(text):
    at, found = 0, []
    while at < len(text):
        m = TOKEN.match(text, at)
        if not m:
            at += 1
            continue
        at = m.end()
        if m.group("raw"):
            found.append(("str", m.group("rawtext")))
        elif m.group("str"):
            body = m.group("str")[1:-1]
            found.append(("str", re.sub(r"\\(.)", lambda e: ESCAPES.get(e.group(1), e.group(0)), body)))
        elif m.group("id"):
            found.append(("id", m.group("id")))
        elif m.group("num"):
            found.append(("num", m.group("num")))
        elif m.group("op"):
            found.append(("op", m.group("op")))
    return found


class Parser:
    """Expressions: strings side by side, names, calls, lists in braces, chains of methods."""

    def __init__(self, found, at=0):
        self.t, self.at = found, at

    def peek(self, kind, value=None):
        if self.at >= len(self.t):
            return False
        k, v = self.t[self.at]
        return k == kind and (value is None or v == value)

    def take(self, kind, value=None):
        if not self.peek(kind, value):
            raise SyntaxError(f"{kind} {value} wanted, not {self.t[self.at:self.at + 5]}")
        self.at += 1
        return self.t[self.at - 1][1]

    def expression(self):
        if self.peek("str"):
            text = ""
            while self.peek("str"):
                text += self.take("str")
            return text
        if self.peek("op", "{"):
            return self.sequence("{", "}")
        if self.peek("num"):
            return self.take("num")
        name = self.take("id")
        if self.peek("op", "("):
            return (name, self.sequence("(", ")"))
        if self.peek("op", "{"):
            return self.sequence("{", "}")
        return (name, None)

    def sequence(self, opening, closing):
        self.take("op", opening)
        items = []
        while not self.peek("op", closing):
            items.append(self.expression())
            if self.peek("op", ","):
                self.take("op", ",")
        self.take("op", closing)
        return items


def definitions(found):
    """Tools and messages by the names of their variables."""
    tools, messages = {}, {}
    for i, (kind, value) in enumerate(found):
        if kind != "id":
            continue
        if value == "common_chat_tool" and found[i + 1][0] == "id" and found[i + 2] in [("op", "{"), ("op", "=")]:
            at = i + 2 + (found[i + 2][1] == "=")
            try:
                name, description, parameters = Parser(found, at).expression()
                tools[found[i + 1][1]] = {"name": name, "description": description, "parameters": json.loads(parameters)}
            except (SyntaxError, ValueError):
                pass
        if value in ("common_chat_msg", "auto") and found[i + 1][0] == "id" and found[i + 2] == ("op", "="):
            try:
                messages.setdefault(found[i + 1][1], message(Parser(found, i + 3).expression(), messages))
            except (SyntaxError, KeyError, TypeError, ValueError):
                pass
    return tools, messages


def call(parts):
    name, arguments, *rest = parts
    return {"name": name, "arguments": arguments, "id": rest[0] if rest and isinstance(rest[0], str) and rest[0] else None}


def message(value, known):
    """A message of a call of one of the source's helpers."""
    name, given = value
    if given is None:
        return known[name]
    given = [None if one == ("{}", None) else one for one in given]
    out = {"content": "", "reasoning": "", "calls": []}
    if name == "simple_assist_msg":
        content, reasoning, tool, arguments, ident = given + [""] * (5 - len(given))
        out.update(content=content, reasoning=reasoning)
        if tool:
            out["calls"].append(call([tool, arguments, ident]))
    elif name == "message_with_tool_calls":
        out["calls"].append(call(given))
    elif name == "message_with_tool_calls_and_reasoning":
        out.update(reasoning=given[2], calls=[call(given[:2])])
    elif name == "message_with_reasoning_and_tool_call":
        out.update(reasoning=given[0], calls=[call(given[1:])])
    elif name == "message_with_content_and_tool_call":
        out.update(content=given[0], calls=[call(given[1:])])
    elif name == "message_with_reasoning_content_and_multiple_tool_calls":
        out.update(reasoning=given[0], content=given[1], calls=[call(one) for one in given[2]])
    else:
        raise KeyError(name)
    return out


def cases(found, tools, messages):
    template = {}
    i = 0
    while i < len(found):
        if found[i] == ("id", "peg_tester") and found[i + 1] == ("op", "(") and found[i + 2][0] == "str" and found[i - 2][0] == "id":
            template[found[i - 2][1]] = found[i + 2][1]
        if found[i][0] == "id" and found[i + 1 : i + 3] == [("op", "."), ("id", "test")] and found[i][1] in template:
            p = Parser(found, i + 3)
            try:
                chain = {"test": p.sequence("(", ")")}
                while p.peek("op", "."):
                    p.take("op", ".")
                    method = p.take("id")
                    chain[method] = p.sequence("(", ")")
                yield template[found[i][1]], case(chain, tools, messages)
            except (SyntaxError, KeyError, TypeError, ValueError) as error:
                print(f"left out: {error!r} at {found[i:i + 8]}", file=sys.stderr)
            i = max(i, p.at - 1)
        i += 1


def case(chain, tools, messages):
    expect = {"content": "", "reasoning": "", "calls": []}
    if "expect" in chain:
        expect = dict(message(chain["expect"][0], messages))
    for method, key in ("expect_content", "content"), ("expect_reasoning", "reasoning"):
        if method in chain:
            expect[key] = chain[method][0]
    if "expect_tool_calls" in chain:
        expect["calls"] = [call(one) for one in chain["expect_tool_calls"][0]]
    offered = []
    for one in chain.get("tools", [[]])[0]:
        if isinstance(one, list):
            offered.append({"name": one[0], "description": one[1], "parameters": json.loads(one[2])})
        else:
            offered.append(tools[one[0]])
    first = lambda method, default: chain[method][0][0] if method in chain else default
    return {
        "text": chain["test"][0],
        "tools": offered,
        "thinking": first("enable_thinking", "true") == "true",
        "thoughts": first("reasoning_format", "COMMON_REASONING_FORMAT_NONE") != "COMMON_REASONING_FORMAT_NONE",
        "partial": first("is_partial", "false") == "true",
        "schema": "json_schema" in chain,
        "expect": expect,
    }


def marks(template):
    found = re.findall(r"<function name=|</?[A-Za-z_|｜][^<>\s{}\"']{0,40}>?|[<◁]/?think[▷>]|\[/?[A-Z][A-Z_ ]+\]|>>>\S{0,14}|｜[A-Z]+｜|functools|Action:|\]<\]minimax\[>\[|<mm:think>|```json|'>>>'", template)
    return sorted(set(found))


def prompt(template, case):
    """The end of the prompt: of one question, with these tools."""
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    template = re.sub(r"{%-?\s*(end)?generation\s*-?%}", "", template)
    env.filters["tojson"] = lambda value, indent=None, **_: json.dumps(value, ensure_ascii=False, indent=indent)

    def fail(text):
        raise jinja2.TemplateError(text)

    env.globals.update(raise_exception=fail, strftime_now=lambda pattern: "2026-11-23")
    values = {
        "messages": [{"role": "user", "content": "Hello, world!"}],
        "tools": [{"type": "function", "function": tool} for tool in case["tools"]] or None,
        "add_generation_prompt": True,
        "enable_thinking": case["thinking"],
        "thinking": case["thinking"],
        "bos_token": "",
        "eos_token": "",
    }
    try:
        return env.from_string(template).render(**values)[-60:]
    except Exception as error:
        print(f"no prompt: {error!r}", file=sys.stderr)
        return ""


def main():
    repository, origin = sys.argv[1:]
    show = lambda path: subprocess.run(["git", "-C", repository, "show", f"HEAD:{path}"], capture_output=True, check=True, text=True).stdout
    commit = subprocess.run(["git", "-C", repository, "rev-parse", "HEAD"], capture_output=True, check=True, text=True).stdout.strip()
    found = tokens(show(SOURCE))
    tools, messages = definitions(found)
    out = {}
    for path, one in cases(found, tools, messages):
        try:
            template = show(path)
        except subprocess.CalledProcessError:
            # Not in this repository: what the case itself shows.
            print(f"no template: {path}", file=sys.stderr)
            template = one["text"] + ("<think>" if one["text"].partition("</think>")[1] else "")
        name = path.rsplit("/", 1)[-1].removesuffix(".jinja")
        family = out.setdefault(name, {"marks": [], "cases": []})
        family["marks"] = sorted({*family["marks"], *marks(template)})
        one["prompt"] = prompt(template, one)
        family["cases"].append(one)
    used = {tool["name"]: {"name": tool["name"], "parameters": tool["parameters"]} for family in out.values() for one in family["cases"] for tool in one["tools"]}
    for family in out.values():
        for one in family["cases"]:
            one["tools"] = [tool["name"] for tool in one["tools"]]
            one.pop("thinking")
    record = {"source": f"https://github.com/{origin}/blob/{commit}/{SOURCE}", "license": "MIT", "tools": used, "templates": out}
    json.dump(record, open("tests/data/calls/vectors.json", "w"), ensure_ascii=False, indent=1, sort_keys=False)
    print(f"{sum(len(family['cases']) for family in out.values())} cases of {len(out)} templates")


main()
