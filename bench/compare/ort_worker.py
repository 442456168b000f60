# SPDX-License-Identifier: MIT
"""ONNX Runtime, with all its graph optimisations and its own fused attention."""

import numpy as np
import onnxruntime

import onnx_graph
import worker


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Without that one, bias and GELU are fused instead: faster for few tokens, equal for many.
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"],
                                        disabled_optimizers=["MatMulAddFusion"])


def bound(session, inputs, outputs):
    """Runs the session on tensors that stay where they are."""
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    for name, value in outputs.items():
        binding.bind_ortvalue_output(name, value)
    return lambda: session.run_with_iobinding(binding)


def tensor(array):
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def prepare(case, threads):
    network = session(onnx_graph.model(case, own_attention=True), threads)
    if case["block"] == "decoder":
        return decoder(case, network)
    encoder = case["block"] == "encoder"
    given = {"ids": worker.token_ids(case)} if encoder else {"x": worker.inputs(case)}
    y = tensor(np.zeros((case["batch"], case["tokens"], case["hidden_size"]), np.float32))
    run = bound(network, {name: tensor(array) for name, array in given.items()}, {"y": y})
    return run, y.numpy


def decoder(case, network):
    """The caches are buffers with room for one more token, which each pass writes anew."""
    past, heads = case["past"], case["num_attention_heads"]
    room = (1, heads, past + 1, case["hidden_size"] // heads)
    names = [f"layers.{i}.{part}" for i in range(case["layers"]) for part in ("key", "value")]
    caches = {name: tensor(np.zeros(room, np.float32)) for name in names}
    logits = tensor(np.zeros((1, case["vocab_size"]), np.float32))
    outputs = {name + ".present": cache for name, cache in caches.items()} | {"y": logits}

    def step(first, count):
        """Tokens first, first + 1, ... of the text whose cache this is."""
        given = {"ids": worker.token_ids(case, count), "positions": np.arange(first, first + count),
                 "last": np.array([first + count - 1], np.int32),
                 "count": np.array(first + count, np.int32)}
        given = {name: tensor(array) for name, array in given.items()}
        return bound(network, caches | given, outputs)

    step(0, past)()
    return step(past, 1), logits.numpy


worker.serve("ONNX Runtime", onnxruntime.__version__, prepare)
