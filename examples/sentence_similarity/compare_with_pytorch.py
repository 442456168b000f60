# SPDX-License-Identifier: MIT
"""Compares the sentence vectors of sentence_similarity with PyTorch's.

    python compare_with_pytorch.py DIR PROGRAM [FILE]

DIR is the model's directory, PROGRAM the built sentence_similarity, FILE one sentence a line
(default: sentences.txt beside this script). Needs torch and transformers. Fails if an element of a
vector differs by more than 1e-5, or if a sentence's vector depends on its batch.
"""

import json
import pathlib
import subprocess
import sys

import torch
from transformers import AutoTokenizer, BertModel

TOLERANCE = 1e-5


def maximum_length(directory, model):
    settings = directory / "sentence_bert_config.json"
    length = model.config.max_position_embeddings
    if settings.exists():
        length = min(length, json.loads(settings.read_text())["max_seq_length"])
    return length


def vectors_of_pytorch(directory, sentences, batch_size, scalar):
    """sentence-transformers' recipe for this model: mean over the tokens, then length 1."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = BertModel.from_pretrained(directory, dtype=scalar).eval()
    vectors = []
    with torch.inference_mode():
        for i in range(0, len(sentences), batch_size):
            inputs = tokenizer(sentences[i:i + batch_size], padding=True, truncation=True,
                               max_length=maximum_length(directory, model), return_tensors="pt")
            hidden = model(**inputs).last_hidden_state
            keep = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)
            mean = (hidden * keep).sum(1) / keep.sum(1)
            vectors.append(torch.nn.functional.normalize(mean, dim=1))
    return torch.cat(vectors).double()


def vectors_of_program(program, directory, sentences, batch_size):
    vectors = []
    for i in range(0, len(sentences), batch_size):
        text = "".join(sentence + "\n" for sentence in sentences[i:i + batch_size])
        result = subprocess.run([program, "--vectors", str(directory), "-"], input=text.encode(),
                                stdout=subprocess.PIPE, check=True)
        lines = result.stdout.decode("ascii").splitlines()
        # 9 digits make the float again.
        vectors += [[float(word) for word in line.split()] for line in lines]
    return torch.tensor(vectors, dtype=torch.float32).double()


def main():
    directory, program = pathlib.Path(sys.argv[1]), sys.argv[2]
    default = pathlib.Path(__file__).with_name("sentences.txt")
    file = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else default
    sentences = file.read_text("utf-8").splitlines()
    torch.set_num_threads(1)
    count = len(sentences)

    exact = vectors_of_pytorch(directory, sentences, 1, torch.float64)
    alone = vectors_of_program(program, directory, sentences, 1)
    assert alone.shape == exact.shape, (alone.shape, exact.shape)
    print(f"{count} sentences, vectors of {exact.shape[1]}; largest difference of an element")
    print(f"{'batch':>5}  {'from PyTorch':>12}  {'from float64':>12}  {'PyTorch from float64':>20}  "
          "same bits as alone")
    passed = True
    for batch_size in (1, 7, 13, count):
        pytorch = vectors_of_pytorch(directory, sentences, batch_size, torch.float32)
        found = vectors_of_program(program, directory, sentences, batch_size)
        difference = (found - pytorch).abs().max().item()
        same = torch.equal(found, alone)
        print(f"{batch_size:5}  {difference:12.2e}  {(found - exact).abs().max().item():12.2e}  "
              f"{(pytorch - exact).abs().max().item():20.2e}  {'yes' if same else 'NO'}")
        passed = passed and difference <= TOLERANCE and same
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
