# SPDX-License-Identifier: MIT
"""Writer of golden files: one safetensors file holds several cases of one module, computed in
float64 by PyTorch.

Tensors of a case are named
    <case>/parameter/<dotted name>            parameters under Eigenformer's names
    <case>/input/<name>                       activations, token ids, images
    <case>/input/d_<output>                   weights of the scalar  sum(output * d_output)
    <case>/mask/<field>                       key_lengths, key_allowed, allowed or bias of `Mask`
    <case>/memory_mask/<field>                of attention to a memory
    <case>/source_mask/<field>                of an encoder beside a decoder
    <case>/output/<name>                      results
    <case>/gradient/parameter/<dotted name>   gradients of that scalar
    <case>/gradient/input/<name>
and the file's `__metadata__` maps each case to JSON text:
    {"module": ..., "config": {...}, "mask": {"causal": true, ...}, "source": ...,
     "parameter_of": <case>, "input_of": <case>}
`mask` holds the scalar fields of `Mask` only. `parameter_of` and `input_of` name an earlier case
whose tensors of that group are used again (they are stored once).

Parameters, inputs and d_<output> are random numbers rounded to float32 and stored as F32, so
that a float and a double program start from the same numbers; outputs and gradients are computed
in float64 and stored as F64. Ids are I32, lengths I64, masks BOOL.
"""

import json
import pathlib
import zlib

import numpy as np
import torch
from safetensors.torch import load_file

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
# The fast path of the encoder zeroes padded positions.
torch.backends.mha.set_fastpath_enabled(False)

FOLDER = pathlib.Path(__file__).resolve().parent
SIZE_LIMIT = 200_000  # bytes


def random_tensor(seed, shape, scale=1.0, shift=0.0):
    """Normal numbers representable in float32, from numpy's generator whose streams never
    change.
    """
    values = shift + scale * np.random.RandomState(seed).standard_normal(shape)
    return torch.from_numpy(values.astype(np.float32).astype(np.float64))


def random_ids(seed, shape, low, high):
    return torch.from_numpy(np.random.RandomState(seed).randint(low, high, shape).astype(np.int64))


def randomize(module, seed, gain=1.0):
    """Fills every parameter: matrices N(0, gain^2/fan_in), scales around 1, biases around 0.
    Returns the module in double.
    """
    module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            # A stream for each name: modules that differ in an option only share the rest.
            stream = zlib.crc32(f"{seed} {name}".encode())
            shape = tuple(parameter.shape)
            if len(shape) >= 2:
                fan_in = max(1, int(np.prod(shape[1:])))
                parameter.copy_(random_tensor(stream, shape, scale=gain * fan_in**-0.5))
            elif name.endswith("weight"):
                parameter.copy_(random_tensor(stream, shape, scale=0.25, shift=1.0))
            else:
                parameter.copy_(random_tensor(stream, shape, scale=0.25))
    return module


def plain_names(state):
    return dict(state)


def rename(*pairs):
    """A key map: every `old` in a name becomes `new`, in order."""

    def convert(state):
        converted = {}
        for name, tensor in state.items():
            for old, new in pairs:
                name = name.replace(old, new)
            converted[name] = tensor
        return converted

    return convert


STORED_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.bool: "BOOL",
}


def save_file(tensors, path, metadata=None):
    """Writes safetensors with every byte determined by the content (the safetensors package
    shuffles the metadata).
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, end = {"__metadata__": dict(sorted((metadata or {}).items()))}, 0
    for name in order:
        begin, end = end, end + tensors[name].numel() * tensors[name].element_size()
        header[name] = {
            "dtype": STORED_TYPES[tensors[name].dtype],
            "shape": list(tensors[name].shape),
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            out.write(tensors[name].contiguous().numpy().tobytes())


def key_padding(lengths, keys):
    """(B, S) bool: true where the key takes part."""
    return torch.arange(keys)[None, :] < torch.as_tensor(lengths)[:, None]


def sliding_window(queries, keys, window, offset=0):
    """(T, S) bool: the query's own position and the window - 1 keys before it."""
    distance = torch.arange(queries)[:, None] + offset - torch.arange(keys)[None, :]
    return (distance >= 0) & (distance < window)


def causal(queries, keys, offset=0):
    """(T, S) bool: key position <= query position."""
    return torch.arange(keys)[None, :] <= torch.arange(queries)[:, None] + offset


class GoldenFile:
    def __init__(self, name):
        self.name = name
        self.tensors = {}
        self.metadata = {}
        self._groups = {}

    def _store(self, prefix, tensor, dtype):
        converted = tensor.detach().to(dtype).contiguous().clone()
        if dtype == torch.float32:
            assert torch.equal(
                converted.double(), tensor.detach().double()
            ), f"{prefix}: not representable in float32"
        if converted.is_floating_point() and "mask/bias" not in prefix:
            assert torch.isfinite(converted).all(), f"{prefix}: not finite"
        assert prefix not in self.tensors, prefix
        self.tensors[prefix] = converted

    @staticmethod
    def _storage_type(tensor):
        if tensor.dtype == torch.bool:
            return torch.bool
        return torch.float32 if tensor.is_floating_point() else torch.int32

    def _store_group(self, case, group, tensors):
        """Stores the tensors, or returns the earlier case that holds exactly the same ones."""
        if not tensors:
            return None
        fingerprint = (
            group,
            tuple(
                (n, t.dtype, tuple(t.shape), t.detach().numpy().tobytes())
                for n, t in sorted(tensors.items())
            ),
        )
        if fingerprint in self._groups:
            return self._groups[fingerprint]
        self._groups[fingerprint] = case
        for name, tensor in tensors.items():
            self._store(f"{case}/{group}/{name}", tensor, self._storage_type(tensor))
        return None

    def add(
        self,
        case,
        module,
        config,
        source,
        run,
        *,
        inputs,
        torch_module=None,
        convert=plain_names,
        mask=None,
        memory_mask=None,
        source_mask=None,
        constants=(),
        gradients=True,
        store_parameters=True,
        extra=None,
    ):
        """Runs `run(*inputs.values())`, giving a tensor y or a dict of outputs, and records all.

        convert: maps {torch name: tensor} to {Eigenformer name: tensor}, also for gradients.
        constants: outputs for which no gradient is wanted.
        gradients: True, "input" to leave out those of the parameters, or False.
        mask, memory_mask, source_mask: fields of `Mask`; tensors are stored, scalars go into the
        JSON.
        """
        assert case not in self.metadata, case
        masks = {"mask": mask, "memory_mask": memory_mask, "source_mask": source_mask}
        leaves = {
            n: t.clone().requires_grad_() if t.is_floating_point() else t for n, t in inputs.items()
        }
        state = dict(torch_module.named_parameters()) if torch_module is not None else {}
        for parameter in state.values():
            parameter.grad = None
            parameter.requires_grad_()
        outputs = run(*leaves.values())
        if isinstance(outputs, torch.Tensor):
            outputs = {"y": outputs}

        stored_inputs = dict(inputs)
        scalar = torch.zeros(())
        for name, output in outputs.items():
            assert (
                not output.is_floating_point() or output.dtype == torch.float64
            ), f"{case}: {name} was computed in {output.dtype}"
            if gradients and name not in constants:
                weights = random_tensor(
                    zlib.crc32(f"{name} {tuple(output.shape)}".encode()), tuple(output.shape)
                )
                stored_inputs[f"d_{name}"] = weights
                scalar = scalar + (output * weights).sum()

        entry = {"module": module, "config": config, "source": source}
        entry.update(extra or {})
        for group, fields in masks.items():
            scalars = {
                n: v for n, v in (fields or {}).items() if not isinstance(v, (torch.Tensor, list))
            }
            if scalars:
                entry[group] = scalars
        if store_parameters:
            entry["parameter_of"] = self._store_group(case, "parameter", convert(state))
        entry["input_of"] = self._store_group(case, "input", stored_inputs)
        for group, fields in masks.items():
            for name, value in (fields or {}).items():
                if name == "key_lengths":
                    self._store(f"{case}/{group}/{name}", torch.as_tensor(value), torch.int64)
                elif isinstance(value, torch.Tensor):
                    self._store(f"{case}/{group}/{name}", value, self._storage_type(value))
        for name, output in outputs.items():
            stored = torch.float64 if output.is_floating_point() else self._storage_type(output)
            self._store(f"{case}/output/{name}", output, stored)
        if gradients:
            scalar.backward()
            if gradients != "input":
                gradient_of = {
                    n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in state.items()
                }
                for name, gradient in convert(gradient_of).items():
                    self._store(f"{case}/gradient/parameter/{name}", gradient, torch.float64)
            for name, leaf in leaves.items():
                if leaf.is_floating_point():
                    self._store(f"{case}/gradient/input/{name}", leaf.grad, torch.float64)
        self.metadata[case] = json.dumps({k: v for k, v in entry.items() if v is not None})
        return {name: output.detach() for name, output in outputs.items()}

    def write(self, folder=FOLDER):
        path = pathlib.Path(folder) / f"{self.name}.safetensors"
        save_file(self.tensors, path, metadata=self.metadata)
        size = path.stat().st_size
        assert size < SIZE_LIMIT, f"{path.name}: {size} bytes"
        print(f"{path.name}: {len(self.metadata)} cases, {len(self.tensors)} tensors, {size} bytes")
        return path


def largest_difference(first, second):
    """Largest difference of two files, relative to each tensor's largest element; fails on
    different names or shapes.
    """
    one, two = load_file(first), load_file(second)
    assert one.keys() == two.keys(), sorted(one.keys() ^ two.keys())
    worst = 0.0
    for name, tensor in one.items():
        assert tensor.shape == two[name].shape and tensor.dtype == two[name].dtype, name
        if not tensor.is_floating_point():
            assert torch.equal(tensor, two[name]), name
        elif tensor.numel() > 0 and not torch.equal(tensor, two[name]):
            scale = max(float(tensor.abs().max()), 1e-300)
            worst = max(worst, float((tensor.double() - two[name].double()).abs().max()) / scale)
    return worst
