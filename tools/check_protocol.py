#!/usr/bin/env python3
"""Compares protocol/*.msg with Kafka's definitions, field by field.

    check_protocol.py [--protocol DIR] SOURCE...

A SOURCE is a folder with Kafka's message definitions as JSON (searched with its subfolders), a Kafka jar, or a folder
of jars (tools/peer/fetch.sh): the jars carry the definitions that Kafka was built from. Compared are key, kind,
versions, flexible versions, listeners, stability, and of every field its place, type, versions, nullability, tag,
default, ignorability and flexibility. --protocol names definitions other than ours, --reference is ignored.
Differences are printed, the exit status is 1 then."""

import json
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "protocol"))
import msg  # noqa: E402
from msg import NEVER, Versions  # noqa: E402

TYPES = {"string": "str", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint16": "u16",
         "uint32": "u32", "float64": "f64"}
KINDS = {"coordinator-key": "key", "coordinator-value": "value"}
ADVERTISED = {"ProduceRequest": "0-13"}  # not in the definitions, but what a running broker lists
# Definitions of Kafka's that are no business of ours.
IGNORED = {"QuorumStateData"}


def strip_comments(text):
    return "\n".join(line for line in text.splitlines() if not re.match(r"\s*//", line))


def trailing(text):
    """Without comments behind values; none of the definitions has // inside a string."""
    return re.sub(r"//.*", "", strip_comments(text))


def add(found, text, where):
    d = json.loads(trailing(text))
    if isinstance(d, dict) and "validVersions" in d and d["name"] not in IGNORED:
        found[d["name"]] = (d, where)


def read_sources(sources):
    found = {}
    for source in map(Path, sources):
        jars = [source] if source.is_file() else sorted(source.glob("kafka-*.jar"))
        for jar in jars:
            with zipfile.ZipFile(jar) as z:
                for name in z.namelist():
                    if name.endswith(".json") and re.match(r"(common/)?(message|metadata)/", name):
                        add(found, z.read(name).decode(), "%s:%s" % (jar.name, name))
        if source.is_dir():
            for path in sorted(source.rglob("*.json")):
                add(found, path.read_text(), str(path))
    return found


def versions(text):
    return NEVER if text in (None, "none") else Versions.parse(text)


def theirs_default(f):
    """The default in our form: None is the zero of the type."""
    d = f.get("default")
    t = f["type"]
    if d is None or d == "":
        return None
    if d == "null" or t == "string":
        return str(d)
    if t == "bool":
        return "true" if str(d).lower() == "true" else None
    if t == "float64":
        return None if float(d) == 0 else str(d)
    value = int(str(d), 0)
    return str(value) if value else None


class Check:
    def __init__(self):
        self.differences = 0
        self.fields = 0

    def differ(self, where, what, ours, theirs):
        self.differences += 1
        print("%s: %s is %s, in Kafka %s" % (where, what, ours, theirs))

    def same(self, where, what, ours, theirs):
        if ours != theirs:
            self.differ(where, what, ours, theirs)

    def field(self, where, ours, f, commons):
        self.fields += 1
        theirs_type = f["type"]
        array = theirs_type.startswith("[]")
        base = theirs_type[2:] if array else theirs_type
        self.same(where, "type", ("[]" if ours.array else "") + ours.type, ("[]" if array else "") + TYPES.get(base, base))
        # A tagged field may leave out its versions.
        self.same(where, "versions", str(ours.versions), str(versions(f.get("versions", f.get("taggedVersions")))))
        self.same(where, "nullable versions", str(ours.nullable), str(versions(f.get("nullableVersions"))))
        self.same(where, "tag", ours.tag, f.get("tag"))
        self.same(where, "tagged versions", str(ours.tagged), str(versions(f.get("taggedVersions"))))
        self.same(where, "default", ours.default, theirs_default(f))
        self.same(where, "ignorable", ours.ignorable, f.get("ignorable", False) in (True, "true"))
        self.same(where, "rigid", ours.rigid, f.get("flexibleVersions") == "none")
        if f.get("fields"):
            self.list(where, ours.fields, f["fields"], commons)

    def list(self, where, ours, theirs, commons):
        self.same(where, "field names", [f.name for f in ours], [f["name"] for f in theirs])
        for o, t in zip(ours, theirs):
            self.field("%s.%s" % (where, o.name), o, t, commons)

    def message(self, ours, d):
        name = ours.name
        self.same(name, "kind", ours.kind, KINDS.get(d["type"], d["type"]))
        self.same(name, "key", ours.key, d.get("apiKey"))
        self.same(name, "versions", str(ours.versions), str(versions(d["validVersions"])))
        if not ours.versions:
            return
        self.same(name, "flexible versions", str(ours.flexible), str(versions(d.get("flexibleVersions"))))
        if ours.kind == "request":
            self.same(name, "listeners", sorted(ours.listeners), sorted(d.get("listeners", [])))
            self.same(name, "unstable", ours.unstable, d.get("latestVersionUnstable", False) in (True, "true"))
            advertised = str(ours.advertise) if ours.advertise else None
            self.same(name, "advertised versions", advertised, ADVERTISED.get(name))
        self.list(name, ours.fields, d["fields"], d.get("commonStructs", []))
        theirs = {c["name"]: c for c in d.get("commonStructs", [])}
        self.same(name, "common structs", sorted(ours.commons), sorted(theirs))
        for key in ours.commons.keys() & theirs.keys():
            where = "%s/%s" % (name, key)
            self.same(where, "versions", str(ours.commons[key].versions), str(versions(theirs[key]["versions"])))
            self.list(where, ours.commons[key].fields, theirs[key]["fields"], [])


def main():
    sources = [a for a in sys.argv[1:] if a != "--reference"]
    protocol = ROOT / "protocol"
    if sources[:1] == ["--protocol"]:
        protocol, sources = Path(sources[1]), sources[2:]
    if not sources:
        raise SystemExit(__doc__)
    theirs = read_sources(sources)
    ours = {m.name: m for m in msg.load(protocol)}
    check = Check()
    for name in sorted(ours.keys() - theirs.keys()):
        check.differ(name, "message", "here", "missing")
    for name in sorted(theirs.keys() - ours.keys()):
        check.differ(theirs[name][1], "message", "missing", name)
    for name in sorted(ours.keys() & theirs.keys()):
        check.message(ours[name], theirs[name][0])
    print("%d messages, %d fields compared, %d differences" % (len(ours), check.fields, check.differences))
    sys.exit(1 if check.differences else 0)


if __name__ == "__main__":
    main()
