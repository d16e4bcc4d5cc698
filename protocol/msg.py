"""Reads the message definitions (*.msg). The language is described in README.md beside this file."""

import re
from pathlib import Path

KINDS = ("request", "response", "header", "data", "key", "value", "metadata")
SCALARS = ("bool", "i8", "i16", "i32", "i64", "u16", "u32", "f64", "uuid")
VARIABLE = ("str", "bytes", "records")
FOREVER = 32767


def snake(name):
    name = re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


class Versions:
    """A closed range, empty when hi < lo."""

    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi

    @classmethod
    def parse(cls, text):
        m = re.fullmatch(r"(\d+)(\+|-(\d+))?", text)
        if not m:
            raise ValueError("bad version range '%s'" % text)
        lo = int(m[1])
        return cls(lo, FOREVER if m[2] == "+" else int(m[3]) if m[3] else lo)

    def __and__(self, other):
        return Versions(max(self.lo, other.lo), min(self.hi, other.hi))

    def __bool__(self):
        return self.lo <= self.hi

    def __contains__(self, v):
        return self.lo <= v <= self.hi

    def __eq__(self, other):
        return (not self and not other) or (self.lo, self.hi) == (other.lo, other.hi)

    def __str__(self):
        if not self:
            return "none"
        if self.hi == FOREVER:
            return "%d+" % self.lo
        return "%d" % self.lo if self.lo == self.hi else "%d-%d" % (self.lo, self.hi)


NEVER = Versions(1, 0)


class Field:
    def __init__(self, name, type_, versions):
        self.name, self.versions = name, versions
        self.array = type_.startswith("[]")
        self.type = type_[2:] if self.array else type_
        self.nullable = NEVER
        self.tag, self.tagged = None, NEVER
        self.default = None  # text, None is the zero of the type
        self.ignorable = self.rigid = self.sensitive = False
        self.fields = []
        self.struct = None  # the Struct of a field of struct type

    def is_struct(self):
        return self.type[0].isupper()


class Struct:
    def __init__(self, name, versions, fields):
        self.name, self.versions, self.fields = name, versions, fields


class Message:
    def __init__(self, kind, key, name, path):
        self.kind, self.key, self.name, self.path = kind, key, name, path
        self.versions, self.flexible = NEVER, NEVER
        self.listeners, self.unstable, self.advertise = [], False, None
        self.fields, self.commons = [], {}
        self.structs = []  # all reachable, inner ones first, the message itself last

    def api(self):
        return re.sub(r"(Request|Response)$", "", self.name)


def parse_field(words):
    f = Field(words[0], words[1], Versions.parse(words[2]))
    words = words[3:]
    looks_like_range = re.compile(r"\d+(\+|-\d+)?$")
    while words:
        w = words.pop(0)
        if w == "null":
            own = words and looks_like_range.match(words[0])
            f.nullable = Versions.parse(words.pop(0)) if own else f.versions
        elif w == "tag":
            f.tag = int(words.pop(0))
            own = words and looks_like_range.match(words[0])
            f.tagged = Versions.parse(words.pop(0)) if own else f.versions
        elif w == "default":
            f.default = words.pop(0)
        elif w in ("ignorable", "rigid", "sensitive"):
            setattr(f, w, True)
        else:
            raise ValueError("unknown word '%s'" % w)
    return f


def parse_head(words, path):
    kind = words.pop(0)
    if kind not in KINDS:
        raise ValueError("unknown kind '%s'" % kind)
    key = int(words.pop(0)) if re.fullmatch(r"-?\d+", words[0]) else None
    m = Message(kind, key, words.pop(0), path)
    if words == ["removed"]:
        return m
    m.versions = Versions.parse(words.pop(0))
    while words:
        w = words.pop(0)
        if w == "flexible":
            m.flexible = Versions.parse(words.pop(0))
        elif w == "listeners":
            m.listeners = words.pop(0).split(",")
        elif w == "advertise":
            m.advertise = Versions.parse(words.pop(0))
        elif w == "unstable":
            m.unstable = True
        else:
            raise ValueError("unknown word '%s'" % w)
    return m


def resolve(message):
    """Ties fields of struct type to their Struct and lists the structs in order of need."""
    done = {}

    def walk(fields, parent):
        for f in fields:
            if not f.is_struct():
                if f.type not in SCALARS + VARIABLE:
                    raise ValueError("unknown type '%s' of %s" % (f.type, f.name))
                continue
            if f.fields:
                if f.type in done:
                    raise ValueError("struct '%s' defined twice" % f.type)
                f.struct = done[f.type] = Struct(f.type, f.versions, f.fields)
                walk(f.fields, f.struct)
                message.structs.append(f.struct)
            elif f.type in done:
                f.struct = done[f.type]
            elif f.type in message.commons:
                f.struct = done[f.type] = message.commons[f.type]
                walk(f.struct.fields, f.struct)
                message.structs.append(f.struct)
            else:
                raise ValueError("unknown struct '%s'" % f.type)

    top = Struct(None, message.versions, message.fields)
    walk(message.fields, top)
    message.structs.append(top)


def parse(path):
    message, stack = None, None
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        text = line.split("#")[0].rstrip()
        if not text.strip():
            continue
        try:
            depth, odd = divmod(len(text) - len(text.lstrip()), 2)
            if odd:
                raise ValueError("indentation is two spaces a level")
            words = text.split()
            if message is None:
                message = parse_head(words, path)
                stack = [message.fields]
            elif depth == 0:
                if words[0] != "struct" or len(words) != 3:
                    raise ValueError("expected 'struct Name versions'")
                common = Struct(words[1], Versions.parse(words[2]), [])
                message.commons[common.name] = common
                stack = [common.fields]
            else:
                if depth > len(stack):
                    raise ValueError("indented too far")
                f = parse_field(words)
                stack = stack[:depth]
                stack[-1].append(f)
                stack.append(f.fields)
        except (ValueError, IndexError) as e:
            raise SystemExit("%s:%d: %s" % (path, number, e))
    if message is None:
        raise SystemExit("%s: empty" % path)
    try:
        resolve(message)
    except ValueError as e:
        raise SystemExit("%s: %s" % (path, e))
    return message


def load(directory):
    """All messages, by file name within their folder: api, data, metadata, records."""
    return [parse(p) for p in sorted(Path(directory).glob("*/*.msg"))]
