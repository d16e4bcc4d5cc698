#!/usr/bin/env python3
"""Whether libpurgatory's documents say what its files say.

docs/PURGATORY.md: each block of code after a line <!-- quote: FILE --> is a part of that file of examples/purgatory, line by line, and
every example is quoted. docs/PURGATORY_PROOF.md: each [ID] occurs in src/purgatory, and every id of src/purgatory in the proof.
Exit code 1 when something is found.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "purgatory"
QUOTE = re.compile(r"^<!-- quote: (\S+) -->\n```\w*\n(.*?)^```$", re.M | re.S)
ID = re.compile(r"\[([A-Z]{2,4}-\d+)\]")


def check_quotes():
    text = (ROOT / "docs" / "PURGATORY.md").read_text(encoding="utf-8")
    quotes = QUOTE.findall(text)
    if len(quotes) != text.count("<!-- quote:"):
        yield "PURGATORY.md: a quote without its block of code"
    for name, quote in quotes:
        if "\n" + quote not in "\n" + (EXAMPLES / name).read_text(encoding="utf-8"):
            yield f"PURGATORY.md: this is not in {name} (any more):\n{quote}"
    for path in sorted(EXAMPLES.glob("*.c")):
        if path.name not in dict(quotes):
            yield f"PURGATORY.md: quotes nothing of {path.name}"


def check_ids():
    proof = (ROOT / "docs" / "PURGATORY_PROOF.md").read_text(encoding="utf-8")
    code = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src" / "purgatory").glob("*.[ch]")))
    in_proof, in_code = set(ID.findall(proof)), set(ID.findall(code))
    for name in sorted(in_proof - in_code):
        yield f"PURGATORY_PROOF.md: [{name}] is nowhere in src/purgatory"
    for name in sorted(in_code - in_proof):
        yield f"src/purgatory: [{name}] is not in PURGATORY_PROOF.md"
    if not in_proof:
        yield "PURGATORY_PROOF.md: no ids"


def main():
    found = [*check_quotes(), *check_ids()]
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
