# SPDX-License-Identifier: MIT
"""Embedding (torch.nn.Embedding) and Embeddings: sums of token, position and token type vectors
with their options.

Position tables: interleaved sin/cos as in Dive into Deep Learning 11.6, halves [sin | cos] as in
transformers' Marian, and halves with n/2 - 1 in the exponent's denominator as in tensor2tensor
and transformers' Whisper. The libraries make them in float32; the formulas are evaluated in
float64 here and compared with theirs.
"""

import math

import torch
from transformers import BertConfig, RobertaConfig
from transformers.models.bert.modeling_bert import BertEmbeddings
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.roberta.modeling_roberta import RobertaEmbeddings
from transformers.models.whisper.modeling_whisper import sinusoids

from golden import GoldenFile, random_ids, randomize, rename

HUGGING_FACE = rename(
    ("word_embeddings", "token"),
    ("position_embeddings", "position"),
    ("token_type_embeddings", "token_type"),
    ("LayerNorm", "norm"),
)


def sinusoidal_table(positions, size, layout):
    pairs = torch.arange(size // 2, dtype=torch.float64)
    denominator = size / 2 - 1 if layout == "tensor2tensor" else size / 2
    angles = torch.arange(positions, dtype=torch.float64)[:, None] * torch.exp(
        pairs * (-math.log(10000.0) / denominator)
    )
    if layout == "interleaved":
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


def check_tables():
    marian = MarianSinusoidalPositionalEmbedding(50, 14).create_weight()
    assert (sinusoidal_table(50, 14, "concatenated") - marian).abs().max() < 1e-6
    # Its step between frequencies is computed in float32.
    assert (sinusoidal_table(50, 14, "tensor2tensor") - sinusoids(50, 14)).abs().max() < 1e-5
    interleaved = sinusoidal_table(60, 32, "interleaved")
    published = torch.tensor([-0.8757902465, -0.4826918728, -0.3738766648, 0.9274784307])
    assert (interleaved[59, 6:10] - published).abs().max() < 1e-9


class SinusoidalEmbeddings(torch.nn.Module):
    """Token vectors, times sqrt(C) if asked, plus the table's rows from `first`; a LayerNorm if
    asked.
    """

    def __init__(self, vocabulary, size, layout, scale=True, norm=False, first=0):
        super().__init__()
        self.token = torch.nn.Embedding(vocabulary, size)
        if norm:
            self.norm = torch.nn.LayerNorm(size)
        self.layout, self.first = layout, first
        self.factor = math.sqrt(size) if scale else 1.0

    def forward(self, ids):
        y = self.token(ids) * self.factor
        if self.layout is not None:
            y = (
                y
                + sinusoidal_table(self.first + ids.shape[1], y.shape[-1], self.layout)[
                    self.first :
                ]
            )
        return self.norm(y) if hasattr(self, "norm") else y


def make():
    check_tables()
    file = GoldenFile("embeddings")
    vocabulary, size = 17, 13
    ids = random_ids(1, (2, 5), 0, vocabulary)
    ids[0, 1] = ids[1, 3] = ids[1, 4] = 3

    for case, padding in (("embedding", None), ("embedding_padding_id", 3)):
        table = randomize(torch.nn.Embedding(vocabulary, size, padding_idx=padding), seed=2)
        config = {"num_embeddings": vocabulary, "embedding_dim": size} | (
            {} if padding is None else {"padding_id": padding}
        )
        file.add(
            case,
            "Embedding",
            config,
            "torch.nn.Embedding",
            table,
            inputs={"ids": ids},
            torch_module=table,
        )

    shape = {
        "vocab_size": vocabulary,
        "hidden_size": size,
        "max_position_embeddings": 11,
        "type_vocab_size": 3,
    }
    bert = randomize(
        BertEmbeddings(BertConfig(**shape, pad_token_id=0, hidden_dropout_prob=0.0)), seed=3
    )
    config = shape | {"position_embedding": "learned", "layer_norm_eps": 1e-12, "padding_id": 0}
    source = "transformers BertEmbeddings"
    types = random_ids(4, (2, 5), 0, 3)
    ids = random_ids(5, (2, 5), 1, vocabulary)
    ids[1, 3:] = 0
    positions = random_ids(6, (2, 5), 0, 11)
    file.add(
        "bert",
        "Embeddings",
        config,
        source,
        lambda i, t: bert(i, token_type_ids=t),
        inputs={"ids": ids, "token_types": types},
        torch_module=bert,
        convert=HUGGING_FACE,
    )
    file.add(
        "bert_without_types",
        "Embeddings",
        config,
        source,
        lambda i: bert(i),
        inputs={"ids": ids},
        torch_module=bert,
        convert=HUGGING_FACE,
    )
    file.add(
        "bert_positions",
        "Embeddings",
        config,
        source,
        lambda i, t, p: bert(i, token_type_ids=t, position_ids=p),
        inputs={"ids": ids, "token_types": types, "positions": positions},
        torch_module=bert,
        convert=HUGGING_FACE,
    )
    file.add(
        "bert_first_position",
        "Embeddings",
        config,
        source,
        lambda i, t: bert(i, token_type_ids=t, cache_length=6),
        inputs={"ids": ids, "token_types": types},
        torch_module=bert,
        convert=HUGGING_FACE,
        extra={"first_position": 6},
    )

    # RoBERTa counts real tokens from padding_id + 1; padding gets the position padding_id.
    shape = {
        "vocab_size": vocabulary,
        "hidden_size": size,
        "max_position_embeddings": 11,
        "type_vocab_size": 1,
    }
    roberta = randomize(
        RobertaEmbeddings(RobertaConfig(**shape, pad_token_id=1, hidden_dropout_prob=0.0)), seed=7
    )
    config = shape | {
        "position_embedding": "learned",
        "layer_norm_eps": 1e-12,
        "position_offset": 2,
        "padding_id": 1,
    }
    source = "transformers RobertaEmbeddings"
    real = random_ids(8, (2, 7), 2, vocabulary)
    file.add(
        "roberta",
        "Embeddings",
        config,
        source,
        roberta,
        inputs={"ids": real},
        torch_module=roberta,
        convert=HUGGING_FACE,
    )
    padded = real.clone()
    padded[1, 4:] = 1
    positions = RobertaEmbeddings.create_position_ids_from_input_ids(padded, 1)
    # `positions` are rows of the table, or with position_offset taken off, positions of the text.
    file.add(
        "roberta_padded",
        "Embeddings",
        config,
        source,
        lambda i: roberta(i),
        inputs={"ids": padded},
        torch_module=roberta,
        convert=HUGGING_FACE,
        extra={"table_rows": positions.tolist()},
    )

    vocabulary, size = 17, 14
    ids = random_ids(9, (2, 5), 0, vocabulary)
    for case, options in {
        "interleaved_scaled": {"layout": "interleaved"},
        "interleaved": {"layout": "interleaved", "scale": False},
        "interleaved_norm": {"layout": "interleaved", "norm": True},
        "interleaved_first_position": {"layout": "interleaved", "first": 401},
        "concatenated_scaled": {"layout": "concatenated"},
        "tensor2tensor": {"layout": "tensor2tensor", "scale": False},
        "no_positions_scaled": {"layout": None},
    }.items():
        module = randomize(SinusoidalEmbeddings(vocabulary, size, **options), seed=10)
        config = {
            "vocab_size": vocabulary,
            "hidden_size": size,
            "max_position_embeddings": 500,
            "position_embedding": "sinusoidal" if options["layout"] else "none",
            "scale_embeddings": options.get("scale", True),
            "embedding_norm": options.get("norm", False),
            "layer_norm_eps": 1e-5,
        }
        if options["layout"]:
            config["sinusoidal_layout"] = options["layout"]
        file.add(
            case,
            "Embeddings",
            config,
            "torch.nn.Embedding and the table's formula",
            module,
            inputs={"ids": ids},
            torch_module=module,
            extra={"first_position": options["first"]} if "first" in options else None,
        )
    return file


if __name__ == "__main__":
    make().write()
