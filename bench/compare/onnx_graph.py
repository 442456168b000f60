# SPDX-License-Identifier: MIT
"""The blocks as ONNX models: operators of the standard, and for ONNX Runtime its own fused
attention (it fuses the rest itself)."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import worker

EPS = 1e-5
OWN = "com.microsoft"  # ONNX Runtime's operators
LOWEST = np.finfo(np.float32).min


class Graph:
    """A model in the making. Tensors are names; sizes that are 0 stand for "as they come"."""

    def __init__(self, case, own_attention):
        self.case, self.own_attention = case, own_attention
        self.width, self.heads = case["hidden_size"], case["num_attention_heads"]
        self.nodes, self.constants, self.inputs, self.outputs = [], [], [], []
        self.mask = None

    def model(self):
        """The serialized model."""
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        versions = [helper.make_opsetid("", 20), helper.make_opsetid(OWN, 1)]
        model = helper.make_model(graph, opset_imports=versions, ir_version=10)
        return model.SerializeToString()

    # ---------------------------------------------------------------- parts

    def constant(self, values, name=None):
        name = name or f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, order="C"), name))
        return name

    def parameter(self, name, *shape):
        return self.constant(worker.values(name, shape), name)

    def input(self, name, shape, type=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, type, shape))
        return name

    def output(self, tensor, name, shape):
        self.node("Identity", tensor, to=[name])
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def node(self, operator, *inputs, to=None, **attributes):
        """The first result of an operator."""
        to = to or [f"tensor_{len(self.nodes)}"]
        self.nodes.append(helper.make_node(operator, inputs, to, **attributes))
        return to[0]

    def product(self, x, name, out, into):
        """x W^T"""
        return self.node("MatMul", x, self.constant(worker.values(name + ".weight", (out, into)).T))

    def linear(self, x, name, out, into):
        return self.node("Add", self.product(x, name, out, into),
                         self.parameter(name + ".bias", out))

    def norm(self, x, name):
        return self.node("LayerNormalization", x, self.parameter(name + ".weight", self.width),
                         self.parameter(name + ".bias", self.width), epsilon=EPS)

    # ---------------------------------------------------------------- blocks

    def feed_forward(self, x, name, approximate="none"):
        middle = self.case["intermediate_size"]
        hidden = self.node("Gelu", self.linear(x, name + "linear_1", middle, self.width),
                           approximate=approximate)
        return self.linear(hidden, name + "linear_2", self.width, middle)

    def gated_feed_forward(self, x, name):
        middle = self.case["intermediate_size"]
        gate, up = (self.product(x, name + part, middle, self.width) for part in ("gate", "up"))
        gated = self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up)
        return self.product(gated, name + "down", self.width, middle)

    def attention(self, x, name, cache=None):
        q, k, v = (self.linear(x, name + part, self.width, self.width)
                   for part in ("query", "key", "value"))
        attend = self.own_attend if self.own_attention else self.standard_attend
        return self.linear(attend(q, k, v, cache), name + "output", self.width, self.width)

    def own_attend(self, q, k, v, cache):
        """Of ONNX Runtime's operators the fastest: the grouped one if causal, else the one that
        stores no scores. A cache is a buffer that keys and values are written into."""
        if not self.case["causal"]:
            return self.node("MultiHeadAttention", q, k, v, "", self.mask or "", domain=OWN,
                             num_heads=self.heads)
        past, present = ["", ""], ["", ""]
        if cache:
            past = [self.input(cache + part, [1, self.heads, "room", self.width // self.heads])
                    for part in ("key", "value")]
            present = [name + ".present" for name in past]
            self.outputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                             for name in present]
            total = self.last, self.count
        else:
            tokens = self.case["tokens"]
            total = (self.constant(np.full(self.case["batch"], tokens - 1, np.int32)),
                     self.constant(np.array(tokens, np.int32)))
            present = [f"key_{len(self.nodes)}", f"value_{len(self.nodes)}"]
        return self.node("GroupQueryAttention", q, k, v, *past, *total, domain=OWN,
                         to=[f"tensor_{len(self.nodes)}", *present], num_heads=self.heads,
                         kv_num_heads=self.heads)

    def standard_attend(self, q, k, v, cache):
        split = self.constant(np.array([0, 0, self.heads, -1]))
        merge = self.constant(np.array([0, 0, -1]))
        q, k, v = (self.node("Transpose", self.node("Reshape", part, split), perm=[0, 2, 1, 3])
                   for part in (q, k, v))
        if cache:
            both = []
            for part, new in (("key", k), ("value", v)):
                past = self.input(cache + part, [1, self.heads, "P", self.width // self.heads])
                both.append(self.node("Concat", past, new, axis=2))
                self.output(both[-1], past + ".present",
                            [1, self.heads, "all", self.width // self.heads])
            k, v = both
        scale = self.constant(np.float32((self.width // self.heads) ** -0.5))
        scores = self.node("MatMul", self.node("Mul", q, scale),
                           self.node("Transpose", k, perm=[0, 1, 3, 2]))
        if self.mask:
            scores = self.node("Add", scores, self.mask)
        y = self.node("MatMul", self.node("Softmax", scores, axis=-1), v)
        return self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), merge)

    def encoder_layer(self, x, name):
        h = self.norm(self.node("Add", x, self.attention(x, name + "attention.")),
                      name + "attention_norm")
        return self.norm(self.node("Add", h, self.feed_forward(h, name + "feed_forward.")),
                         name + "feed_forward_norm")

    def decoder_layer(self, x, name):
        normed = self.norm(x, name + "self_attention_norm")
        h = self.node("Add", x, self.attention(normed, name + "self_attention.", cache=name))
        normed = self.norm(h, name + "feed_forward_norm")
        return self.node("Add", h, self.feed_forward(normed, name + "feed_forward.", "tanh"))

    def set_mask(self):
        """The case's mask: a constant, in the form that the attention takes."""
        keep = worker.key_mask(self.case)
        if self.own_attention:
            if keep is not None:
                self.mask = self.constant(keep.astype(np.int32))
            return
        tokens = self.case["tokens"]
        allowed = np.tril(np.ones((tokens, tokens), bool)) if self.case["causal"] else None
        if keep is not None:
            allowed = keep[:, None, None, :]
        if allowed is not None:
            self.mask = self.constant(np.where(allowed, np.float32(0), LOWEST))


def layers(case, own_attention):
    """x (batch, tokens, hidden_size) to y through layers with weights of their own."""
    graph = Graph(case, own_attention)
    graph.set_mask()
    shape = [case["batch"], case["tokens"], case["hidden_size"]]
    y = graph.input("x", shape)
    for i in range(case["layers"]):
        y = getattr(graph, case["block"])(y, f"layers.{i}.")
    graph.output(y, "y", shape)
    return graph.model()


def encoder(case, own_attention):
    """ids (batch, tokens) to y."""
    graph = Graph(case, own_attention)
    graph.set_mask()
    shape = [case["batch"], case["tokens"], case["hidden_size"]]
    ids = graph.input("ids", shape[:2], TensorProto.INT64)
    token = graph.parameter("embeddings.token.weight", case["vocab_size"], graph.width)
    position = worker.values("embeddings.position.weight", (512, graph.width))[: case["tokens"]]
    y = graph.norm(graph.node("Add", graph.node("Gather", token, ids), graph.constant(position)),
                   "embeddings.norm")
    for i in range(case["layers"]):
        y = graph.encoder_layer(y, f"layers.{i}.")
    graph.output(y, "y", shape)
    return graph.model()


def decoder(case, own_attention):
    """ids (1, T) and their positions (T) to the scores y (1, vocab_size) after the last. Caches are
    "layers.0.key" and so on and the same with ".present"; ONNX Runtime's attention also takes the
    number of tokens and the last one's place."""
    graph = Graph(case, own_attention)
    ids = graph.input("ids", [1, "T"], TensorProto.INT64)
    positions = graph.input("positions", ["T"], TensorProto.INT64)
    if own_attention:
        graph.last = graph.input("last", [1], TensorProto.INT32)
        graph.count = graph.input("count", [], TensorProto.INT32)
    else:
        graph.mask = graph.input("mask", ["T", "all"])
    table = worker.values("embeddings.token.weight", (case["vocab_size"], graph.width))
    places = graph.parameter("embeddings.position.weight", 1024, graph.width)
    y = graph.node("Add", graph.node("Gather", graph.constant(table), ids),
                   graph.node("Gather", places, positions))
    for i in range(case["layers"]):
        y = graph.decoder_layer(y, f"layers.{i}.")
    y = graph.node("Gather", y, graph.constant(np.array(-1)), axis=1)
    y = graph.node("MatMul", graph.norm(y, "final_norm"), graph.constant(table.T))
    graph.output(y, "y", [1, case["vocab_size"]])
    return graph.model()


def model(case, own_attention):
    return {"encoder": encoder, "decoder": decoder}.get(case["block"], layers)(case, own_attention)
