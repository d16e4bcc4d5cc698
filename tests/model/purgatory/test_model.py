#!/usr/bin/env python3
"""Has spin search the whole model of libpurgatory.

  test_model.py safe          every state: no assertion fails, and in the end nothing is left that should have been answered
  test_model.py live          every fair run: what was told is answered
  test_model.py bug NAME      with that bug planted spin must find an error
  test_model.py bugs          the names
Exit code 0 when it is as it should be. Needs spin and a C compiler.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

MODEL = pathlib.Path(__file__).resolve().parent / "purgatory.pml"
CC = os.environ.get("MODEL_CC", "cc")


def search(defines, compile_options, run_options):
    """spin's report of a search that was not cut short."""
    with tempfile.TemporaryDirectory() as folder:
        def run(*command):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280, check=False)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
            return done.stdout
        run("spin", *defines, "-a", str(MODEL))
        run(CC, "-O0", "-w", "-o", "pan", "pan.c", *compile_options)
        report = run("./pan", *run_options, "-m100000")
    print(report)
    if "max search depth too small" in report or "Search not completed" in report and "errors: 0" in report:
        sys.exit("the search was cut short")
    return int(re.search(r"errors: (\d+)", report).group(1))


def main():
    bugs = sorted(set(re.findall(r"\bBUG_(\w+)", MODEL.read_text(encoding="utf-8"))))
    match sys.argv[1:]:
        case ["safe"]:
            errors = search([], ["-DSAFETY"], [])
        case ["live"]:
            errors = search(["-DLIVE"], [], ["-a", "-f"])
        case ["bug", name] if name in bugs:
            errors = search([f"-DBUG_{name}"], ["-DSAFETY"], [])
            print(f"bug {name}: {'found' if errors else 'NOT FOUND'}")
            return 0 if errors else 1
        case ["bugs"]:
            print("\n".join(bugs))
            return 0
        case _:
            sys.exit(__doc__)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
