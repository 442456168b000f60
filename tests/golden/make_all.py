# SPDX-License-Identifier: MIT
"""Makes every golden file again.   python make_all.py [--check]

--check writes into a temporary folder and compares: same cases, names and shapes, and numbers
within 1e-12 of each tensor's largest.
"""

import importlib
import pathlib
import sys
import tempfile

from safetensors import safe_open

from golden import FOLDER, largest_difference

SCRIPTS = (
    "linear",
    "normalization",
    "activations",
    "feed_forward",
    "softmax",
    "attention",
    "multi_head_attention",
    "embeddings",
    "encoder_layer",
    "encoder_stack",
    "decoder_layer",
    "transformer_stack",
    "patch_embedding",
    "bert",
    "vision_transformer",
    "dive_into_deep_learning",
    "dive_into_deep_learning_decoder",
    "pooling",
    "decoders",
    "encoder_decoders",
    "sampling",
    "text_generation",
)
WITH_CHECKPOINTS = (
    "bert",
    "vision_transformer",
    "dive_into_deep_learning_decoder",
    "decoders",
    "encoder_decoders",
)


def metadata(path):
    with safe_open(path, "pt") as file:
        return file.metadata()


def main(check):
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) if check else FOLDER
        for name in SCRIPTS:
            script = importlib.import_module(name)
            files = script.make(folder) if name in WITH_CHECKPOINTS else script.make()
            for file in files if isinstance(files, list) else [files]:
                file.write(folder)
        if not check:
            return
        made = {path.relative_to(folder) for path in folder.rglob("*.*") if path.is_file()}
        kept = {
            path.relative_to(FOLDER)
            for path in FOLDER.rglob("*.*")
            if path.suffix in (".safetensors", ".json")
        }
        assert made == kept, sorted(map(str, made ^ kept))
        for path in sorted(made):
            if path.suffix == ".json":
                assert (folder / path).read_text() == (FOLDER / path).read_text(), path
                continue
            assert metadata(folder / path) == metadata(FOLDER / path), path
            difference = largest_difference(folder / path, FOLDER / path)
            assert difference < 1e-12, (path, difference)
            print(f"{path}: largest relative difference {difference:.1e}")


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
