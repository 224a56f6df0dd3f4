"""tests/data/tokenizer/charsmap.bin: a table of normalization as SentencePiece compiles it, from a few rules.

Needs `pip install sentencepiece`, which the rest of the oracle does not; so the table is kept, 1 kB.
"""

import io
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

# Some rules of NFKC, SentencePiece's additions (white space, zero-width characters), and rules with a common prefix.
RULES = {
    "ﬁ": "fi", "ﬀ": "ff", "ﬃ": "ffi", "½": "1⁄2", "①": "1", "㍿": "株式会社", "Ａ": "A", "ｂ": "b", "！": "!", "ﾊﾟ": "パ", "ｶ": "カ",
    "e\u0301": "é", "a\u0308": "ä", "n\u0303": "ñ", "u\u0308\u0304": "ǖ", "u\u0308": "ü", "\u1112\u1161\u11ab": "\ud55c",
    "\t": " ", "\n": " ", "\u00a0": " ", "\u3000": " ", "\u200b": " ", "\u200d": "", "\ufeff": "", "\u00ad": "", "…": "...", "™": "TM", "\u212b": "\u00c5",
}  # fmt: skip


def write(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder) / "rules.tsv"
        codes = lambda text: " ".join(f"{ord(character):X}" for character in text)  # noqa: E731
        rules.write_text("".join(f"{codes(source)}\t{codes(target)}\n" for source, target in RULES.items()))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["the water of the river", "a small village"] * 50),
            model_writer=model,
            vocab_size=20,
            normalization_rule_tsv=str(rules),
            minloglevel=2,
        )
    proto = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue())
    path.write_bytes(proto.normalizer_spec.precompiled_charsmap)


if __name__ == "__main__":
    write(Path(__file__).parents[2] / "tests" / "data" / "tokenizer" / "charsmap.bin")
