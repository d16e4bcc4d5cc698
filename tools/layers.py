#!/usr/bin/env python3
"""Refuses what breaks the floors of the house (tools/layers.txt).

  tools/layers.py                 includes only
  tools/layers.py --build DIR     also the objects in DIR/libbb_<room>.a: symbols of the operating system
                                  outside src/sys, and mutable static data

Use a build without sanitizers: they add symbols and data of their own. Exit code 1 when something is found.
"""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# objdump -t: value, seven flag columns, section, tab, size, name
SYMBOL = re.compile(r"^[0-9a-f]+ (.{7}) (\S+)\t[0-9a-f]+ (?:\.hidden )?(\S+)$")
MEMBER = re.compile(r"^(\S+\.o):\s+file format")


class Rules:
    def __init__(self, path):
        self.floor, self.may, self.data = {}, {}, set()
        self.os, self.allow = [], {}
        for number, line in enumerate(path.read_text().splitlines(), 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            kind, rest = words[0], words[1:]
            if kind == "room":
                self.floor[rest[0]] = int(rest[1])
                self.may[rest[0]] = [word for word in rest[2:] if word != "-"]
            elif kind == "os":
                self.os += rest
            elif kind == "allow":
                self.allow.setdefault(rest[0], []).extend(rest[1:])
            elif kind == "data":
                self.data.update(rest)
            else:
                sys.exit(f"{path}:{number}: unknown word '{kind}'")
        for room, may in self.may.items():
            for other in may:
                if other != "*" and other not in self.floor:
                    sys.exit(f"{path}: room {room} names the unknown room {other}")

    def may_include(self, room, other):
        if room == other or other in self.may[room]:
            return True
        return "*" in self.may[room] and self.floor[other] < self.floor[room]

    def is_os(self, symbol):
        return matches(symbol, self.os)

    def is_allowed(self, place, symbol):
        return matches(symbol, self.allow.get(place, []))


def matches(symbol, patterns):
    return any(symbol.startswith(p[:-1]) if p.endswith("*") else symbol == p for p in patterns)


def check_includes(rules):
    found = []
    for path in sorted((ROOT / "src").glob("*/**/*.[ch]")):
        room = path.relative_to(ROOT / "src").parts[0]
        where = path.relative_to(ROOT)
        if room not in rules.floor:
            found.append(f"{where}: room {room} is not in tools/layers.txt")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            name = match.group(1)
            if "/" not in name:
                found.append(f'{where}:{number}: "{name}" must be written with its room')
                continue
            other = name.split("/")[0]
            if other not in rules.floor:
                found.append(f'{where}:{number}: "{name}" is in no room')
            elif not rules.may_include(room, other):
                found.append(
                    f"{where}:{number}: {room} (floor {rules.floor[room]}) may not include"
                    f' "{name}" (floor {rules.floor[other]})'
                )
            elif other != room and name.endswith("_int.h"):
                found.append(f'{where}:{number}: "{name}" is private to {other}')
    return found


def plain(symbol):
    """The function behind a fortified or versioned name: __read_chk is read, open@GLIBC is open."""
    symbol = symbol.split("@")[0]
    match = re.fullmatch(r"__(\w+)_chk", symbol)
    symbol = match.group(1) if match else symbol
    return {"__isoc99_scanf": "scanf", "__isoc99_fscanf": "fscanf", "__open_2": "open"}.get(symbol, symbol)


def is_mutable(section):
    if section.startswith((".data.rel.ro", ".rodata")):
        return False
    return section == "*COM*" or section.startswith((".data", ".bss", ".tdata", ".tbss"))


def check_archive(rules, room, archive):
    found, place = [], f"{room}/?"
    text = subprocess.run(["objdump", "-t", str(archive)], check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        member = MEMBER.match(line)
        if member:
            place = f"{room}/{member.group(1).removesuffix('.o')}"
            continue
        match = SYMBOL.match(line)
        if not match:
            continue
        flags, section, symbol = match.groups()
        if section == "*UND*":
            name = plain(symbol)
            if room != "sys" and rules.is_os(name) and not rules.is_allowed(place, name):
                found.append(f"src/{place}: refers to {symbol}, which only src/sys may")
        elif is_mutable(section) and "d" not in flags and room not in rules.data:
            found.append(f"src/{place}: {symbol} is mutable static data ({section})")
    return found


def check_build(rules, build):
    found, seen = [], 0
    for room in rules.floor:
        archive = build / f"libbb_{room}.a"
        if archive.exists():
            seen += 1
            found += check_archive(rules, room, archive)
    if seen == 0:
        sys.exit(f"{build} holds no libbb_<room>.a: build first")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, help="build folder with the static libraries")
    parser.add_argument("--rules", type=pathlib.Path, default=ROOT / "tools" / "layers.txt")
    args = parser.parse_args()
    rules = Rules(args.rules)
    found = check_includes(rules)
    if args.build:
        found += check_build(rules, args.build)
    for line in found:
        print(line)
    print(f"layers: {len(found)} found" if found else "layers: the floors hold")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
