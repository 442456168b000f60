# SPDX-License-Identifier: MIT
"""What is compared: shapes, the operations and bytes that they need, and who takes part."""

import dataclasses
import random

WEIGHT_BYTES = {"float": 4, "packed": 4, "bfloat16": 2, "int8": 1}  # by format


@dataclasses.dataclass(frozen=True)
class Case:
    """One shape of one block. Workers get the fields as JSON."""

    group: str  # the panel of the chart
    label: str  # the place in the panel
    block: str
    tokens: int
    batch: int = 1
    layers: int = 1
    hidden_size: int = 768
    intermediate_size: int = 0
    num_attention_heads: int = 12
    causal: bool = False
    lengths: tuple = ()  # of the rows of a padded batch
    vocab_size: int = 0
    past: int = 0  # tokens in the cache
    format: str = "float"  # of the parameters; for ours, float means the format that --format names
    peers: tuple = ("PyTorch", "ONNX Runtime", "OpenVINO")

    @property
    def name(self):
        return f"{self.group}/{self.label}"

    @property
    def _matrix_elements(self):
        """Weights of one layer's matrices."""
        attention = 4 * self.hidden_size**2
        width = self.hidden_size * self.intermediate_size
        return {
            "feed_forward": 2 * width,
            "gated_feed_forward": 3 * width,
            "attention": attention,
        }.get(self.block, attention + 2 * width)

    @property
    def operations(self):
        """Additions and multiplications of one pass, those of padding left out."""
        rows = self.lengths or (self.tokens,) * self.batch
        total = 2 * sum(rows) * self.layers * self._matrix_elements
        if "feed_forward" not in self.block:
            for length in rows:
                pairs = length * (length + 1) // 2 if self.causal else length**2
                pairs += length * self.past
                total += 4 * pairs * self.hidden_size * self.layers
        if self.block == "decoder":
            total += 2 * self.hidden_size * self.vocab_size
        return total

    def bytes(self, format):
        """Weights, cache, first input and last output of one pass, each moved once."""
        weights = self.layers * self._matrix_elements
        if self.block == "decoder":
            weights += self.hidden_size * self.vocab_size
        keys_and_values = 2 * self.past * self.layers * self.hidden_size
        rows = sum(self.lengths) or self.tokens * self.batch
        return WEIGHT_BYTES[format] * weights + 4 * (keys_and_values + 2 * rows * self.hidden_size)


def feed_forwards():
    gemm = ("OpenBLAS", "oneDNN")
    for block, width in (("feed_forward", 3072), ("gated_feed_forward", 2048)):
        for place, layers in (("memory", 6), ("cache", 1)):
            for tokens in (1, 2, 4, 8, 16, 32, 128, 512, 2048):
                yield Case(f"{block}/{place}", str(tokens), block, tokens, layers=layers,
                           intermediate_size=width, peers=Case.peers + gemm)


def attentions():
    for kind in ("full", "causal"):
        for batch, tokens in ((1, 128), (1, 512), (1, 2048), (1, 8192),
                              (8, 128), (8, 512), (8, 2048)):
            yield Case(f"attention/{kind}", f"{batch}x{tokens}" if batch > 1 else str(tokens),
                       "attention", tokens, batch, causal=kind == "causal")


def encoders():
    layer = {"block": "encoder_layer", "intermediate_size": 3072}
    whole = {"block": "encoder", "layers": 6, "hidden_size": 384, "intermediate_size": 1536,
             "vocab_size": 30522}
    for group, shape in (("encoder_layer", layer), ("encoder", whole)):
        for tokens in (8, 32, 128, 512):
            yield Case(group, str(tokens), tokens=tokens, **shape)
    random_numbers = random.Random(7)
    lengths = tuple(min(60, max(5, round(random_numbers.lognormvariate(3.0, 0.5)))) for _ in range(32))
    yield Case("encoder", "ragged", tokens=max(lengths), batch=32, lengths=lengths, **whole)


def decoders():
    for format, peers in (("float", Case.peers + ("llama.cpp",)), ("int8", ("llama.cpp",))):
        for past in (16, 1000):
            yield Case("decoder" if format == "float" else f"decoder/{format}", str(past),
                       "decoder", 1, layers=12, intermediate_size=3072, causal=True,
                       vocab_size=50257, past=past, format=format, peers=peers)


CASES = [*feed_forwards(), *attentions(), *encoders(), *decoders()]
