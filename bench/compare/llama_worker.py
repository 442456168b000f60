# SPDX-License-Identifier: MIT
"""llama.cpp, decoding with GPT-2: weights and cache in f32, or weights in q8_0 and the cache as it
is by default."""

import ctypes
import importlib.metadata
import os
import tempfile

import gguf
import llama_cpp
import numpy as np

import worker


def write(case, path):
    """The model with the numbers of all workers."""
    width, middle = case["hidden_size"], case["intermediate_size"]
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(1024)
    writer.add_embedding_length(width)
    writer.add_block_count(case["layers"])
    writer.add_feed_forward_length(middle)
    writer.add_head_count(case["num_attention_heads"])
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(case["vocab_size"])

    def put(to, tensor, quantized=case["format"] == "int8"):
        if quantized and tensor.ndim == 2:
            q8_0 = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(to, gguf.quants.quantize(tensor, q8_0), raw_dtype=q8_0)
        else:
            writer.add_tensor(to, tensor)

    def put_both(to, names, *shape):
        """Weight and bias of one module, or of several that are one there."""
        put(to + ".weight", np.concatenate([worker.values(n + ".weight", shape) for n in names]))
        put(to + ".bias", np.concatenate([worker.values(n + ".bias", shape[:1]) for n in names]))

    put("token_embd.weight", worker.values("embeddings.token.weight", (case["vocab_size"], width)))
    put("position_embd.weight", worker.values("embeddings.position.weight", (1024, width)), False)
    put_both("output_norm", ["final_norm"], width)
    for i in range(case["layers"]):
        to, name = f"blk.{i}.", f"layers.{i}."
        attention, feed_forward = name + "self_attention.", name + "feed_forward."
        put_both(to + "attn_norm", [name + "self_attention_norm"], width)
        put_both(to + "attn_qkv", [attention + part for part in ("query", "key", "value")],
                 width, width)
        put_both(to + "attn_output", [attention + "output"], width, width)
        put_both(to + "ffn_norm", [name + "feed_forward_norm"], width)
        put_both(to + "ffn_up", [feed_forward + "linear_1"], middle, width)
        put_both(to + "ffn_down", [feed_forward + "linear_2"], width, middle)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Decoder:
    def __init__(self, case, threads):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.gguf")
            write(case, path)
            options = llama_cpp.llama_model_default_params()
            options.use_mmap = False
            self.model = llama_cpp.llama_model_load_from_file(path.encode(), options)
        options = llama_cpp.llama_context_default_params()
        options.n_ctx = options.n_batch = 1024
        options.n_threads = options.n_threads_batch = threads
        if case["format"] == "float":
            options.type_k = options.type_v = llama_cpp.GGML_TYPE_F32
        self.context = llama_cpp.llama_init_from_model(self.model, options)
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.past, self.size = case["past"], case["vocab_size"]
        self.next = worker.token_ids(case)
        self.decode(worker.token_ids(case, self.past))

    def decode(self, ids):
        tokens = (llama_cpp.llama_token * ids.size)(*ids.ravel())
        batch = llama_cpp.llama_batch_get_one(tokens, ids.size)
        if llama_cpp.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)

    def run(self):
        self.decode(self.next)
        llama_cpp.llama_memory_seq_rm(self.memory, 0, self.past, -1)

    def result(self):
        logits = llama_cpp.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(logits, (self.size,)).copy()

    def __del__(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


def prepare(case, threads):
    if case["block"] != "decoder":
        raise worker.Unsupported("decoders only")
    decoder = Decoder(case, threads)
    return decoder.run, decoder.result


@llama_cpp.llama_log_callback
def quiet(level, text, data):
    """Takes what it would print."""


llama_cpp.llama_log_set(quiet, ctypes.c_void_p())
llama_cpp.llama_backend_init()
worker.serve("llama.cpp", importlib.metadata.version("llama-cpp-python"), prepare)
