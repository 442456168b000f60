#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a translation unit pays for the library: user time of the compiler, beside <Eigen/Dense>.

    python bench/compile_cost/compile_cost.py [--compiler clang++] [--rounds 7] [--include folder]

eigen.cpp multiplies two matrices, encoder.cpp runs an encoder. All programs are compiled in turn,
round after round, so that what else the machine does meets each alike; medians are reported, and
the median of the ratios of one round. Two processes of the compiler on one core disturb each other
through its caches: let the machine rest.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {"Eigen/Dense": ["eigen.cpp"], "header-only": ["encoder.cpp"],
            "compiled": ["-DEIGENFORMER_COMPILED", "encoder.cpp"]}


def user_seconds(command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, cwd=HERE, check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--levels", nargs="+", default=["-O0", "-O2"])
    parser.add_argument("--include", default=HERE.parents[1] / "include", type=pathlib.Path)
    parser.add_argument("--eigen", default="/usr/include/eigen3", help="Eigen's folder")
    options = parser.parse_args()
    command = [options.compiler, "-std=c++20", "-I", options.include.resolve(),
               "-isystem", options.eigen, "-c"]

    print("| | " + " | ".join(f"{name} (s)" for name in PROGRAMS) + " | "
          + " | ".join(f"{name} : Eigen" for name in PROGRAMS if name != "Eigen/Dense") + " |")
    print("|---" * (2 * len(PROGRAMS)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for level in options.levels:
            times = {name: [] for name in PROGRAMS}
            for _ in range(options.rounds):
                for name, rest in PROGRAMS.items():
                    times[name].append(
                        user_seconds([*command, level, "-o", f"{folder}/object.o", *rest]))
            eigen, *ours = times.values()
            cells = [f"{statistics.median(t):.2f}" for t in times.values()]
            cells += [f"{statistics.median(a / b for a, b in zip(t, eigen)):.2f}" for t in ours]
            print(f"| {level} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
