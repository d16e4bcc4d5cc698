"""A tiny raw client of the Kafka protocol: frames, request headers, messages by version, batches.

Place:   the case tests talk through it, since real clients hide the faults that they look for.
Facts:   messages.txt, read once. Encoding and decoding are strict: a byte left over is an error.
Codecs:  a batch's payload is wrapped in "stored" form (a valid stream that compresses nothing), so
         that the standard library is enough; the real compressors are the interop tests' matter.
Failure: Closed when the peer closes, TimeoutError when it does not answer, Malformed for bad bytes."""

import os
import socket
import struct
import time
import uuid
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
TIMEOUT_S = float(os.environ.get("RAW_TIMEOUT_S", "20"))

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS = {"none": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

NIL_UUID = uuid.UUID(int=0)


class Closed(Exception):
    """The peer closed the connection."""


class Malformed(Exception):
    """An answer that does not parse."""


# ---- messages.txt -------------------------------------------------------------------------------

class Versions:
    def __init__(self, text):
        if text == "none":
            self.low, self.high = 1, 0
        elif text.endswith("+"):
            self.low, self.high = int(text[:-1]), 32767
        else:
            low, _, high = text.partition("-")
            self.low, self.high = int(low), int(high or low)

    def __contains__(self, version):
        return self.low <= version <= self.high


NEVER = Versions("none")


class Field:
    def __init__(self, words):
        self.name, self.type = words[0], words[1]
        self.versions = Versions(words[2])
        self.null, self.tag, self.tagged, self.default = NEVER, None, NEVER, None
        self.fields = []
        at = 3
        while at < len(words):
            if words[at] == "null":
                self.null = Versions(words[at + 1])
                at += 2
            elif words[at] == "tag":
                self.tag, self.tagged = int(words[at + 1]), Versions(words[at + 2])
                at += 3
            elif words[at] == "default":
                self.default = words[at + 1]
                at += 2
            else:
                raise ValueError(f"messages.txt: {words}")

    def zero(self, version):
        """The value of a field that the caller did not give."""
        if self.type.startswith("[]"):
            return []
        if self.default == "null":
            return None
        if self.type == "string":
            return self.default or ""
        if self.type in ("bytes", "records"):
            return None if version in self.null else b""
        if self.type == "uuid":
            return NIL_UUID
        if self.type == "bool":
            return self.default == "true"
        if self.type == "float64":
            return 0.0
        if self.type == "struct":
            return {}
        return int(self.default or "0", 0)


class Message:
    def __init__(self, words):
        self.name, self.key = words[0], int(words[3])
        self.versions, self.flexible = Versions(words[5]), Versions(words[7])
        self.fields = []


def load_messages():
    messages, stack = {}, []
    with open(os.path.join(HERE, "messages.txt"), encoding="ascii") as source:
        for line in source:
            if not line.strip() or line.startswith("#"):
                continue
            depth = (len(line) - len(line.lstrip(" "))) // 2
            words = line.split()
            if depth == 0:
                message = Message(words)
                messages[words[0], words[1]] = message
                stack = [message]
                continue
            field = Field(words)
            del stack[depth:]
            stack[-1].fields.append(field)
            stack.append(field)
    return messages


MESSAGES = load_messages()
KEYS = {name: message.key for (name, _), message in MESSAGES.items()}
NAMES = {key: name for name, key in KEYS.items()}


# ---- primitive encoding -------------------------------------------------------------------------

FIXED = {"int8": ">b", "int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "int64": ">q",
         "float64": ">d"}


def uvarint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint(value):
    """Zigzag, 64 bits."""
    return uvarint((value << 1 ^ value >> 63) & 0xFFFFFFFFFFFFFFFF)


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if size < 0 or self.at + size > len(self.data):
            raise Malformed(f"wants {size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size:self.at]

    def fixed(self, kind):
        form = FIXED[kind]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise Malformed("varint too long")

    def varint(self):
        value = self.uvarint()
        return value >> 1 ^ -(value & 1)

    def left(self):
        return len(self.data) - self.at


# ---- message encoding ---------------------------------------------------------------------------

def put_size(size, flexible, wide):
    """A length or count; None is null. wide: 4 bytes, otherwise 2 (before flexible versions)."""
    if flexible:
        return uvarint(0 if size is None else size + 1)
    return struct.pack(">i" if wide else ">h", -1 if size is None else size)


def put_value(kind, field, value, version, flexible):
    if kind in FIXED:
        return struct.pack(FIXED[kind], value)
    if kind == "bool":
        return b"\1" if value else b"\0"
    if kind == "uuid":
        return value.bytes
    if kind == "struct":
        return put_fields(field.fields, value, version, flexible)
    if kind == "string":
        data = None if value is None else value.encode() if isinstance(value, str) else value
        return put_size(None if data is None else len(data), flexible, False) + (data or b"")
    if kind in ("bytes", "records"):
        return put_size(None if value is None else len(value), flexible, True) + (value or b"")
    raise ValueError(kind)


def put_field(field, value, version, flexible):
    if not field.type.startswith("[]"):
        return put_value(field.type, field, value, version, flexible)
    out = [put_size(None if value is None else len(value), flexible, True)]
    out.extend(put_value(field.type[2:], field, item, version, flexible) for item in value or ())
    return b"".join(out)


def put_fields(fields, values, version, flexible):
    unknown = set(values) - {field.name for field in fields}
    if unknown:
        raise ValueError(f"no such field: {unknown}")
    out, tagged = [], {}
    for field in fields:
        if version not in field.versions:
            continue
        if field.name in values:
            value = values[field.name]
        else:
            value = field.zero(version)
        if flexible and version in field.tagged:
            if field.name in values:
                tagged[field.tag] = put_field(field, value, version, flexible)
            continue
        out.append(put_field(field, value, version, flexible))
    if flexible:
        out.append(uvarint(len(tagged)))
        for tag, data in sorted(tagged.items()):
            out.append(uvarint(tag) + uvarint(len(data)) + data)
    return b"".join(out)


def get_size(reader, flexible, wide):
    if flexible:
        return reader.uvarint() - 1
    return reader.fixed("int32" if wide else "int16")


def get_value(kind, field, reader, version, flexible):
    if kind in FIXED:
        return reader.fixed(kind)
    if kind == "bool":
        return reader.take(1) != b"\0"
    if kind == "uuid":
        return uuid.UUID(bytes=reader.take(16))
    if kind == "struct":
        return get_fields(field.fields, reader, version, flexible)
    size = get_size(reader, flexible, kind != "string")
    if size == -1:
        if version not in field.null:
            raise Malformed(f"{field.name} v{version} is null")
        return None
    data = reader.take(size)
    return data.decode() if kind == "string" else data


def get_field(field, reader, version, flexible):
    if not field.type.startswith("[]"):
        return get_value(field.type, field, reader, version, flexible)
    count = get_size(reader, flexible, True)
    if count == -1:
        if version not in field.null:
            raise Malformed(f"{field.name} v{version} is null")
        return None
    if count < 0 or count > reader.left():
        raise Malformed(f"{field.name} has {count} elements")
    return [get_value(field.type[2:], field, reader, version, flexible) for _ in range(count)]


def get_fields(fields, reader, version, flexible):
    out = {}
    by_tag = {}
    for field in fields:
        if version not in field.versions:
            continue
        if flexible and version in field.tagged:
            by_tag[field.tag] = field
            out[field.name] = field.zero(version)
            continue
        out[field.name] = get_field(field, reader, version, flexible)
    if flexible:
        last = -1
        for _ in range(reader.uvarint()):
            tag, size = reader.uvarint(), reader.uvarint()
            if tag <= last:
                raise Malformed("tags not in rising order")
            last = tag
            inner = Reader(reader.take(size))
            if tag in by_tag:
                out[by_tag[tag].name] = get_field(by_tag[tag], inner, version, flexible)
                if inner.left():
                    raise Malformed(f"tag {tag} has {inner.left()} bytes left over")
    return out


def encode(api, kind, version, values):
    message = MESSAGES[api, kind]
    return put_fields(message.fields, values, version, version in message.flexible)


def decode(api, kind, version, data):
    """The answer as a dictionary; every byte must be used."""
    message, reader = MESSAGES[api, kind], Reader(data)
    out = get_fields(message.fields, reader, version, version in message.flexible)
    if reader.left():
        raise Malformed(f"{api} {kind} v{version}: {reader.left()} bytes left over")
    return out


# ---- connection ---------------------------------------------------------------------------------

def header(key, version, correlation_id, client_id="raw", flexible=False):
    name = client_id.encode()
    return (struct.pack(">hhih", key, version, correlation_id, len(name)) + name
            + (b"\0" if flexible else b""))


def frame(data):
    return struct.pack(">i", len(data)) + data


class Connection:
    def __init__(self, port, timeout_s=TIMEOUT_S):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0
        self.sent = []  # (api, version, correlation id) of requests that wait for their answer

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send_bytes(self, data):
        self.socket.sendall(data)

    def read_exactly(self, size):
        data = bytearray()
        while len(data) < size:
            try:
                piece = self.socket.recv(min(size - len(data), 1 << 20))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise Closed(f"{len(data)} of {size} bytes came")
            data += piece
        return bytes(data)

    def read_frame(self):
        size = struct.unpack(">i", self.read_exactly(4))[0]
        if size < 4 or size > 1 << 30:
            raise Malformed(f"frame of {size} bytes")
        return self.read_exactly(size)

    def request_bytes(self, api, version, body=b"", key=None):
        """A whole frame. 'body' is a dictionary of fields or bytes as they are."""
        self.correlation_id += 1
        if isinstance(body, dict):
            body = encode(api, "request", version, body)
        message = MESSAGES.get((api, "request"))
        flexible = message is not None and version in message.flexible
        key = message.key if key is None else key
        return frame(header(key, version, self.correlation_id, flexible=flexible) + body)

    def send(self, api, version, body=b"", key=None):
        self.send_bytes(self.request_bytes(api, version, body, key))
        self.sent.append((api, version, self.correlation_id))

    def receive(self):
        """The next answer, which must belong to the oldest open request."""
        data = self.read_frame()
        api, version, correlation_id = self.sent.pop(0)
        got = struct.unpack(">i", data[:4])[0]
        if got != correlation_id:
            raise Malformed(f"correlation id {got}, wanted {correlation_id}")
        data = data[4:]
        flexible = version in MESSAGES[api, "response"].flexible
        if flexible and api != "ApiVersions":
            if data[:1] != b"\0":
                raise Malformed("tags in a response header")
            data = data[1:]
        return decode(api, "response", version, data)

    def call(self, api, version, body=None):
        self.send(api, version, body or {})
        return self.receive()

    def is_closed(self, timeout_s=TIMEOUT_S):
        """True when the peer closes without sending a byte. Raises Malformed when bytes come."""
        self.socket.settimeout(timeout_s)
        try:
            data = self.socket.recv(1)
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False
        if data:
            raise Malformed("bytes where a close was expected")
        return True


# ---- record batches -----------------------------------------------------------------------------

def crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC32C_TABLE = crc32c_table()


def crc32c(data):
    crc, table = 0xFFFFFFFF, CRC32C_TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def xxh32(data):
    """XXH32 with seed 0 of fewer than 16 bytes: enough for an LZ4 frame's header."""
    assert len(data) < 16
    mask = 0xFFFFFFFF
    h = 374761393 + len(data) & mask
    while len(data) >= 4:
        h = h + struct.unpack("<I", data[:4])[0] * 3266489917 & mask
        h = (h << 17 | h >> 15) & mask
        h = h * 668265263 & mask
        data = data[4:]
    for byte in data:
        h = h + byte * 374761393 & mask
        h = (h << 11 | h >> 21) & mask
        h = h * 2654435761 & mask
    h = (h ^ h >> 15) * 2246822519 & mask
    h = (h ^ h >> 13) * 3266489917 & mask
    return h ^ h >> 16


def chunks(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)] or [b""]


def pack_gzip(data):
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return packer.compress(data) + packer.flush()


def pack_snappy(data):
    """Snappy's raw format, literals only."""
    out = [uvarint(len(data))]
    for piece in chunks(data, 60) if data else []:
        out.append(bytes([len(piece) - 1 << 2]) + piece)
    return b"".join(out)


def pack_lz4(data):
    """A frame of stored blocks of at most 64 KiB."""
    head = bytes([0x60, 0x40])
    out = [struct.pack("<I", 0x184D2204), head, bytes([xxh32(head) >> 8 & 0xFF])]
    for piece in chunks(data, 65536) if data else []:
        out.append(struct.pack("<I", 0x80000000 | len(piece)) + piece)
    out.append(struct.pack("<I", 0))
    return b"".join(out)


def pack_zstd(data):
    """A frame of raw blocks of at most 64 KiB, with a window of 128 KiB."""
    out = [struct.pack("<I", 0xFD2FB528), bytes([0x00, 0x38])]
    pieces = chunks(data, 65536)
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        out.append(struct.pack("<I", len(piece) << 3 | last)[:3] + piece)
    return b"".join(out)


PACK = {NONE: bytes, GZIP: pack_gzip, SNAPPY: pack_snappy, LZ4: pack_lz4, ZSTD: pack_zstd}


class Record:
    def __init__(self, value=b"", key=None, timestamp=None, headers=(), offset=None):
        self.value, self.key, self.timestamp = value, key, timestamp
        self.headers, self.offset = list(headers), offset

    def __eq__(self, other):
        return vars(self) == vars(other)

    def __repr__(self):
        return f"Record({vars(self)})"


def put_blob(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record_bytes(record, offset_delta, timestamp_delta):
    body = (b"\0" + varint(timestamp_delta) + varint(offset_delta) + put_blob(record.key)
            + put_blob(record.value) + varint(len(record.headers)))
    for name, value in record.headers:
        body += put_blob(name.encode()) + put_blob(value)
    return varint(len(body)) + body


def batch(records, codec=NONE, producer_id=-1, producer_epoch=-1, sequence=-1, base_offset=0,
          base_timestamp=None, max_timestamp=None, transactional=False, control=False,
          leader_epoch=-1, count=None, magic=2):
    """One record batch. 'records' are Record, bytes (a value), or (timestamp, value)."""
    now = int(time.time() * 1000)
    full = []
    for item in records:
        if isinstance(item, tuple):
            item = Record(item[1], timestamp=item[0])
        elif isinstance(item, bytes):
            item = Record(item)
        full.append(item)
    times = [now if record.timestamp is None else record.timestamp for record in full]
    first = base_timestamp if base_timestamp is not None else times[0] if times else now
    top = max_timestamp if max_timestamp is not None else max(times, default=-1)
    payload = b"".join(record_bytes(record, at, times[at] - first)
                       for at, record in enumerate(full))
    attributes = codec | (0x10 if transactional else 0) | (0x20 if control else 0)
    tail = struct.pack(">hiqqqhii", attributes, len(full) - 1 if count is None else count - 1,
                       first, top, producer_id, producer_epoch, sequence,
                       len(full) if count is None else count) + PACK[codec](payload)
    head = struct.pack(">qiibI", base_offset, len(tail) + 9, leader_epoch, magic, crc32c(tail))
    return head + tail


def message_set_v1(value, timestamp=0):
    """A message set of one record in the format before batches (magic 1)."""
    body = struct.pack(">bbq", 1, 0, timestamp) + struct.pack(">i", -1)
    body += struct.pack(">i", len(value)) + value
    body = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(body)) + body


class Batch:
    """A parsed batch. 'data' is the whole of it; records() unpacks those that are not compressed."""

    def __init__(self, data):
        (self.base_offset, self.length, self.leader_epoch, self.magic, self.crc, self.attributes,
         self.last_delta, self.base_timestamp, self.max_timestamp, self.producer_id,
         self.producer_epoch, self.sequence, self.count) = struct.unpack(">qiibIhiqqqhii",
                                                                        data[:61])
        self.data = data[:12 + self.length]

    @property
    def codec(self):
        return self.attributes & 7

    @property
    def last_offset(self):
        return self.base_offset + self.last_delta

    def is_sound(self):
        return crc32c(self.data[21:]) == self.crc

    def records(self):
        data = self.data[61:]
        if self.codec == GZIP:
            data = zlib.decompress(data, 31)
        elif self.codec != NONE:
            raise ValueError("codec")
        reader, out = Reader(data), []
        for _ in range(self.count):
            inner = Reader(reader.take(reader.varint()))
            inner.take(1)
            stamp, delta = inner.varint(), inner.varint()
            key_size = inner.varint()
            key = None if key_size < 0 else inner.take(key_size)
            value_size = inner.varint()
            value = None if value_size < 0 else inner.take(value_size)
            headers = []
            for _ in range(inner.varint()):
                name = inner.take(inner.varint()).decode()
                size = inner.varint()
                headers.append((name, None if size < 0 else inner.take(size)))
            out.append(Record(value, key, self.base_timestamp + stamp, headers,
                              self.base_offset + delta))
        return out


def batches(data):
    """The whole batches at the head of 'data'; a cut one at the end is left out."""
    out, at = [], 0
    while at + 61 <= len(data):
        size = 12 + struct.unpack(">i", data[at + 8:at + 12])[0]
        if at + size > len(data):
            break
        out.append(Batch(data[at:at + size]))
        at += size
    return out
