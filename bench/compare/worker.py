# SPDX-License-Identifier: MIT
"""One engine in a process of its own, driven by compare.py; worker.hpp says the same in C++.

Lines of JSON. The worker begins with its name and version, and answers
  {"case": {...}, "output": path}   prepares; the first pass's result goes to the file as floats
  {}                                one timed sample
with {"passes": n}, {"seconds": of one pass}, {"unsupported": reason} or {"error": text}. A sample
is as many passes as last 20 ms; more than one are preceded by an untimed one, since other engines
ran in between.
"""

import json
import math
import os
import sys
import time
import traceback

import numpy as np

SAMPLE = 0.02  # seconds


class Unsupported(Exception):
    """Raised by a worker that has no such block."""


def values(name, shape, columns=None):
    """The numbers of a parameter or input, the same in every worker: a hash of name and place."""
    seed = 0x811C9DC5
    for byte in name.encode():
        seed = (seed ^ byte) * 0x01000193 & 0xFFFFFFFF
    x = np.arange(math.prod(shape), dtype=np.uint32)
    with np.errstate(over="ignore"):
        x *= np.uint32(0x9E3779B9)
        x += np.uint32(seed)
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x85EBCA6B)
        x ^= x >> np.uint32(13)
        x *= np.uint32(0xC2B2AE35)
        x ^= x >> np.uint32(16)
    y = (x >> np.uint32(8)).astype(np.float32)
    y *= np.float32(2**-24)
    y -= np.float32(0.5)
    columns = columns or (shape[1] if len(shape) == 2 else 0)
    y *= np.float32(math.sqrt(12 / columns)) if columns else np.float32(0.125)
    if name.endswith("norm.weight"):
        y += np.float32(1)
    return y.reshape(shape)


def inputs(case):
    """x (batch, tokens, hidden_size), every element of variance 1."""
    return values("x", (case["batch"], case["tokens"], case["hidden_size"]), columns=1)


def token_ids(case, tokens=None):
    """Ids (batch, tokens)."""
    count = tokens or case["tokens"]
    ids = 997 * np.arange(case["batch"] * count, dtype=np.int64) % case["vocab_size"]
    return ids.reshape(case["batch"], count)


def key_mask(case):
    """True where a token is real, (batch, tokens); nothing without lengths."""
    if not case["lengths"]:
        return None
    return np.arange(case["tokens"])[None, :] < np.array(case["lengths"])[:, None]


def _seconds(run, passes):
    begin = time.perf_counter()
    for _ in range(passes):
        run()
    return (time.perf_counter() - begin) / passes


def _settle(run, seconds):
    """Passes of a sample, by the time of the first one, which may have been slow."""
    if seconds < 10 * SAMPLE:
        seconds = _seconds(run, 1)
    if seconds < SAMPLE:
        seconds = _seconds(run, max(2, math.ceil(SAMPLE / 2 / seconds)))
    return max(1, math.ceil(SAMPLE / seconds))


def serve(engine, version, prepare):
    """`prepare(case, threads)` returns a function that runs one pass and one that gives its result
    as an array. The number of threads is the only argument of the program."""
    answers = os.fdopen(os.dup(1), "w")  # libraries may print to 1
    os.dup2(2, 1)

    def answer(**fields):
        print(json.dumps(fields), file=answers, flush=True)

    threads = int(sys.argv[1])
    run, passes = None, 0
    answer(engine=engine, version=version)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "case" not in request:
                if passes > 1:
                    run()
                answer(seconds=_seconds(run, passes))
                continue
            run = result = None  # frees the last one first
            run, result = prepare(request["case"], threads)
            first = _seconds(run, 1)
            np.ascontiguousarray(result(), dtype=np.float32).tofile(request["output"])
            passes = _settle(run, first)
            answer(passes=passes)
        except Unsupported as reason:
            answer(unsupported=str(reason))
        except Exception:
            answer(error=traceback.format_exc())
