#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts the slips of slips.txt into a copy of the library, all at once, builds its tests once, and runs
them for each slip switched on, until one fails. Says which slips no test notices; fails if more than
one in twenty goes unnoticed.

    tests/slips/run.py build-slips                  all
    tests/slips/run.py build-slips --only 7 21      those two
    tests/slips/run.py build-slips --built          without building again
    tests/slips/run.py build-slips --check          only looks whether each text is where it is said to be

slips.txt says how a slip is written. Which one is switched on is said by the variable EIGENFORMER_SLIP.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PROGRAMS = ["kernels", "nn", "models", "io", "base", "golden", "faults", "spec"]
SWITCH = """
#include <cstdlib>
/// The number of the slip that is switched on; 0 for none.
inline const int eigenformer_slip = [] {
  const char* number = std::getenv("EIGENFORMER_SLIP");
  return number ? std::atoi(number) : 0;
}();
"""


def read_slips():
    """(file, programs, what, old, new) of each slip; see slips.txt."""
    slips = []
    text = re.sub(r"^#.*\n", "", (HERE / "slips.txt").read_text(), flags=re.M)
    for block in filter(None, (part.strip("\n") for part in text.split("\n\n"))):
        head, *lines = block.split("\n")
        path, programs, what = (part.strip() for part in head.split("|"))
        old = "\n".join(line[2:] for line in lines if line.startswith("- "))
        new = "\n".join(line[2:] for line in lines if line.startswith("+ "))
        if not old or len(lines) != old.count("\n") + new.count("\n") + 2:
            sys.exit(f"slips.txt: not a slip:\n{block}")
        slips.append((path, programs.split(), what, old, new))
    return slips


def switched(old, alternatives):
    """`old`, or the alternative whose slip is switched on."""
    is_statement = old.endswith(";")
    text = f"{{ {old} }}" if is_statement else f"({old})"
    for number, new in alternatives:
        switch = f"eigenformer_slip == {number}"
        text = f"{{ if ({switch}) {{ {new} }} else {text} }}" if is_statement else f"({switch} ? ({new}) : {text})"
    return text


def instrument(slips, include):
    """Switches for all slips in the headers below `include`."""
    places = {}  # by file and place: the text and what may replace it
    for number, (path, _, what, old, new) in enumerate(slips, 1):
        text = (include / "eigenformer" / path).read_text()
        if text.count(old) != 1:
            sys.exit(f"slip {number} ({what}): {path} holds this {text.count(old)} times, not once:\n{old}")
        if old.endswith(";") != new.endswith(";"):
            sys.exit(f"slip {number} ({what}): a statement can't replace an expression")
        places.setdefault(path, {}).setdefault((text.index(old), old), []).append((number, new))
    for path, replacements in places.items():
        file = include / "eigenformer" / path
        text, end = file.read_text(), None
        for (begin, old), alternatives in sorted(replacements.items(), reverse=True):
            if end is not None and begin + len(old) > end:
                sys.exit(f"slips {[number for number, _ in alternatives]} of {path} overlap with others")
            text, end = text[:begin] + switched(old, alternatives) + text[begin + len(old):], begin
        file.write_text(text)
    config = include / "eigenformer" / "base" / "config.hpp"
    config.write_text(config.read_text().replace("#pragma once\n", "#pragma once\n" + SWITCH, 1))


def build(folder, slips):
    source = folder / "source"
    shutil.rmtree(source, ignore_errors=True)
    for name in ["include", "tests", "cmake", "examples"]:
        shutil.copytree(ROOT / name, source / name)
    for name in ["CMakeLists.txt", "README.md", "LICENSE"]:
        shutil.copy2(ROOT / name, source / name)
    instrument(slips, source / "include")
    subprocess.check_call(
        ["cmake", "-S", source, "-B", folder / "build", "-G", "Ninja", "-D", "CMAKE_BUILD_TYPE=Release",
         "-D", "EIGENFORMER_BUILD_BENCHMARKS=OFF", "-D", "EIGENFORMER_BUILD_EXAMPLES=OFF"],
        stdout=subprocess.DEVNULL)
    subprocess.check_call(["cmake", "--build", folder / "build", "--target"]
                          + [f"{name}_test" for name in PROGRAMS])


def find_programs(folder):
    found = {}
    for name in PROGRAMS:
        found[name] = next(path for path in (folder / "build" / "tests").rglob(f"{name}_test") if path.is_file())
    return found


def noticed_by(number, programs, first):
    """The first program that fails, or None. A crash or an endless loop is noticed too."""
    environment = dict(os.environ, EIGENFORMER_SLIP=str(number))
    for name in first + [other for other in PROGRAMS if other not in first]:
        command = [programs[name], "--gtest_brief=1", "--gtest_fail_fast"]
        try:
            done = subprocess.run(command, env=environment, timeout=900, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace")
        except subprocess.TimeoutExpired:
            return f"{name}: no end"
        if done.returncode != 0:
            failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout)
            return f"{name}: {failed.group(1) if failed else 'crash'}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", type=int, nargs="*")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--built", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    slips = read_slips()
    if options.check:
        copy = options.folder.resolve() / "include"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(ROOT / "include", copy)
        instrument(slips, copy)
        print(f"{len(slips)} slips are where they are said to be")
        return
    folder = options.folder.resolve()
    if not options.built:
        build(folder, slips)
    programs = find_programs(folder)
    if noticed_by(0, programs, []):
        sys.exit("the tests fail without a slip")
    numbers = options.only or range(1, len(slips) + 1)

    def try_slip(number):
        path, first, what, _, _ = slips[number - 1]
        start = time.time()
        result = noticed_by(number, programs, first)
        print(f"{number:4} {time.time() - start:6.1f} s  {result or 'NOT NOTICED'}   {path}: {what}", flush=True)
        return result

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(try_slip, numbers))
    unnoticed = [number for number, result in zip(numbers, results) if not result]
    share = 1 - len(unnoticed) / len(numbers)
    print(f"{len(numbers) - len(unnoticed)} of {len(numbers)} slips are noticed, {100 * share:.1f} %")
    sys.exit(share < 0.95)


if __name__ == "__main__":
    main()
