# SPDX-License-Identifier: MIT
"""OpenVINO, which reads the ONNX models and fuses them itself."""

import numpy as np
import openvino

import onnx_graph
import worker

RESTORED_AFTER = 32  # passes of a decoder, whose cache grows


def prepare(case, threads):
    core = openvino.Core()
    network = core.read_model(onnx_graph.model(case, own_attention=False))
    if case["block"] == "decoder":
        make_stateful(network, case)
    properties = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32",
                  "KV_CACHE_PRECISION": "f32", "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
    request = core.compile_model(network, "CPU", properties).create_infer_request()
    if case["block"] == "decoder":
        return decoder(case, request)
    encoder = case["block"] == "encoder"
    given = {"ids": worker.token_ids(case)} if encoder else {"x": worker.inputs(case)}
    for name, array in given.items():
        request.set_tensor(name, openvino.Tensor(array))
    return request.infer, lambda: request.get_tensor("y").data


def make_stateful(network, case):
    """Turns caches from inputs and outputs into state of the network."""
    from openvino._offline_transformations import apply_make_stateful_transformation

    names = [f"layers.{i}.{part}" for i in range(case["layers"]) for part in ("key", "value")]
    apply_make_stateful_transformation(network, {name: name + ".present" for name in names})


def decoder(case, request):
    past = case["past"]

    def step(first, count):
        mask = np.triu(np.full((count, first + count), onnx_graph.LOWEST), first + 1)
        for name, array in {"ids": worker.token_ids(case, count), "mask": mask,
                            "positions": np.arange(first, first + count)}.items():
            request.set_tensor(name, openvino.Tensor(array))
        request.infer()

    step(0, past)
    states = request.query_state()
    caches = [(state, openvino.Tensor(state.state.data.copy())) for state in states]
    length = past

    def run():
        nonlocal length
        if length == past + RESTORED_AFTER:
            for state, cache in caches:
                state.state = cache
            length = past
        step(length, 1)
        length += 1

    return run, lambda: request.get_tensor("y").data


worker.serve("OpenVINO", openvino.__version__.split("-")[0], prepare)
