# SPDX-License-Identifier: MIT
"""The decoder of Dive into Deep Learning, section 11.7, from its definition there and under its
names: post-norm blocks of causal self-attention, attention to the encoder's result and
feed-forward, then a linear map to the vocabulary. Numbers are those of training; in evaluation the
book's decoder isn't causal.

checkpoints/d2l_decoder holds the parameters of case "decoder" under the book's names.
"""

import math
import shutil

import torch

from embeddings import sinusoidal_table
from golden import FOLDER, GoldenFile, random_ids, random_tensor, randomize, rename, save_file
from softmax import filled_softmax

V, C, F, H, L = 17, 10, 13, 2, 2
SOURCE = "Dive into Deep Learning, section 11.7"


class MultiHeadAttention(torch.nn.Module):
    """Head h owns the columns [h D, (h + 1) D)."""

    def __init__(self, num_hiddens, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (
            torch.nn.Linear(num_hiddens, num_hiddens, bias=False) for _ in range(4)
        )

    def forward(self, queries, keys, values, valid_lens):
        def split(x):
            return x.unflatten(2, (self.num_heads, -1)).transpose(1, 2).flatten(0, 1)

        q, k, v = split(self.W_q(queries)), split(self.W_k(keys)), split(self.W_v(values))
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        lens = torch.as_tensor(valid_lens).repeat_interleave(self.num_heads, dim=0)
        y = filled_softmax(scores, lens) @ v
        return self.W_o(y.unflatten(0, (-1, self.num_heads)).transpose(1, 2).flatten(2))


class AddNorm(torch.nn.Module):
    def __init__(self, num_hiddens):
        super().__init__()
        self.ln = torch.nn.LayerNorm(num_hiddens)

    def forward(self, x, y):
        return self.ln(y + x)


class PositionWiseFFN(torch.nn.Module):
    def __init__(self, ffn_num_hiddens, ffn_num_outputs):
        super().__init__()
        self.dense1 = torch.nn.Linear(ffn_num_outputs, ffn_num_hiddens)
        self.dense2 = torch.nn.Linear(ffn_num_hiddens, ffn_num_outputs)

    def forward(self, x):
        return self.dense2(torch.relu(self.dense1(x)))


class TransformerDecoderBlock(torch.nn.Module):
    def __init__(self, num_hiddens, ffn_num_hiddens, num_heads):
        super().__init__()
        self.attention1 = MultiHeadAttention(num_hiddens, num_heads)
        self.addnorm1 = AddNorm(num_hiddens)
        self.attention2 = MultiHeadAttention(num_hiddens, num_heads)
        self.addnorm2 = AddNorm(num_hiddens)
        self.ffn = PositionWiseFFN(ffn_num_hiddens, num_hiddens)
        self.addnorm3 = AddNorm(num_hiddens)

    def forward(self, x, enc_outputs, enc_valid_lens):
        batch_size, num_steps, _ = x.shape
        dec_valid_lens = torch.arange(1, num_steps + 1).repeat(batch_size, 1)
        y = self.addnorm1(x, self.attention1(x, x, x, dec_valid_lens))
        y2 = self.attention2(y, enc_outputs, enc_outputs, enc_valid_lens)
        z = self.addnorm2(y, y2)
        return self.addnorm3(z, self.ffn(z))


class TransformerDecoder(torch.nn.Module):
    def __init__(self, vocab_size, num_hiddens, ffn_num_hiddens, num_heads, num_blks):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocab_size, num_hiddens)
        self.blks = torch.nn.Sequential()
        for i in range(num_blks):
            block = TransformerDecoderBlock(num_hiddens, ffn_num_hiddens, num_heads)
            self.blks.add_module("block" + str(i), block)
        self.dense = torch.nn.Linear(num_hiddens, vocab_size)

    def forward(self, ids, enc_outputs, enc_valid_lens):
        x = self.embedding(ids)
        x = x * math.sqrt(x.shape[-1]) + sinusoidal_table(ids.shape[1], x.shape[-1], "interleaved")
        for block in self.blks:
            x = block(x, enc_outputs, enc_valid_lens)
        return self.dense(x)


NAMES = rename(
    ("blks.block", "layers."),
    ("attention1.", "self_attention."),
    ("attention2.", "cross_attention."),
    ("W_q.", "query."),
    ("W_k.", "key."),
    ("W_v.", "value."),
    ("W_o.", "output."),
    ("addnorm1.ln.", "self_attention_norm."),
    ("addnorm2.ln.", "cross_attention_norm."),
    ("addnorm3.ln.", "feed_forward_norm."),
    ("ffn.dense1.", "feed_forward.linear_1."),
    ("ffn.dense2.", "feed_forward.linear_2."),
    ("embedding.", "embeddings.token."),
    ("dense.", "head."),
)


def make(folder=FOLDER):
    file = GoldenFile("dive_into_deep_learning_decoder")
    config = {
        "hidden_size": C,
        "num_attention_heads": H,
        "intermediate_size": F,
        "cross_attention": True,
        "activation": "relu",
        "norm_placement": "post",
        "layer_norm_eps": 1e-5,
    } | {f"{part}_bias": False for part in ("query", "key", "value", "output")}
    lengths = [3, 11]
    memory = random_tensor(1, (2, 11, C))

    block = randomize(TransformerDecoderBlock(C, F, H), seed=2)
    file.add(
        "decoder_block",
        "DecoderLayer",
        config,
        SOURCE,
        lambda x, m: block(x, m, lengths),
        inputs={"x": random_tensor(3, (2, 7, C)), "memory": memory},
        torch_module=block,
        convert=NAMES,
        memory_mask={"key_lengths": lengths},
    )

    decoder = randomize(TransformerDecoder(V, C, F, H, L), seed=4)
    file.add(
        "decoder",
        "TransformerDecoder",
        config
        | {
            "vocab_size": V,
            "num_hidden_layers": L,
            "max_position_embeddings": 1000,
            "position_embedding": "sinusoidal",
            "sinusoidal_layout": "interleaved",
            "scale_embeddings": True,
            "final_norm": False,
            "tie_word_embeddings": False,
            "head_bias": True,
        },
        SOURCE,
        lambda i, m: {"logits": decoder(i, m, lengths)},
        inputs={"ids": random_ids(5, (2, 7), 0, V), "memory": memory},
        torch_module=decoder,
        convert=NAMES,
        memory_mask={"key_lengths": lengths},
        extra={"directory": "d2l_decoder"},
    )
    directory = folder / "checkpoints" / "d2l_decoder"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    state = {name: p.detach().float() for name, p in decoder.state_dict().items()}
    save_file(state, directory / "model.safetensors")
    return file


if __name__ == "__main__":
    make().write()
