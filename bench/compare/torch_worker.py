# SPDX-License-Identifier: MIT
"""PyTorch, eagerly: its fused attention with one product for queries, keys and values; for decoding
the GPT-2 of transformers, with its cache."""

import sys

import torch
import torch.nn.functional as F

import worker

torch.set_num_threads(int(sys.argv[1]))
EPS = 1e-5


def weight(name, *shape):
    return torch.from_numpy(worker.values(name, shape))


def pair(name, *shape):
    """Weight and bias of a linear map or norm."""
    return weight(name + ".weight", *shape), weight(name + ".bias", shape[0])


def feed_forward(prefix, case):
    width, middle = case["hidden_size"], case["intermediate_size"]
    linear_1 = pair(prefix + "linear_1", middle, width)
    linear_2 = pair(prefix + "linear_2", width, middle)
    return lambda x, mask: F.linear(F.gelu(F.linear(x, *linear_1)), *linear_2)


def gated_feed_forward(prefix, case):
    width, middle = case["hidden_size"], case["intermediate_size"]
    gate = weight(prefix + "gate.weight", middle, width)
    up = weight(prefix + "up.weight", middle, width)
    down = weight(prefix + "down.weight", width, middle)
    return lambda x, mask: F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


def attention(prefix, case):
    width, heads, causal = case["hidden_size"], case["num_attention_heads"], case["causal"]
    parts = [pair(prefix + part, width, width) for part in ("query", "key", "value")]
    projection = [torch.cat(tensors) for tensors in zip(*parts)]
    output = pair(prefix + "output", width, width)

    def forward(x, mask):
        q, k, v = F.linear(x, *projection).view(*x.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return F.linear(y.transpose(1, 2).reshape(x.shape), *output)

    return forward


def encoder_layer(prefix, case):
    width = case["hidden_size"]
    attend = attention(prefix + "attention.", case)
    feed = feed_forward(prefix + "feed_forward.", case)
    norms = [pair(prefix + name, width) for name in ("attention_norm", "feed_forward_norm")]

    def forward(x, mask):
        h = F.layer_norm(x + attend(x, mask), (width,), *norms[0], EPS)
        return F.layer_norm(h + feed(h, mask), (width,), *norms[1], EPS)

    return forward


def key_mask(case):
    mask = worker.key_mask(case)
    return None if mask is None else torch.from_numpy(mask)[:, None, None, :]


def chain(make):
    """Layers with weights of their own, each on the result of the one before."""

    def prepare(case):
        layers = [make(f"layers.{i}.", case) for i in range(case["layers"])]
        x, mask = torch.from_numpy(worker.inputs(case)), key_mask(case)

        def run():
            y = x
            for layer in layers:
                y = layer(y, mask)
            return y

        return run

    return prepare


def encoder(case):
    width = case["hidden_size"]
    token = weight("embeddings.token.weight", case["vocab_size"], width)
    position = weight("embeddings.position.weight", 512, width)[: case["tokens"]]
    norm = pair("embeddings.norm", width)
    layers = [encoder_layer(f"layers.{i}.", case) for i in range(case["layers"])]
    ids, mask = torch.from_numpy(worker.token_ids(case)), key_mask(case)

    def run():
        y = F.layer_norm(F.embedding(ids, token) + position, (width,), *norm, EPS)
        for layer in layers:
            y = layer(y, mask)
        return y

    return run


def decoder(case):
    from transformers import DynamicCache

    model, past = gpt2(case), case["past"]
    cache = DynamicCache(config=model.config)
    model(torch.from_numpy(worker.token_ids(case, past)), past_key_values=cache)
    next_token = torch.from_numpy(worker.token_ids(case))

    def run():
        logits = model(next_token, past_key_values=cache).logits[:, -1]
        cache.crop(-1)
        return logits

    return run


def gpt2(case):
    """The GPT-2 of transformers, with the numbers of all workers."""
    from transformers import GPT2Config, GPT2LMHeadModel

    width, middle = case["hidden_size"], case["intermediate_size"]
    with torch.device("meta"):
        model = GPT2LMHeadModel(GPT2Config(
            vocab_size=case["vocab_size"], n_embd=width, n_inner=middle, n_layer=case["layers"],
            n_head=case["num_attention_heads"], attn_implementation="sdpa"))
    state = {"transformer.wte.weight": weight("embeddings.token.weight", case["vocab_size"], width),
             "transformer.wpe.weight": weight("embeddings.position.weight", 1024, width)}
    state["lm_head.weight"] = state["transformer.wte.weight"]

    def put(to, name, *shape):
        """Linear maps are stored transposed there."""
        w, state[f"transformer.{to}.bias"] = pair(name, *shape)
        state[f"transformer.{to}.weight"] = w.t().contiguous()

    for i in range(case["layers"]):
        to, name = f"h.{i}.", f"layers.{i}."
        put(to + "ln_1", name + "self_attention_norm", width)
        put(to + "ln_2", name + "feed_forward_norm", width)
        put(to + "attn.c_proj", name + "self_attention.output", width, width)
        put(to + "mlp.c_fc", name + "feed_forward.linear_1", middle, width)
        put(to + "mlp.c_proj", name + "feed_forward.linear_2", width, middle)
        parts = [pair(f"{name}self_attention.{part}", width, width)
                 for part in ("query", "key", "value")]
        w, b = (torch.cat(tensors) for tensors in zip(*parts))
        state[f"transformer.{to}attn.c_attn.weight"] = w.t().contiguous()
        state[f"transformer.{to}attn.c_attn.bias"] = b
    put("ln_f", "final_norm", width)
    model.load_state_dict(state, assign=True)
    model.tie_weights()
    return model.eval()


BLOCKS = {"feed_forward": chain(feed_forward), "gated_feed_forward": chain(gated_feed_forward),
          "attention": chain(attention), "encoder_layer": chain(encoder_layer),
          "encoder": encoder, "decoder": decoder}


def prepare(case, threads):
    compute, y = BLOCKS[case["block"]](case), None

    def run():
        nonlocal y
        y = compute()

    return run, lambda: y.numpy()


if __name__ == "__main__":
    with torch.inference_mode():
        worker.serve("PyTorch", torch.__version__.split("+")[0], prepare)
