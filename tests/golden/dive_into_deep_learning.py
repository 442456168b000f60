# SPDX-License-Identifier: MIT
"""The blocks of Dive into Deep Learning, chapter 11, from their definitions there: additive
attention, attention without biases under valid lengths, the post-norm encoder block and encoder,
the pre-norm vision block and vision transformer.

Masked scores get the finite value -1e6, as there; every length here is at least 1, where that
equals exclusion.
"""

import math

import torch

from embeddings import sinusoidal_table
from feed_forward import FeedForward
from golden import GoldenFile, random_ids, random_tensor, randomize
from patch_embedding import PatchEmbedding
from softmax import filled_softmax


class AdditiveAttention(torch.nn.Module):
    """score(tanh(query(q) + key(k))), no biases."""

    def __init__(self, query_size, key_size, hidden):
        super().__init__()
        self.query = torch.nn.Linear(query_size, hidden, bias=False)
        self.key = torch.nn.Linear(key_size, hidden, bias=False)
        self.score = torch.nn.Linear(hidden, 1, bias=False)

    def forward(self, query, key, value, lengths=None):
        scores = self.score(
            torch.tanh(self.query(query)[:, :, None] + self.key(key)[:, None])
        ).squeeze(-1)
        weights = (
            torch.softmax(scores, dim=-1) if lengths is None else filled_softmax(scores, lengths)
        )
        return torch.bmm(weights, value)


class Attention(torch.nn.Module):
    """Head h owns the columns [h D, (h + 1) D); each head's lengths are its batch element's."""

    def __init__(self, hidden, heads, bias=False):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (
            torch.nn.Linear(hidden, hidden, bias=bias) for _ in range(4)
        )

    def forward(self, query, memory, lengths=None):
        def split(x):
            return x.reshape(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3).flatten(0, 1)

        q, k, v = split(self.query(query)), split(self.key(memory)), split(self.value(memory))
        scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1])
        if lengths is None:
            weights = torch.softmax(scores, dim=-1)
        else:
            weights = filled_softmax(
                scores, torch.as_tensor(lengths).repeat_interleave(self.heads, dim=0)
            )
        y = torch.bmm(weights, v).unflatten(0, (-1, self.heads)).permute(0, 2, 1, 3).flatten(2)
        return self.output(y)


class Block(torch.nn.Module):
    def __init__(self, hidden, intermediate, heads, pre_norm):
        super().__init__()
        self.pre_norm = pre_norm
        self.attention_norm = torch.nn.LayerNorm(hidden)
        self.attention = Attention(hidden, heads)
        self.feed_forward_norm = torch.nn.LayerNorm(hidden)
        self.feed_forward = FeedForward("gelu" if pre_norm else "relu", True, hidden, intermediate)

    def forward(self, x, lengths=None):
        if self.pre_norm:
            normed = self.attention_norm(x)
            x = x + self.attention(normed, normed, lengths)
            return x + self.feed_forward(self.feed_forward_norm(x))
        y = self.attention_norm(x + self.attention(x, x, lengths))
        return self.feed_forward_norm(y + self.feed_forward(y))


class Encoder(torch.nn.Module):
    """Token vectors times sqrt(C), plus the interleaved table, then post-norm blocks."""

    def __init__(self, vocabulary, hidden, intermediate, heads, depth):
        super().__init__()
        self.embeddings = torch.nn.ModuleDict({"token": torch.nn.Embedding(vocabulary, hidden)})
        self.layers = torch.nn.ModuleList(
            Block(hidden, intermediate, heads, False) for _ in range(depth)
        )

    def forward(self, ids, lengths=None):
        x = self.embeddings["token"](ids)
        x = x * math.sqrt(x.shape[-1]) + sinusoidal_table(ids.shape[1], x.shape[-1], "interleaved")
        for layer in self.layers:
            x = layer(x, lengths)
        return x


class Vision(torch.nn.Module):
    """Class token first, one learned position for each token, pre-norm blocks, norm and linear
    map of the class token.
    """

    def __init__(self, image, patch, channels, hidden, intermediate, heads, depth, classes):
        super().__init__()
        tokens = math.prod(side // part for side, part in zip(image, patch)) + 1
        self.patch_embedding = PatchEmbedding(channels, hidden, patch)
        self.class_token = torch.nn.Parameter(torch.zeros(1, 1, hidden))
        self.position_embedding = torch.nn.Parameter(torch.zeros(1, tokens, hidden))
        self.layers = torch.nn.ModuleList(
            Block(hidden, intermediate, heads, True) for _ in range(depth)
        )
        self.final_norm = torch.nn.LayerNorm(hidden)
        self.head = torch.nn.Linear(hidden, classes)

    def forward(self, images):
        x = self.patch_embedding(images)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], dim=1) + self.position_embedding
        for layer in self.layers:
            x = layer(x)
        return self.head(self.final_norm(x[:, 0]))


def flat_vision(state):
    flat = {
        "class_token": lambda t: t.flatten(),
        "position_embedding": lambda t: t.flatten(0, 1),
        "patch_embedding.projection.weight": lambda t: t.flatten(1),
    }
    return {name: flat.get(name, lambda t: t)(tensor) for name, tensor in state.items()}


def make():
    file = GoldenFile("dive_into_deep_learning")
    source = "Dive into Deep Learning, section 11."

    additive = randomize(AdditiveAttention(5, 3, 7), seed=1)
    config = {"query_size": 5, "key_size": 3, "hidden_size": 7}
    qkv = {
        "query": random_tensor(2, (2, 3, 5)),
        "key": random_tensor(3, (2, 11, 3)),
        "value": random_tensor(4, (2, 11, 13)),
    }
    file.add(
        "additive_attention",
        "AdditiveAttention",
        config,
        source + "3",
        lambda *i: additive(*i),
        inputs=qkv,
        torch_module=additive,
    )
    file.add(
        "additive_attention_lengths",
        "AdditiveAttention",
        config,
        source + "3",
        lambda *i: additive(*i, [2, 6]),
        inputs=qkv,
        torch_module=additive,
        mask={"key_lengths": [2, 6]},
    )

    no_bias = {f"{part}_bias": False for part in ("query", "key", "value", "output")}
    attention = randomize(Attention(15, 5), seed=5)
    config = {"hidden_size": 15, "num_attention_heads": 5} | no_bias
    inputs = {"query": random_tensor(6, (2, 4, 15)), "memory": random_tensor(7, (2, 6, 15))}
    file.add(
        "attention",
        "MultiHeadAttention",
        config,
        source + "5",
        lambda q, m: attention(q, m, [3, 2]),
        inputs=inputs,
        torch_module=attention,
        mask={"key_lengths": [3, 2]},
    )
    each = [[1, 2, 3, 4], [6, 5, 2, 1]]
    allowed = torch.arange(6) < torch.tensor(each)[:, None, :, None]
    file.add(
        "attention_lengths_per_query",
        "MultiHeadAttention",
        config,
        source + "5",
        lambda q, m: attention(q, m, each),
        inputs=inputs,
        torch_module=attention,
        mask={"allowed": allowed},
        gradients="input",
    )

    for case, pre_norm, section in (("encoder_block", False, "7"), ("vision_block", True, "8")):
        block = randomize(Block(10, 13, 2, pre_norm), seed=8)
        config = {
            "hidden_size": 10,
            "num_attention_heads": 2,
            "intermediate_size": 13,
            "activation": "gelu" if pre_norm else "relu",
            "norm_placement": "pre" if pre_norm else "post",
            "layer_norm_eps": 1e-5,
        } | no_bias
        file.add(
            case,
            "EncoderLayer",
            config,
            source + section,
            lambda x: block(x, [3, 2]),
            inputs={"x": random_tensor(9, (2, 7, 10))},
            torch_module=block,
            mask={"key_lengths": [3, 2]},
        )

    encoder = randomize(Encoder(17, 10, 13, 2, 2), seed=10)
    config = {
        "vocab_size": 17,
        "hidden_size": 10,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 13,
        "max_position_embeddings": 1000,
        "activation": "relu",
        "norm_placement": "post",
        "position_embedding": "sinusoidal",
        "sinusoidal_layout": "interleaved",
        "scale_embeddings": True,
        "embedding_norm": False,
        "layer_norm_eps": 1e-5,
    } | no_bias
    file.add(
        "encoder",
        "TransformerEncoder",
        config,
        source + "7",
        lambda i: encoder(i, [7, 4]),
        inputs={"ids": random_ids(11, (2, 7), 0, 17)},
        torch_module=encoder,
        mask={"key_lengths": [7, 4]},
    )

    vision = randomize(Vision((9, 15), (3, 5), 2, 10, 13, 2, 2, 7), seed=12)
    config = {
        "image_size": [9, 15],
        "patch_size": [3, 5],
        "num_channels": 2,
        "hidden_size": 10,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 13,
        "num_labels": 7,
        "activation": "gelu",
        "norm_placement": "pre",
        "layer_norm_eps": 1e-5,
    } | no_bias
    file.add(
        "vision_transformer",
        "VisionTransformer",
        config,
        source + "8",
        lambda i: {"logits": vision(i)},
        inputs={"images": random_tensor(13, (3, 2, 9, 15))},
        torch_module=vision,
        convert=flat_vision,
    )
    return file


if __name__ == "__main__":
    make().write()
