"""seeds.py GENERATED_MESSAGES_C - writes the first inputs of every fuzz target into corpus/.

Batches and messages come from the golden vectors that Kafka's classes wrote; the rest is made here.
GENERATED_MESSAGES_C is <build>/gen/wire/gen/messages.c: a message is named by its place in it."""

import gzip
import re
import struct
import sys
from pathlib import Path

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"
RECORDS = GOLDEN / "data" / "records"
REPAIR, APPEND_TIME, KEYS, FORCE = 1, 2, 4, 8


def put(target, name, data):
    folder = HERE / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)


def batches():
    for path in sorted(RECORDS.glob("*-1.bin")) + sorted(RECORDS.glob("*-big.bin")):
        batch = path.read_bytes()
        if len(batch) > 4096:
            continue
        codec = batch[22] & 7
        put("codec", path.stem, bytes([codec]) + batch[61:])
        batch = bytes(8) + batch[8:]
        put("batch", path.stem, bytes([0]) + batch)
        put("batch", path.stem + "-repair", bytes([REPAIR | KEYS]) + batch)
        put("batch", path.stem + "-rewrite", bytes([FORCE | (codec + 1) % 5 << 4]) + batch)
        put("batch", path.stem + "-time", bytes([APPEND_TIME | FORCE]) + batch)


def state_files():
    snapshot = (RECORDS / "producers.snapshot").read_bytes()
    put("snapshot", "kafka", b"\0" + snapshot)
    put("snapshot", "kafka-repair", b"\1" + snapshot)
    put("snapshot", "empty", b"\1\0\1\0\0\0\0\0\0\0\0")
    put("epochs", "kafka", (RECORDS / "leader-epoch-checkpoint").read_bytes())
    put("epochs", "empty", b"0\n0\n")
    put("epochs", "wrong-order", b"0\n2\n3 5\n2 9\n")


def at_offset(batch, offset):
    count = struct.unpack(">i", batch[57:61])[0]
    return struct.pack(">q", offset) + batch[8:], offset + count


def segments():
    log, offset = b"", 0
    for name in ("none-1", "lz4-1", "gzip-1", "none-1", "zstd-1"):
        batch, offset = at_offset((RECORDS / (name + ".bin")).read_bytes(), offset)
        log += batch
    index = struct.pack(">II", 1, 81) + struct.pack(">II", 3, 300)
    times = struct.pack(">qI", 1700000000000, 1)
    for flags, mark, tail in ((0, 0, b""), (1, 0, b""), (3, 3, b""), (7, 2, b"\0" * 40),
                              (15, 5, log[:50]), (3, 5, b"noise" * 9)):
        head = bytes([flags, mark]) + struct.pack(">HH", len(index), len(times))
        put("segment", f"flags-{flags}-{len(tail)}", head + index + times + log + tail)
        head = bytes([flags, mark]) + struct.pack(">HH", 0, 0)
        put("segment", f"bare-{flags}-{len(tail)}", head + log + tail)


def mark(kind, partition, offset, base, pos, hw):
    return struct.pack(">II16siiqqQq", 0, kind, bytes([1, 2, 3]) + bytes(13), partition, 4, offset, base, pos, hw)


def directories():
    head = b"BBMARKS1" + bytes(56)
    fold, synced, lowered, start = (mark(kind, 0, kind, 0, 73 * kind, 1) for kind in (2, 1, 3, 4))
    put("marks", "all-kinds", b"\1" + head + fold + synced + lowered + start)
    put("marks", "behind-the-end", b"\1" + head + mark(1, 0, 50, 0, 9999, 60) + mark(4, 0, 40, -1, 0, -1))
    put("marks", "torn", b"\1" + head + synced + synced[:30])
    put("marks", "damaged", b"\0" + head + synced)
    text = lambda name: struct.pack(">h", len(name)) + name
    segment = lambda base, end: struct.pack(">qqQqqqB", base, end, 100, 1700000000000, base, 5, 1)
    log = lambda name, extra: (text(name) + struct.pack(">i16sqqqqB", 0, bytes(range(16)), 2, 5, 9, -1, 0)
                               + struct.pack(">I", 2) + segment(0, 4) + segment(4, 9)
                               + struct.pack(">Iiqiq", 2, 1, 0, 2, 6) + extra)
    rot = struct.pack(">IqQQqq", 1, 0, 10, 40, 1, 3)
    body = struct.pack(">QII", 0x42424D414E494631, 1, 2) + log(b"t", bytes(4)) + log(b"u", rot)
    put("manifest", "two-logs", b"\1" + body + bytes(4))
    put("manifest", "none", b"\1" + struct.pack(">QII", 0x42424D414E494631, 1, 0) + bytes(4))
    put("manifest", "damaged", b"\0" + body + bytes(4))
    put("checkpoint", "three", b"0\n3\na-b 0 17\nt 12 0\n__x.y 3 9223372036854775807\n")
    put("checkpoint", "wrong-count", b"0\n2\nt 0 1\n")
    put("checkpoint", "twice", b"0\n2\nt 0 1\nt 0 2\n")
    folder = HERE.parent / "integration" / "cli" / "data" / "__cluster_metadata-0"
    file = lambda kind, base, data: struct.pack(">BBH", kind, base, len(data)) + data
    log = (folder / "00000000000000000000.log").read_bytes()[:4000]
    put("journal", "log", file(4, 0, log))
    put("journal", "log-torn", file(4, 0, log[:-7]))
    put("journal", "odd-names", file(4, 0, log) + file(7, 1, log) + file(6, 2, log[:100]))
    put("journal", "snapshot", file(5, 9, log) + file(0, 9, b""))


def messages(table):
    rows = re.findall(r'\{"(\w+)", (WIRE_\w+), (-?\d+), (-?\d+), (-?\d+), (\d+),', table.read_text())
    place = {row[0]: (i, *row[1:2], *map(int, row[2:])) for i, row in enumerate(rows)}
    for line in gzip.open(GOLDEN / "vectors.txt.gz", "rt"):
        name, version, variant, data = line.split(" ")[:4]
        if name not in place or variant != "varied":
            continue
        i, kind, key, low, high, flexible = place[name]
        data = bytes.fromhex(data[1:])
        if int(version) != high or len(data) > 600:
            continue
        if kind == "WIRE_REQUEST":
            tail = b"\0" if high >= flexible else b""
            head = struct.pack(">hhih", key, high, 7, 4) + b"fuzz" + tail
            put("request", name, head + data)
            frame = struct.pack(">i", len(head + data)) + head + data
            if key in (0, 3, 18):
                put("frame", name, frame + frame[:20])
        elif len(data) < 200 and i % 3 == 0:
            put("message", name, struct.pack(">HB", i, high - low) + data)


def texts():
    put("frame", "http", b"GET / HTTP/1.1\r\n\r\n")
    put("frame", "tls", b"\x16\x03\x01\x02\x00\x01")
    put("frame", "huge", b"\x7f\xff\xff\xff\0\0\0\0")
    put("properties", "plain", b"# comment\nlog.dirs=/tmp/a\nnode.id = 1\nnum.io.threads:4\n")
    put("properties", "escapes", b"listeners=PLAINTEXT://\\\n  :9092\nlog.dir=a\\u0041\\tb\\\\\n! c\n")
    put("properties", "wrong", b"node.id=many\n")
    put("properties", "unknown", b"no.such.key=1\n=\n:\n\\\n")


if __name__ == "__main__":
    batches()
    state_files()
    segments()
    directories()
    messages(Path(sys.argv[1]))
    texts()
