"""Passages of Debian's documents and entries of its dictionaries, as pairs of a query and a passage."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import lxml.html

from .config import DICTIONARIES, HELD_OUT, PACKAGES, WORDS

HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6", "title", "dt")
SKIPPED = ("script", "style", "nav", "head", "header", "footer", "table", "info", "links")
BLOCKS = ("p", "li", "dd", "pre", "blockquote", "td", "item", "note")


@dataclass(frozen=True)
class Pair:
    page: str  # package and file
    query: str
    passage: str
    held_out: bool


def held_out(page: str) -> bool:
    """Whole pages are held out, by a hash of their name."""
    return int.from_bytes(hashlib.sha256(page.encode()).digest()[:4]) % HELD_OUT == 0


def fetch(folder: Path) -> None:
    """Downloads and unpacks missing packages."""
    for package in (*PACKAGES, *DICTIONARIES):
        target = folder / package
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (deb,) = folder.glob(f"{package}_*.deb")
        subprocess.run(["dpkg", "-x", deb, target], check=True)
        deb.unlink()


def words(text: str) -> str:
    return " ".join(text.replace("¶", " ").split())


def sections(page: bytes) -> Iterator[tuple[str, list[str]]]:
    """The headings of a page, each with its parent heading, and the paragraphs below them."""
    tree = lxml.html.document_fromstring(page)
    title, heading, found = "", "", []
    for element in tree.iter():
        if not isinstance(element.tag, str) or any(a.tag in SKIPPED for a in element.iterancestors()):
            continue
        if element.tag in HEADINGS:
            text = re.sub(r"^[\d.A-Z]{1,8}\.\s+", "", words(element.text_content()))
            if found and heading:
                yield heading, found
            found = []
            if element.tag == "h1" or not title:
                title = text
            small = element.tag == "dt" or len(text.split()) < 3
            heading = f"{title}: {text}" if small and text != title else text
        elif element.tag in BLOCKS and not any(a.tag in BLOCKS for a in element.iterancestors()):
            text = words(element.text_content())
            if len(text.split()) >= 4:
                found.append(text)
    if found and heading:
        yield heading, found


def passages(paragraphs: list[str]) -> Iterator[str]:
    """Passages of paragraphs, as many as fit."""
    kept: list[str] = []
    count = 0
    for paragraph in paragraphs:
        pieces = paragraph.split()
        for at in range(0, len(pieces), WORDS):
            piece = pieces[at : at + WORDS]
            if count + len(piece) > WORDS and count:
                yield " ".join(kept)
                kept, count = [], 0
            kept.append(" ".join(piece))
            count += len(piece)
    if count >= 12:
        yield " ".join(kept)


def documents(folder: Path) -> Iterator[Pair]:
    for package, pattern in PACKAGES.items():
        seen = 0
        for file in sorted((folder / package).glob(pattern)):
            page = f"{package}/{file.name}"
            for heading, paragraphs in sections(file.read_bytes()):
                if not 2 <= len(heading.split()) <= 24:
                    continue
                for passage in passages(paragraphs):
                    seen += 1
                    yield Pair(page, heading, passage, held_out(page))
        if not seen:
            raise SystemExit(f"{package}: no passages in {pattern}")


def wordnet(folder: Path) -> Iterator[Pair]:
    """Pairs of a meaning's words and its definition, and of its examples and the definition."""
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / "wordnet-base/usr/share/wordnet" / f"data.{part}").read_text().splitlines():
            if line.startswith(" "):
                continue
            data, _, gloss = line.partition(" | ")
            fields = data.split()
            lemmas = [re.sub(r"\(.*\)$", "", fields[4 + 2 * i]).replace("_", " ") for i in range(int(fields[3], 16))]
            meaning, *examples = (said.strip() for said in gloss.split('; "'))
            yield Pair("wordnet", ", ".join(lemmas[:3]), meaning.strip(), False)
            for example in examples:
                yield Pair("wordnet", example.strip('" '), f"{lemmas[0]}: {meaning}", False)


def synonyms(folder: Path) -> dict[str, list[str]]:
    """Synonyms of words with few meanings, by the most frequent meaning."""
    found: dict[str, list[str]] = {}
    for part in ("noun", "verb", "adj"):
        lines = (folder / "wordnet-base/usr/share/wordnet" / f"data.{part}").read_text().splitlines()
        meanings = {}
        for fields in (line.partition(" | ")[0].split() for line in lines if not line.startswith(" ")):
            meanings[fields[0]] = [re.sub(r"\(.*", "", fields[4 + 2 * i]) for i in range(int(fields[3], 16))]
        for line in (folder / "wordnet-base/usr/share/wordnet" / f"index.{part}").read_text().splitlines():
            word, *fields = line.split()
            if line.startswith(" ") or not word.isalpha() or int(fields[1]) > 4:
                continue
            others = [other for other in meanings[fields[5 + int(fields[2])]] if other.isalpha() and other.islower() and other != word]
            if others:
                found.setdefault(word, others[:2])
    return found


def entries(text: str) -> Iterator[tuple[str, str]]:
    """A dictionary's entries: a line that is not indented, then lines that are."""
    head, body = "", []
    for line in [*text.splitlines(), "end"]:
        if line and not line[0].isspace():
            if head and body:
                yield head, words(" ".join(body))
            head, body = line, []
        else:
            body.append(line)


def dictionaries(folder: Path) -> Iterator[Pair]:
    for package, name in (("dict-gcide", "gcide"), ("dict-foldoc", "foldoc")):
        text = gzip.decompress((folder / package / "usr/share/dictd" / f"{name}.dict.dz").read_bytes()).decode(errors="replace")
        for head, body in entries(text):
            head = head.split("\\")[0].split("[")[0].strip()
            body = re.sub(r"\[[^\]]*\]|[{}<>\\]|--[A-Z][\w. ]*", "", body)
            body = " ".join(body.split()[:WORDS])
            if head and len(body.split()) >= 5:
                yield Pair(name, head, body, False)


def write(folder: Path, to: Path) -> None:
    """Writes all pairs, one a line, without repeated passages."""
    fetch(folder)
    count, seen = {}, set()
    with gzip.open(to, "wt", compresslevel=9) as out:
        for source in (documents, wordnet, dictionaries):
            for pair in source(folder):
                if (key := hash((pair.query, pair.passage))) in seen:
                    continue
                seen.add(key)
                out.write(json.dumps(asdict(pair), ensure_ascii=False) + "\n")
                where = f"{pair.page.split('/')[0]}{' held out' if pair.held_out else ''}"
                count[where] = count.get(where, 0) + 1
    for where, n in sorted(count.items()):
        print(f"{where:32}{n:8}")


def read(file: Path) -> Iterable[Pair]:
    with gzip.open(file, "rt") as lines:
        return [Pair(**json.loads(line)) for line in lines]
