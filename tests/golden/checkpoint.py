# SPDX-License-Identifier: MIT
"""Directories as transformers' `save_pretrained` leaves them: config.json and model.safetensors,
tiny.
"""

import json
import logging
import pathlib
import shutil
import tempfile

import torch
import transformers
from safetensors import safe_open

from golden import SIZE_LIMIT, save_file

transformers.logging.set_verbosity(logging.ERROR)
transformers.utils.logging.disable_progress_bar()


def save_directory(model, folder, change=None, change_config=None):
    """Saves a double model's float32 copy. `change` maps the saved {name: tensor} to what is to
    be stored instead, `change_config` the configuration.
    """
    folder = pathlib.Path(folder)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        model.float().save_pretrained(scratch)
        with safe_open(f"{scratch}/model.safetensors", "pt") as saved:
            tensors, metadata = {
                name: saved.get_tensor(name) for name in saved.keys()
            }, saved.metadata()
        config = json.loads(pathlib.Path(scratch, "config.json").read_text())
    config = change_config(config) if change_config else config
    model.double()
    save_file(change(tensors) if change else tensors, folder / "model.safetensors", metadata)
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    size = (folder / "model.safetensors").stat().st_size
    assert size < SIZE_LIMIT
    print(f"{folder.name}: {len(tensors)} tensors, {size} bytes")


def load_again(model, folder):
    """The same model read back by transformers, in double."""
    return type(model).from_pretrained(folder, dtype=torch.float64)
