# SPDX-License-Identifier: MIT
"""The transformer of read_dates in PyTorch: pre-norm encoder and decoder, sinusoidal positions, one table
of characters for both sides and for the output (Vaswani et al. 2017, Xiong et al. 2020).

Parameters are named as in the library, so the checkpoint needs no key map.
"""

import json
import math
import pathlib

import torch
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional

from dates import END, PADDING, START

HERE = pathlib.Path(__file__).resolve().parent


class Attention(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(size, size) for _ in range(4))

    def forward(self, x, memory, allowed=None, causal=False):
        """x (B, T, C), memory (B, S, C), allowed (B, 1, 1, S) bool"""
        q, k, v = (f(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f, y in
                   ((self.query, x), (self.key, memory), (self.value, memory)))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=causal)
        return self.output(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, size, inner):
        super().__init__()
        self.linear_1, self.linear_2 = nn.Linear(size, inner), nn.Linear(inner, size)

    def forward(self, x):
        return self.linear_2(functional.gelu(self.linear_1(x)))


class EncoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        size, heads = c["hidden_size"], c["num_attention_heads"]
        self.attention_norm = nn.LayerNorm(size, c["layer_norm_eps"])
        self.attention = Attention(size, heads)
        self.feed_forward_norm = nn.LayerNorm(size, c["layer_norm_eps"])
        self.feed_forward = FeedForward(size, c["intermediate_size"])

    def forward(self, x, allowed):
        normal = self.attention_norm(x)
        x = x + self.attention(normal, normal, allowed)
        return x + self.feed_forward(self.feed_forward_norm(x))


class DecoderLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        size, heads = c["hidden_size"], c["num_attention_heads"]
        self.self_attention_norm = nn.LayerNorm(size, c["layer_norm_eps"])
        self.self_attention = Attention(size, heads)
        self.cross_attention_norm = nn.LayerNorm(size, c["layer_norm_eps"])
        self.cross_attention = Attention(size, heads)
        self.feed_forward_norm = nn.LayerNorm(size, c["layer_norm_eps"])
        self.feed_forward = FeedForward(size, c["intermediate_size"])

    def forward(self, x, memory, allowed):
        normal = self.self_attention_norm(x)
        x = x + self.self_attention(normal, normal, causal=True)
        x = x + self.cross_attention(self.cross_attention_norm(x), memory, allowed)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Embeddings(nn.Module):
    """sqrt(C) token[id] + position, sines in the even columns, cosines in the odd ones."""

    def __init__(self, c):
        super().__init__()
        size = c["hidden_size"]
        self.token = nn.Embedding(c["vocab_size"], size)
        nn.init.normal_(self.token.weight, std=size ** -0.5)
        angles = (torch.arange(c["max_position_embeddings"], dtype=torch.float64)[:, None]
                  * 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size))
        positions = torch.stack((angles.sin(), angles.cos()), -1).flatten(1)
        self.register_buffer("positions", positions, persistent=False)

    def forward(self, ids):
        positions = self.positions[:ids.shape[1]].to(self.token.weight.dtype)
        return self.token(ids) * math.sqrt(self.token.embedding_dim) + positions


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = Embeddings(c)
        self.layers = nn.ModuleList(EncoderLayer(c) for _ in range(c["num_hidden_layers"]))
        self.final_norm = nn.LayerNorm(c["hidden_size"], c["layer_norm_eps"])

    def forward(self, ids, allowed):
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x, allowed)
        return self.final_norm(x)


class Decoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(c) for _ in range(c["num_decoder_layers"]))
        self.final_norm = nn.LayerNorm(c["hidden_size"], c["layer_norm_eps"])

    def forward(self, x, memory, allowed):
        for layer in self.layers:
            x = layer(x, memory, allowed)
        return self.final_norm(x)


class Transformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)

    def encode(self, ids):
        """ids (B, S), padded with 0: hidden states (B, S, C) and where they count (B, 1, 1, S)"""
        allowed = (ids != PADDING)[:, None, None, :]
        return self.encoder(ids, allowed), allowed

    def decode(self, ids, memory, allowed):
        """logits (B, T, V)"""
        hidden = self.decoder(self.encoder.embeddings(ids), memory, allowed)
        return functional.linear(hidden, self.encoder.embeddings.token.weight)

    def forward(self, ids, targets):
        return self.decode(targets, *self.encode(ids))

    @torch.no_grad()
    def greedy(self, ids, longest=11):
        """ids (B, S): (B, <= longest) of the most probable ids, and the probability of each row"""
        memory, allowed = self.encode(ids)
        result = torch.full((len(ids), 1), START)
        probability = torch.ones(len(ids), dtype=memory.dtype)
        done = torch.zeros(len(ids), dtype=torch.bool)
        while not done.all() and result.shape[1] <= longest:
            best, following = self.decode(result, memory, allowed)[:, -1].softmax(-1).max(-1)
            following = following.where(~done, torch.tensor(PADDING))
            probability *= best.where(~done, torch.tensor(1.0, dtype=memory.dtype))
            result = torch.cat((result, following[:, None]), 1)
            done |= following == END
        return result[:, 1:], probability


def pad(rows):
    width = max(map(len, rows))
    return torch.tensor([row + [PADDING] * (width - len(row)) for row in rows])


def load(folder, dtype=torch.float32):
    model = Transformer(json.loads((folder / "config.json").read_text())).to(dtype)
    model.load_state_dict({k: v.to(dtype) for k, v in
                           load_file(folder / "model.safetensors").items()})
    return model.eval()
