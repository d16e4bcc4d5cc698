#!/usr/bin/env python3
"""House rules that a tool can check (docs: the style's lines marked [T]).

  tools/lint.py                                   sizes, guards, head comments, leftovers, names in comments
  tools/lint.py --build DIR                       also says whether DIR has a compilation database for --tidy
  tools/lint.py --build DIR --tidy [--seconds N]  clang-tidy over src/ and sim/, N seconds at most in all

Exit code 1 when something is found.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("src", "sim", "tests", "bench", "examples")
FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 70
LINE_COLUMNS_MAX = 100
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
CALL_IN_COMMENT = re.compile(r"\b([a-z][a-z0-9]*_[a-z0-9_]+)\(\)")
NAME = re.compile(r"\b[A-Za-z_]\w*")


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            if "corpus" not in path.parts:
                yield path


def code_and_comments(text):
    """The text without comments and literals, and its comments as (line, text)."""
    comments = []

    def cut(match):
        piece = match.group(0)
        if piece.startswith(("//", "/*")):
            comments.append((text.count("\n", 0, match.start()) + 1, piece))
        return "\n" * piece.count("\n") + " "

    return COMMENT_OR_TEXT.sub(cut, text), comments


def check_lines(where, lines):
    if len(lines) > FILE_LINES_MAX:
        yield f"{where}: {len(lines)} lines, at most {FILE_LINES_MAX}"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS_MAX:
            yield f"{where}:{number}: {len(line)} columns, at most {LINE_COLUMNS_MAX}"
        if line != line.rstrip():
            yield f"{where}:{number}: spaces at the end"
        if "\t" in line:
            yield f"{where}:{number}: a tab"
        if LEFTOVERS.search(line):
            yield f"{where}:{number}: {LEFTOVERS.search(line).group(1)} left over"


def check_functions(where, code):
    """In this house's format a function's body, and nothing else, begins with a brace in column one."""
    start = None
    for number, line in enumerate(code.splitlines(), 1):
        if line.startswith("{"):
            start = number
        elif line.startswith("}") and start:
            if number - start - 1 > FUNCTION_LINES_MAX:
                yield f"{where}:{start}: a function of {number - start - 1} lines, at most {FUNCTION_LINES_MAX}"
            start = None


def check_head(where, path, lines):
    if not lines or not lines[0].startswith(f"/* {path.name} - "):
        yield f'{where}:1: begins with "/* {path.name} - what it is"'


def check_guard(where, path, code):
    directives = [line.split() for line in code.splitlines() if line.startswith("#")]
    room = path.parent.name
    guard = directives[0][-1] if directives else ""
    want = re.sub(r"\W", "_", f"{room}_{path.name}").upper()
    if path.relative_to(ROOT).parts[0] not in ("src", "sim"):
        want = guard or want
    if directives[:2] != [["#ifndef", want], ["#define", want]]:
        yield f"{where}: the include guard must be {want}"


def check_names(where, comments, known):
    for number, comment in comments:
        for name in CALL_IN_COMMENT.findall(comment):
            if name not in known:
                yield f"{where}:{number}: the comment names {name}(), which does not exist"


def check_sources():
    files, known = [], set()
    for path in sources():
        text = path.read_text(encoding="utf-8")
        code, comments = code_and_comments(text)
        known.update(NAME.findall(code))
        files.append((path, text, code, comments))
    found = []
    for path, text, code, comments in files:
        where = path.relative_to(ROOT)
        lines = text.splitlines()
        found += check_lines(where, lines)
        found += check_functions(where, code)
        found += check_head(where, path, lines)
        found += check_names(where, comments, known)
        if path.suffix == ".h":
            found += check_guard(where, path, code)
    return found


def tidy_one(build, path, deadline):
    left = deadline - time.monotonic()
    if left <= 0:
        return path, None
    try:
        done = subprocess.run(["clang-tidy", "-p", str(build), "--quiet", str(path)],
                              capture_output=True, text=True, timeout=left, check=False)
    except subprocess.TimeoutExpired:
        return path, None
    return path, [line for line in done.stdout.splitlines() if re.search(r": (warning|error): ", line)]


def check_tidy(build, seconds):
    database = build / "compile_commands.json"
    if not database.exists():
        sys.exit(f"{database} is missing: configure first")
    files = {pathlib.Path(entry["file"]) for entry in json.loads(database.read_text())}
    ours = sorted(f for f in files if f.is_relative_to(ROOT / "src") or f.is_relative_to(ROOT / "sim"))
    deadline, found, skipped = time.monotonic() + seconds, set(), 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for _, lines in pool.map(lambda f: tidy_one(build, f, deadline), ours):
            skipped += lines is None
            found.update(lines or [])
    print(f"lint: clang-tidy read {len(ours) - skipped} of {len(ours)} files in the time it had")
    return sorted(line.replace(f"{ROOT}/", "") for line in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="build folder with compile_commands.json")
    parser.add_argument("--tidy", action="store_true", help="run clang-tidy too")
    parser.add_argument("--seconds", type=float, default=300, help="time for clang-tidy (default 300)")
    args = parser.parse_args()
    found = check_sources()
    if args.tidy:
        if not args.build:
            parser.error("--tidy needs --build")
        found += check_tidy(args.build.resolve(), args.seconds)
    for line in found:
        print(line)
    print(f"lint: {len(found)} found" if found else "lint: clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
