#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Trains the language identifier: a BERT encoder with a classification head over pieces of bytes.

    python3 collect_text.py --packages downloads --output text
    python3 train.py --text text --udhr ../data/udhr --output model

Writes `config.json`, `model.safetensors` (16-bit floats) and `vocab.txt` in the form of transformers'
BertForSequenceClassification. Needs torch, transformers, safetensors and tokenizers. Reproducible for
a given set of texts and library versions: everything random comes from --seed.

A training example: a language (uniform), a kind of text, a line of it or several short
ones, a cut of 16 to 160 bytes at word boundaries, at times without punctuation. From word lists,
sequences of words sampled by frequency are made. Lines that share six words in a row with a line of
held_out/ are left out.
"""

import argparse
import itertools
import json
import math
import pathlib
import random
import time
from collections import Counter

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer as PieceTrainer, models, pre_tokenizers, trainers
from transformers import BertConfig, BertForSequenceClassification

from evaluate import HERE, measure, read_held_out, read_lines
from tokenizer import PAD, Tokenizer, normalise

LANGUAGES = {
    "afr": "Afrikaans", "arb": "Arabic", "ben": "Bengali", "bul": "Bulgarian", "cat": "Catalan",
    "ces": "Czech", "cmn": "Chinese", "cym": "Welsh", "dan": "Danish", "deu": "German",
    "ekk": "Estonian", "ell": "Greek", "eng": "English", "epo": "Esperanto", "eus": "Basque",
    "fin": "Finnish", "fra": "French", "gle": "Irish", "heb": "Hebrew", "hin": "Hindi",
    "hrv": "Croatian", "hun": "Hungarian", "hye": "Armenian", "ind": "Indonesian",
    "isl": "Icelandic", "ita": "Italian", "jpn": "Japanese", "kat": "Georgian", "kor": "Korean",
    "lat": "Latin", "lit": "Lithuanian", "lvs": "Latvian", "nld": "Dutch",
    "nob": "Norwegian Bokmål", "pes": "Persian", "pol": "Polish", "por": "Portuguese",
    "ron": "Romanian", "rus": "Russian", "slk": "Slovak", "slv": "Slovenian", "spa": "Spanish",
    "srp_latn": "Serbian (Latin)", "swe": "Swedish", "swh": "Swahili", "tgl": "Tagalog",
    "tha": "Thai", "tur": "Turkish", "ukr": "Ukrainian", "vie": "Vietnamese",
}
OWN_SCRIPT = ("ben", "cmn", "ell", "heb", "hin", "hye", "jpn", "kat", "kor", "tha")
NO_SPACES = ("cmn", "jpn", "tha")
KIND_WEIGHT = {"story": 4, "children": 3, "interface": 3, "manual": 1.5, "fortune": 2,
               "command": 2, "word": 5, "udhr": 1, "written": 6}


def runs(line, code):
    """Every run of 6 words of a line (of 12 letters where words aren't set apart), or all of it if
    it's shorter; two lines that share one are taken for the same text."""
    words = normalise(line).strip("_")
    words, size = (words.replace("_", ""), 12) if code in NO_SPACES else (words.split("_"), 6)
    return {"_".join(words[i:i + size]) for i in range(max(1, len(words) - size + 1))}


class Texts:
    """Training lines by language and kind, and the drawing of examples from them."""

    def __init__(self, text_folder, udhr_folder, written_folder, held_out, seed):
        excluded = {run for texts in held_out.values() for code, lines in texts.items()
                    for line in lines for run in runs(line, code)}
        self.random = random.Random(seed)
        self.development = {}
        self.kinds = {}
        left_out = 0
        shared = self.shared_lines(text_folder)
        for code in LANGUAGES:
            self.kinds[code], self.development[code] = {}, []
            for kind in KIND_WEIGHT:
                folder = {"udhr": udhr_folder, "written": written_folder}.get(
                    kind, text_folder / kind)
                path = folder / (code + ".txt")
                if not path.exists():
                    continue
                lines = read_lines(path)
                if kind == "word":
                    pairs = [line.rsplit(" ", 1) for line in lines]
                    weights = list(itertools.accumulate(float(f) ** 0.7 for _, f in pairs))
                    self.kinds[code][kind] = ([w for w, _ in pairs], weights)
                    continue
                lines = [line for line in lines if code == "eng" or line not in shared]
                kept = [line for line in lines if excluded.isdisjoint(runs(line, code))]
                left_out += len(lines) - len(kept)
                if kind not in ("udhr", "written"):
                    kept.sort()
                    self.random.shuffle(kept)
                    count = min(40, len(kept) // 20)
                    self.development[code] += kept[:count]
                    kept = kept[count:]
                if kept:
                    self.kinds[code][kind] = kept
        self.mixture = {}
        for code, kinds in self.kinds.items():
            sizes = {k: len(v[0]) if k == "word" else len(v) for k, v in kinds.items()}
            self.mixture[code] = (list(kinds), [
                KIND_WEIGHT[k] * min(1, sizes[k] / 2000) ** 0.5 for k in kinds])
        print(f"lines left out because they are held out: {left_out}")

    @staticmethod
    def shared_lines(text_folder):
        """Lines filed under English or under four languages and more: names and untranslated text."""
        uses = Counter()
        for code in LANGUAGES:
            lines = {line for path in text_folder.glob(f"*/{code}.txt") if path.parent.name != "word"
                     for line in read_lines(path)}
            uses.update(dict.fromkeys(lines, 4 if code == "eng" else 1))
        return {line for line, count in uses.items() if count >= 4}

    def line(self, code):
        kinds, weights = self.mixture[code]
        kind = self.random.choices(kinds, weights)[0]
        if kind == "word":
            words, cumulative = self.kinds[code]["word"]
            glue = "" if code in NO_SPACES else " "
            return glue.join(self.random.choices(words, cum_weights=cumulative,
                                                 k=self.random.randint(3, 15)))
        return self.random.choice(self.kinds[code][kind])

    def example(self, code):
        """A cut of a random line, from short to long, in varied writing."""
        most = int(math.exp(self.random.uniform(math.log(16), math.log(160))))
        line = self.line(code)
        while len(line.encode()) < most and self.random.random() < 0.75:
            line += " " + self.line(code)
        if len(line.encode()) > most:
            if code in NO_SPACES:
                start = self.random.randrange(len(line)) if self.random.random() < 0.6 else 0
                line = line[start:]
                while len(line.encode()) > max(most, 9):
                    line = line[:-max(1, (len(line.encode()) - most) // 4)]
            else:
                words = line.split()
                start = self.random.randrange(len(words)) if self.random.random() < 0.6 else 0
                chosen = []
                for word in words[start:]:
                    if chosen and len(" ".join(chosen + [word]).encode()) > most:
                        break
                    chosen.append(word)
                if len(" ".join(chosen)) < 8 and start:
                    chosen = words[max(0, start - 2):start] + chosen
                line = " ".join(chosen)
        if self.random.random() < 0.15:
            line = line.translate({ord(c): None for c in ".,;:!?¡¿«»„“”\"'()’。、！？،؟"}) or line
        return line

    def batches(self, tokenizer, size, pool=16):
        """(ids, labels) of `size` examples; lengths are alike within a batch."""
        codes = list(LANGUAGES)
        while True:
            rows = []
            for _ in range(pool * size):
                label = self.random.randrange(len(codes))
                dropout = self.random.choice((0, 0, 0.1))
                rows.append((tokenizer(self.example(codes[label]), dropout), label))
            rows.sort(key=lambda row: len(row[0]) + self.random.random())
            groups = [rows[i:i + size] for i in range(0, len(rows), size)]
            self.random.shuffle(groups)
            for group in groups:
                width = max(len(ids) for ids, _ in group)
                yield (torch.tensor([ids + [PAD] * (width - len(ids)) for ids, _ in group]),
                       torch.tensor([label for _, label in group]))


def learn_pieces(texts, count, lines_each=4000):
    """Pieces of 2 bytes and more by byte pair encoding of a sample balanced over the languages."""
    sample = []
    for code in LANGUAGES:
        for _ in range(lines_each // 5 if code in OWN_SCRIPT else lines_each):
            sample.append(normalise(texts.line(code)))
    model = PieceTrainer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Split("_", "merged_with_next")
    trainer = trainers.BpeTrainer(vocab_size=count + 700, limit_alphabet=700, max_token_length=12,
                                  show_progress=False)
    model.train_from_iterator(sample, trainer)
    order = sorted(model.get_vocab().items(), key=lambda item: item[1])
    pieces = [piece for piece, _ in order if len(piece.encode()) > 1]
    return pieces[:count]


def save(model, tokenizer, folder):
    """Checkpoint in Hugging Face form, 16-bit floats."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: value.detach().to(torch.float16).contiguous().clone()
               for name, value in model.state_dict().items() if value.is_floating_point()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_diff_dict()
    config.pop("transformers_version", None)
    for name in ("hidden_act", "hidden_size", "num_hidden_layers", "num_attention_heads",
                 "intermediate_size", "max_position_embeddings", "type_vocab_size", "vocab_size",
                 "layer_norm_eps", "pad_token_id", "hidden_dropout_prob",
                 "attention_probs_dropout_prob"):
        config[name] = getattr(model.config, name)
    config.update(architectures=["BertForSequenceClassification"], model_type="bert",
                  position_embedding_type="absolute", dtype="float16", cls_token_id=1,
                  first_byte_id=2, first_piece_id=258, language_names=LANGUAGES)
    (folder / "config.json").write_text(
        json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(tokenizer.pieces) + "\n", encoding="utf-8")


def accuracy(model, tokenizer, held_out):
    """Mean over the languages of the share of right answers, for each set."""
    return {part: sum(sum(p == code for _, p in rows) / len(rows)
                      for code, rows in texts.items() if rows) / len(texts)
            for part, texts in measure(model, tokenizer, held_out).items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, required=True, help="from collect_text.py")
    parser.add_argument("--udhr", type=pathlib.Path, required=True, help="declaration by language")
    parser.add_argument("--written", type=pathlib.Path, default=HERE / "written")
    parser.add_argument("--held-out", type=pathlib.Path, default=HERE / "held_out")
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--pieces", type=int, default=5710)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--length", type=int, default=96, help="ids of a text, [CLS] included")
    parser.add_argument("--steps", type=int, default=8500)
    parser.add_argument("--batch", type=int, default=160)
    parser.add_argument("--rate", type=float, default=2.5e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    random.seed(arguments.seed)
    torch.set_num_threads(arguments.threads)

    held_out = read_held_out(arguments.held_out)
    texts = Texts(arguments.text, arguments.udhr, arguments.written, held_out, arguments.seed)
    tokenizer = Tokenizer(learn_pieces(texts, arguments.pieces), arguments.length)
    codes = list(LANGUAGES)
    model = BertForSequenceClassification(BertConfig(
        vocab_size=tokenizer.vocab_size, hidden_size=arguments.hidden,
        num_hidden_layers=arguments.layers, num_attention_heads=arguments.heads,
        intermediate_size=4 * arguments.hidden, max_position_embeddings=arguments.length,
        type_vocab_size=1, hidden_dropout_prob=0.05, attention_probs_dropout_prob=0.05,
        pad_token_id=PAD, num_labels=len(codes), id2label=dict(enumerate(codes)),
        label2id={code: i for i, code in enumerate(codes)}))
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {tokenizer.vocab_size} ids")

    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01},
                                   {"params": plain, "weight_decay": 0.0}],
                                  lr=arguments.rate, betas=(0.9, 0.98), fused=True)
    warmup = min(400, arguments.steps // 10)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(
        (step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * min(1, step / arguments.steps)))))
    loss_function = torch.nn.CrossEntropyLoss(label_smoothing=0.03)
    started, running = time.time(), None
    batches = texts.batches(tokenizer, arguments.batch)
    checks = {"development": texts.development, **held_out}
    for step in range(1, arguments.steps + 1):
        model.train()
        ids, labels = next(batches)
        logits = model(input_ids=ids, attention_mask=(ids != PAD).long()).logits
        loss = loss_function(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
        if step % 50 == 0:
            print(f"step {step} loss {running:.4f} {time.time() - started:.0f} s", flush=True)
        if step % 500 == 0 or step == arguments.steps:
            save(model, tokenizer, arguments.output)
            print("  " + ", ".join(f"{part} {100 * value:.2f} %" for part, value in
                                   accuracy(model, tokenizer, checks).items()), flush=True)


if __name__ == "__main__":
    main()
