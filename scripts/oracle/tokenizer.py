"""Small trained tokenizers of the kinds that real models have, as tokenizer.json and as GGUF metadata."""

import json
import struct
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from gguf import GGUFWriter, TokenType
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers.tokenization_utils_base import generate_merges

from . import chat_templates
from .shapes import VOCABULARY
from .training_text import CORPUS

# The pre-tokenizers' patterns, as the tokenizer.json files of these models hold them.
LETTERS_AND_MARKS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_PATTERN = LETTERS_AND_MARKS % r"\p{N}{1,3}"
QWEN2_PATTERN = LETTERS_AND_MARKS % r"\p{N}"
# Patterns that split words by case: Mistral's tekken; OpenAI's o200k adds English endings and runs of three digits.
CASED = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+%s"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*%s"
    r"|%s| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_PATTERN = CASED % ("", "", r"\p{N}")
ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K_PATTERN = CASED % (ENDINGS, ENDINGS, r"\p{N}{1,3}")


def split(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False),
        ]
    )


@dataclass(frozen=True)
class Kind:
    """One kind of byte-level BPE. `pre` is the pre-tokenizer's name in GGUF's tokenizer.ggml.pre."""

    pre: str
    pre_tokenizer: pre_tokenizers.PreTokenizer
    vocabulary: int
    specials: dict[str, str]  # role -> token; placed behind the trained vocabulary, in this order
    plain_added: tuple[str, ...] = ()  # added tokens that are not special: they survive skip_special_tokens
    normalizer: normalizers.Normalizer | None = None
    adds_bos: bool = False
    ignore_merges: bool = False
    chat_template: str | None = None  # none for a model that was never taught to chat


CHATML = {"eos": "<|endoftext|>", "start": "<|im_start|>", "eot": "<|im_end|>"}
LLAMA3 = {
    "bos": "<|begin_of_text|>",
    "eos": "<|end_of_text|>",
    "start": "<|start_header_id|>",
    "end": "<|end_header_id|>",
    "eot": "<|eot_id|>",
    "pad": "<|finetune_right_pad_id|>",
}

BYTE_LEVEL = {
    # The vocabulary of the random models.
    "llama-bpe": Kind(
        "llama-bpe",
        split(LLAMA3_PATTERN),
        VOCABULARY,
        LLAMA3,
        adds_bos=True,
        ignore_merges=True,
        chat_template=chat_templates.LLAMA3,
    ),
    "gpt2": Kind("gpt-2", pre_tokenizers.ByteLevel(add_prefix_space=False), 520, {"eos": "<|endoftext|>"}),
    "smollm": Kind(
        "smollm",
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        480,
        CHATML,
        chat_template=chat_templates.CHATML,
    ),
    "qwen2": Kind(
        "qwen2",
        split(QWEN2_PATTERN),
        640,
        CHATML,
        plain_added=("<tool_call>", "</tool_call>"),
        normalizer=normalizers.NFC(),
        chat_template=chat_templates.CHATML_TOOLS,
    ),
    # Phi-4-mini.
    "gpt-4o": Kind("gpt-4o", split(O200K_PATTERN), 560, {"eos": "<|endoftext|>", "start": "<|end|>"}),
    # Ministral.
    "tekken": Kind("tekken", split(TEKKEN_PATTERN), 560, {"bos": "<s>", "eos": "</s>"}, adds_bos=True, ignore_merges=True),
    # OLMo 2.
    "dbrx": Kind("dbrx", split(LLAMA3_PATTERN), 520, {"eos": "<|endoftext|>"}),
    # StableLM 2.
    "stablelm2": Kind("stablelm2", split(QWEN2_PATTERN), 520, {"eos": "<|endoftext|>"}),
    # Granite.
    "refact": Kind(
        "refact",
        pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
        480,
        {"eos": "<|end_of_text|>", "start": "<|start_of_role|>"},
    ),
}


@dataclass(frozen=True)
class MadeTokenizer:
    """A trained tokenizer and its files' metadata."""

    tokenizer: Tokenizer
    ids: dict[str, int]  # role -> id
    model: str  # tokenizer.ggml.model
    pre: str
    adds_bos: bool
    chat_template: str | None
    scores: dict[int, float] = field(default_factory=dict)  # SentencePiece and Unigram only
    byte_tokens: frozenset[int] = frozenset()
    space_prefix: bool = True  # SentencePiece and Unigram only
    table: bytes | None = None  # SentencePiece's table of normalization

    def tokens(self) -> list[str]:
        """All V tokens by id."""
        return [self.tokenizer.id_to_token(index) for index in range(self.tokenizer.get_vocab_size())]

    def token_type(self, index: int) -> TokenType:
        added = self.tokenizer.get_added_tokens_decoder().get(index)
        if index == self.ids.get("unk"):
            return TokenType.UNKNOWN
        if added is not None:
            return TokenType.CONTROL if added.special else TokenType.USER_DEFINED
        return TokenType.BYTE if index in self.byte_tokens else TokenType.NORMAL

    def write_gguf_metadata(self, writer: GGUFWriter) -> None:
        tokens = self.tokens()
        if self.model == "bert":
            # llama.cpp marks the beginnings of words, not their continuations.
            marked = lambda token: token[2:] if token.startswith("##") else "▁" + token
            kinds = [self.token_type(index) for index in range(len(tokens))]
            plain = (TokenType.CONTROL, TokenType.UNKNOWN)
            tokens = [token if kind in plain else marked(token) for token, kind in zip(tokens, kinds, strict=True)]
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre(self.pre)
        writer.add_token_list(tokens)
        if self.scores:
            writer.add_token_scores([self.scores[index] for index in range(len(tokens))])
        writer.add_token_types([self.token_type(index) for index in range(len(tokens))])
        if self.model == "gpt2":
            merges = json.loads(self.tokenizer.to_str())["model"]["merges"]
            writer.add_token_merges([" ".join(pair) for pair in merges])
        for role, add in [
            ("bos", writer.add_bos_token_id),
            ("eos", writer.add_eos_token_id),
            ("unk", writer.add_unk_token_id),
            ("pad", writer.add_pad_token_id),
            # llama.cpp has no key for this token.
            ("cls", writer.add_bos_token_id),
            ("sep", writer.add_sep_token_id),
        ]:
            if role in self.ids:
                add(self.ids[role])
        if "eot" in self.ids and self.ids["eot"] != self.ids["eos"]:
            writer.add_eot_token_id(self.ids["eot"])
        if self.model != "bert":
            writer.add_add_bos_token(self.adds_bos)
        if self.scores:
            writer.add_add_space_prefix(self.space_prefix)
        if self.table is not None:
            writer.add_add_eos_token(True)
            writer.add_remove_extra_whitespaces(True)
            writer.add_precompiled_charsmap(self.table)
        if self.chat_template is not None:
            writer.add_chat_template(self.chat_template)

    def write_folder(self, folder: Path, template_in_config: bool) -> None:
        """tokenizer.json and tokenizer_config.json; the template goes in there, or into a file of its own as now usual."""
        folder.mkdir(parents=True, exist_ok=True)
        self.tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        config: dict = {
            "added_tokens_decoder": {
                str(index): {
                    "content": token.content,
                    "lstrip": token.lstrip,
                    "normalized": token.normalized,
                    "rstrip": token.rstrip,
                    "single_word": token.single_word,
                    "special": token.special,
                }
                for index, token in sorted(self.tokenizer.get_added_tokens_decoder().items())
            },
            "add_bos_token": self.adds_bos,
            "clean_up_tokenization_spaces": False,
            "model_max_length": 512,
            "tokenizer_class": "LlamaTokenizer" if self.model == "llama" else "PreTrainedTokenizerFast",
        }
        framing = [role for role in ("cls", "sep") if role in self.ids]
        for role in ("bos", "eos", "unk", "pad", *framing):
            config[f"{role}_token"] = self.tokenizer.id_to_token(self.ids[role]) if role in self.ids else None
        if self.chat_template is None:
            pass
        elif template_in_config:
            config["chat_template"] = self.chat_template
        else:
            (folder / "chat_template.jinja").write_text(self.chat_template)
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")


def byte_level(name: str) -> MadeTokenizer:
    """Trains the byte-level BPE tokenizer called `name` in BYTE_LEVEL."""
    kind = BYTE_LEVEL[name]
    added = len(kind.specials) + len(kind.plain_added)
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind.ignore_merges))
    tokenizer.pre_tokenizer = kind.pre_tokenizer
    if kind.normalizer is not None:
        tokenizer.normalizer = kind.normalizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=kind.vocabulary - added,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in kind.specials.values()])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in kind.plain_added])
    assert tokenizer.get_vocab_size() == kind.vocabulary, (name, tokenizer.get_vocab_size())
    ids = {role: tokenizer.token_to_id(token) for role, token in kind.specials.items()}
    if kind.adds_bos:
        # As in Llama 3: the byte-level processor, then a template that adds the first token.
        bos = kind.specials["bos"]
        tokenizer.post_processor = processors.Sequence(
            [
                processors.ByteLevel(trim_offsets=False),
                processors.TemplateProcessing(
                    single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, ids["bos"])]
                ),
            ]
        )
    else:
        tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return MadeTokenizer(tokenizer, ids, "gpt2", kind.pre, kind.adds_bos, kind.chat_template)


def sentencepiece(vocabulary: int = 700, gemma: bool = False) -> MadeTokenizer:
    """A tokenizer of the Llama 2 kind: SentencePiece BPE with byte fallback, in the form transformers converts it to.

    The order of ids is SentencePiece's: <unk>, <s>, </s>, 256 bytes, merged pieces by rank, single characters. Gemma's is another, it puts
    no space before a text, and runs of line ends are tokens that are found first.
    """
    bytes_of = [f"<0x{byte:02X}>" for byte in range(256)]
    head = ["<unk>", "<s>", "</s>", *bytes_of]
    specials, runs = head[:3], []
    if gemma:
        specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
        runs = ["\n\n", "\n\n\n", "▁▁", "▁▁▁▁"]
        head = [*specials, *runs, *bytes_of]
    # Words are separated for training only; the finished tokenizer has no pre-tokenizer, as the real one.
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    # The commonest characters, rarer ones fall back to bytes. Chosen here because the trainer breaks ties at random.
    counts = Counter("".join(CORPUS).replace(" ", "▁"))
    alphabet = sorted(counts, key=lambda character: (-counts[character], character))[:150]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(head),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        special_tokens=[],
        show_progress=False,
    )
    trained.train_from_iterator(CORPUS, trainer)
    by_id = sorted(trained.get_vocab(), key=trained.token_to_id)
    by_id = [piece for piece in by_id if piece not in head]
    pieces = [piece for piece in by_id if len(piece) > 1] + [piece for piece in by_id if len(piece) == 1]
    tokens = head + pieces
    vocab = {token: index for index, token in enumerate(tokens)}
    scores = {index: -float(max(index - len(head), 0)) for index in range(len(tokens))}
    merges = generate_merges(vocab, {piece: scores[vocab[piece]] for piece in pieces if len(piece) > 1})

    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    decoded = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if gemma:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
        tokenizer.decoder = decoders.Sequence(decoded)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        tokenizer.decoder = decoders.Sequence([*decoded, decoders.Strip(" ", 1, 0)])
    bos = "<bos>" if gemma else "<s>"
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, vocab[bos])]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in runs])
    ids = {"unk": vocab["<unk>"], "bos": vocab[bos], "eos": vocab["<eos>" if gemma else "</s>"]}
    bytes_ = frozenset(vocab[token] for token in bytes_of)
    template = None if gemma else chat_templates.MISTRAL
    return MadeTokenizer(tokenizer, ids, "llama", "default", True, template, scores=scores, byte_tokens=bytes_, space_prefix=not gemma)


def unigram(vocabulary: int = 600) -> MadeTokenizer:
    """A tokenizer of T5's kind: Unigram, spaces made visible, without a table of normalization."""
    specials = ["<pad>", "</s>", "<unk>"]
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    trainer = trainers.UnigramTrainer(vocab_size=vocabulary, special_tokens=specials, unk_token="<unk>", show_progress=False)
    trained.train_from_iterator(CORPUS, trainer)
    # GGUF holds scores as f32: rounded, so that both forms are equal.
    pieces = [(token, struct.unpack("f", struct.pack("f", score))[0]) for token, score in json.loads(trained.to_str())["model"]["vocab"]]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=specials.index("<unk>"), byte_fallback=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    ids = {"pad": 0, "eos": 1, "unk": 2}
    return MadeTokenizer(tokenizer, ids, "t5", "default", False, None, scores=dict(enumerate(score for _, score in pieces)))


def unigram_with_table(vocabulary: int = 600) -> MadeTokenizer:
    """A tokenizer of XLM-RoBERTa's kind: Unigram after SentencePiece's table of normalization, texts between <s> and </s>."""
    table = (Path(__file__).parents[2] / "tests" / "data" / "tokenizer" / "charsmap.bin").read_bytes()
    made = unigram(vocabulary)
    description = json.loads(made.tokenizer.to_str())
    names = {"<pad>": "<s>", "<unk>": "<unk>", "</s>": "</s>"}
    pieces = [(names.get(token, token), score) for token, score in description["model"]["vocab"]]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    # As transformers makes them of a SentencePiece model.
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Precompiled(table), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), "▁")]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    ids = {"bos": 0, "eos": 1, "unk": 2}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in names.values()])
    return MadeTokenizer(tokenizer, ids, "t5", "default", True, None, scores=dict(enumerate(score for _, score in pieces)), table=table)


def xlm_roberta(trained: Tokenizer) -> MadeTokenizer:
    """A trained tokenizer with XLM-RoBERTa's order of special tokens, whose positions are counted from the padding token's id."""
    made = replace(unigram_with_table(), tokenizer=trained)
    description = json.loads(trained.to_str())
    specials = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [*((token, 0.0) for token in specials), *(map(tuple, description["model"]["vocab"][3:]))]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3, byte_fallback=False))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = made.tokenizer.normalizer, made.tokenizer.pre_tokenizer, made.tokenizer.decoder
    ids = {"bos": 0, "pad": 1, "eos": 2, "unk": 3}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    return replace(made, tokenizer=tokenizer, ids=ids, scores=dict(enumerate(score for _, score in pieces)))


def word_piece(vocabulary: int = 700) -> MadeTokenizer:
    """A tokenizer of BERT's kind: lower-case words cut greedily, texts between [CLS] and [SEP]."""
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=specials, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.decoder = decoders.WordPiece()
    ids = {role: tokenizer.token_to_id(f"[{role.upper()}]") for role in ("pad", "unk", "cls", "sep")}
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", ids["cls"]), ("[SEP]", ids["sep"])]
    )
    return MadeTokenizer(tokenizer, ids, "bert", "default", True, None)
