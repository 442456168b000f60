#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times Eigenformer and its peers on the same shapes, in turn, and reports ratios.

    pip install -r bench/compare/requirements.txt
    cmake --preset benchmarks && cmake --build build-benchmarks --target compare_workers
    python bench/compare/compare.py --build build-benchmarks

Each engine is a process of its own; one works while the others wait. Samples alternate: ours, a
peer, ours, the next peer, ours, ... A ratio is the peer's time over the mean of ours before and
after it; what is reported is the median of the ratios. Before any timing each peer's result is
compared with ours, on the same numbers. Beside every case the machine's limits are taken: its rates
of multiply-adds and of reading memory.
"""

import argparse
import atexit
import contextlib
import dataclasses
import fnmatch
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

import report
from cases import CASES

HERE = pathlib.Path(__file__).resolve().parent
OURS, LIMITS = "Eigenformer", "limits"
PROGRAMS = {OURS: "eigenformer_worker", LIMITS: "limits_worker",
            "PyTorch": "torch_worker.py", "ONNX Runtime": "ort_worker.py",
            "OpenVINO": "openvino_worker.py", "OpenBLAS": "openblas_worker",
            "oneDNN": "onednn_worker", "llama.cpp": "llama_worker.py"}
# Allowed differences, relative to the largest element of a result.
TOLERANCE = {"float": 1e-4, "packed": 1e-4, "bfloat16": 0.03, "int8": 0.1}  # by our format
LOOSER = {"llama.cpp": 2e-2}  # its GELU is a table of numbers with 16 bits
FEWEST_ROUNDS = 3
# Unless told, OpenBLAS 0.3.21 takes code for SSE3 on processors that are newer than itself.
CORE = {"OPENBLAS_CORETYPE": "SkylakeX"} if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text() else {}


class Missing(Exception):
    """Why an engine can't take part."""


class Worker:
    """One engine with a number of threads."""

    def __init__(self, engine, threads, build):
        program = PROGRAMS[engine]
        python = program.endswith(".py")
        path = HERE / program if python else build / "bench/compare" / program
        if not path.exists():
            raise Missing(f"there is no {program}")
        variables = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        self.engine, self.log = engine, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*([sys.executable] if python else []), str(path), str(threads)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
            env=CORE | os.environ | dict.fromkeys(variables, str(threads)))
        atexit.register(self.stop)
        line = self.process.stdout.readline()
        if not line:
            raise Missing(self.said().strip().rsplit("\n", 1)[-1])
        self.version = json.loads(line)["version"]

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()

    def ask(self, **request):
        """The answer, once all threads sleep: those of some engines look for work for a while."""
        print(json.dumps(request), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        answer = json.loads(line or "{}")
        if "unsupported" in answer:
            raise Missing(answer["unsupported"])
        if not line or "error" in answer:
            sys.exit(f"{self.engine} failed: {answer.get('error') or self.said()}")
        deadline = time.monotonic() + 10
        while "R" in self.thread_states():
            if time.monotonic() > deadline:
                sys.exit(f"{self.engine}: threads run although there is nothing to do")
            time.sleep(0.001)
        return answer

    def thread_states(self):
        states = []
        for path in pathlib.Path(f"/proc/{self.process.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # a thread that has just ended
                states.append(path.read_text().rpartition(")")[2].split()[0])
        return states

    def prepare(self, case, output):
        self.ask(case=case, output=str(output))
        return np.fromfile(output, np.float32)

    def sample(self):
        """Seconds of one pass."""
        return self.ask()["seconds"]


def busy_share():
    """The share of the processors' time that others use while all workers sleep."""
    def ticks():
        line = pathlib.Path("/proc/stat").read_text().split("\n")[0]
        numbers = [int(number) for number in line.split()[1:9]]
        return sum(numbers), numbers[3] + numbers[4]

    total, idle = ticks()
    time.sleep(0.2)
    total_after, idle_after = ticks()
    return 1 - (idle_after - idle) / (total_after - total)


class Run:
    """All cases with one number of threads."""

    def __init__(self, threads, options, folder):
        self.threads, self.options, self.folder = threads, options, pathlib.Path(folder)
        self.workers, self.absent = {}, {}

    def worker(self, engine):
        if engine in self.absent:
            raise Missing(self.absent[engine])
        if engine not in self.workers:
            try:
                self.workers[engine] = Worker(engine, self.threads, self.options.build)
            except Missing as reason:
                self.absent[engine] = str(reason)
                print(f"{engine} takes no part: {reason}", file=sys.stderr)
                raise
        return self.workers[engine]

    def versions(self):
        return {engine: worker.version for engine, worker in self.workers.items()
                if engine != LIMITS}

    def stop(self):
        for worker in self.workers.values():
            worker.stop()

    def limits(self):
        """Operations and bytes a second of multiply-adds and of reading memory."""
        limits = {}
        for block, unit, amount in (("multiply_add", "operations", 2e9 * self.threads),
                                    ("memory_read", "bytes", 2.0**28)):
            machine = self.worker(LIMITS)
            machine.prepare({"block": block, unit: amount}, self.folder / LIMITS)
            limits[block] = amount / min(machine.sample() for _ in range(3))
        return limits

    def measure(self, case):
        fields = dataclasses.asdict(case)
        format = self.options.format if case.format == "float" else case.format
        ours = self.worker(OURS)
        expected = ours.prepare(fields | {"format": format}, self.folder / OURS)
        peers, differences = {}, {}
        for engine in case.peers:
            if engine not in self.options.peers:
                continue
            try:
                peer = self.worker(engine)
                result = peer.prepare(fields, self.folder / "peer")
            except Missing:
                continue
            peers[engine], differences[engine] = peer, relative_difference(case, expected, result)
            allowed = max(TOLERANCE[format], LOOSER.get(engine, 0))
            if not differences[engine] < allowed:
                sys.exit(f"{case.name}: the result of {engine} differs from ours by "
                         f"{differences[engine]:.2g} of the largest element, not {allowed:g}")
        limits, busy = self.limits(), busy_share()
        if busy > 0.1:
            print(f"{case.name}: others use {busy:.0%} of the processors' time", file=sys.stderr)
        own, times, ratios = [ours.sample()], {}, {}
        end = time.monotonic() + self.options.seconds
        for round in range(self.options.rounds):
            if round >= FEWEST_ROUNDS and time.monotonic() > end:
                break
            for engine, peer in peers.items():
                seconds = peer.sample()
                own.append(ours.sample())
                times.setdefault(engine, []).append(seconds)
                ratios.setdefault(engine, []).append(seconds / statistics.mean(own[-2:]))
        seconds = statistics.median(own)
        return {
            "case": case.name, "group": case.group, "label": case.label, "threads": self.threads,
            "format": format, "seconds": seconds,
            "tokens": sum(case.lengths) or case.tokens * case.batch,
            "of_multiply_add": case.operations / seconds / limits["multiply_add"],
            "of_memory_read": case.bytes(format) / seconds / limits["memory_read"],
            "limits": limits,
            "peers": {engine: {"ratio": statistics.median(ratios[engine]),
                               "quartiles": np.quantile(ratios[engine], (0.25, 0.75)).tolist(),
                               "seconds": statistics.median(times[engine]),
                               "difference": float(differences[engine])} for engine in peers},
        }


def relative_difference(case, expected, result):
    """The largest difference of real tokens, relative to the largest element; ours has no others."""
    if case.lengths:
        real = np.arange(case.tokens)[None, :] < np.array(case.lengths)[:, None]
        result = result.reshape((case.batch, case.tokens, -1))[real].ravel()
    if expected.shape != result.shape:
        return np.inf
    return np.max(np.abs(expected - result)) / np.max(np.abs(expected))


def chosen(patterns):
    """Cases whose block, group or group/label matches one of the patterns."""
    return [case for case in CASES
            if any(fnmatch.fnmatch(name, pattern) for pattern in patterns
                   for name in (case.block, case.group, case.name))]


def main():
    words = lambda text: text.split(",")
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, required=True,
                        help="where compare_workers was built")
    parser.add_argument("--cases", type=words, default=["*"],
                        help="e.g. feed_forward,attention/causal/*")
    parser.add_argument("--peers", type=words, default=[*PROGRAMS],
                        help="e.g. 'PyTorch,ONNX Runtime'")
    parser.add_argument("--threads", type=words, default=["1", "2"])
    parser.add_argument("--format", default="packed",
                        help="of our parameters where peers have float")
    parser.add_argument("--rounds", type=int, default=9, help="at most")
    parser.add_argument("--seconds", type=float, default=3,
                        help=f"no more rounds of a case after these, from {FEWEST_ROUNDS} on")
    parser.add_argument("--output", type=pathlib.Path, default=HERE / "results.json",
                        help="results; .md and .svg are written beside it")
    parser.add_argument("--merge", action="store_true", help="keep other cases of the output file")
    options = parser.parse_args()
    cases = chosen(options.cases)
    if not cases:
        sys.exit("no such case; there are " + ", ".join(case.name for case in CASES))

    order = {case.name: place for place, case in enumerate(CASES)}
    results = {"versions": {}, "results": []}
    if options.merge and options.output.exists():
        results = json.loads(options.output.read_text())
    for threads in map(int, options.threads):
        with tempfile.TemporaryDirectory() as folder:
            run = Run(threads, options, folder)
            for case in cases:
                try:
                    row = run.measure(case)
                except Missing as reason:
                    print(f"{case.name} is left out: {reason}", file=sys.stderr)
                    continue
                key = row["case"], row["threads"]
                results["results"] = [other for other in results["results"]
                                      if (other["case"], other["threads"]) != key] + [row]
                results["results"].sort(key=lambda row: (row["threads"], order.get(row["case"], 0)))
                results["versions"].update(run.versions())
                report.write(results, options.output)
                print(report.line(row), flush=True)
            run.stop()


if __name__ == "__main__":
    main()
