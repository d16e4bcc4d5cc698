"""barnabas produce and consume against a broker."""

import os
import pty
import signal
import subprocess
import tempfile
import threading
import unittest

from cli import PROGRAM, ClientTest, fixture


class Records(ClientTest):
    def test_lines_come_back_in_order(self):
        name = self.topic()
        lines = [f"line {i}" for i in range(5000)]
        done = self.call("produce", name, text="\n".join(lines) + "\n")
        self.assertEqual(f"5000 records to {name}\n", done.err)
        done = self.call("consume", name, "--from-beginning", "-e")
        self.assertEqual(lines, done.out.splitlines())
        self.assertEqual(f"5000 records from {name}\n", done.err)
        self.assertEqual("", self.call("consume", name, "--from-beginning", "-e", "-q").err)

    def test_keys_headers_and_empty_lines(self):
        name = self.topic()
        self.call("produce", name, "-K", "::", "-H", "a=1", "-H", "b=x=y", text="k::v\nplain\n\n::v\nk::\n")
        records = self.consume(name)
        self.assertEqual([("k", "v"), (None, "plain"), (None, ""), ("", "v"), ("k", "")],
                         [(r["key"], r["value"]) for r in records])
        self.assertEqual([0, 1, 2, 3, 4], [r["offset"] for r in records])
        for record in records:
            self.assertEqual([{"key": "a", "value": "1"}, {"key": "b", "value": "x=y"}], record["headers"])
            self.assertEqual("create", record["timestamp_type"])
        done = self.call("consume", name, "--from-beginning", "-n", 1, "--format", "key-value")
        self.assertEqual("k\tv\n", done.out)
        done = self.call("consume", name, "--from-beginning", "-n", 1, "--format", "key-value", "-K", "=>")
        self.assertEqual("k=>v\n", done.out)

    def test_the_last_line_needs_no_newline_and_bytes_survive(self):
        name = self.topic()
        self.call("produce", name, text=b"zero\x00byte\r\n\xff\xfe\nlast")
        records = self.consume(name)
        self.assertEqual("zero\x00byte\r", records[0]["value"])
        self.assertEqual("//4=", records[1]["value_base64"])
        self.assertEqual("last", records[2]["value"])

    def test_a_long_line_is_one_record(self):
        name = self.topic("-c", "max.message.bytes=5000000")
        line = "x" * 3000000
        self.call("produce", name, text=f"a\n{line}\nb\n")
        self.assertEqual(["a", line, "b"], [r["value"] for r in self.consume(name)])

    def test_what_the_topic_refuses_is_a_failure(self):
        name = self.topic("-c", "max.message.bytes=1000")
        done = self.call("produce", name, "--acks", "1", text="small\n" + "x" * 5000 + "\n", code=1)
        self.assertIn("records failed", done.err)

    def test_codecs_acks_and_partitions(self):
        name = self.topic("-p", 3)
        for number, codec in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
            for acks in ("all", "1"):
                self.call("produce", name, "-z", codec, "-a", acks, "-p", number % 3,
                          text="".join(f"{codec} {acks} {i}\n" for i in range(100)))
        self.call("produce", name, "-a", "0", "-p", 2, text="fire and forget\n")
        records = self.consume(name)
        self.assertEqual(1001, len(records))
        self.assertEqual(400, sum(r["partition"] == 1 for r in records))
        one = self.consume(name, "--partition", 1)
        self.assertEqual({1}, {r["partition"] for r in one})
        self.assertEqual(list(range(400)), [r["offset"] for r in one])
        self.assertIn("no partition 7", self.call("consume", name, "-p", 7, code=1).err)
        self.call("produce", name, "-p", 7, text="x\n", code=1)

    def test_producing_is_idempotent_by_default(self):
        name = self.topic()
        self.call("produce", name, text="a\n")
        self.call("produce", name, "--acks", "1", text="b\n")
        self.broker.stop()
        path = os.path.join(self.broker.partition_dir(name), "00000000000000000000.log")
        from cli import barnabas
        batches = barnabas("dump-log", path, "--format", "json").lines()
        self.assertGreaterEqual(batches[0]["producer_id"], 0)
        self.assertNotIn("producer_id", batches[1])
        self.broker.start()

    def test_keys_go_where_java_puts_them(self):
        name = self.topic("-p", 10)
        self.call("produce", name, "-K", ":", text="alice:1\nbob:1\ncarol:1\nalice:2\n")
        got = {r["key"]: r["partition"] for r in self.consume(name)}
        self.assertEqual({key: murmur2(key.encode()) % 10 for key in got}, got)

    def test_offsets(self):
        name = self.topic()
        self.call("produce", name, text="".join(f"{i}\n" for i in range(20)))
        self.assertEqual(["17", "18", "19"], self.call("consume", name, "-o", 17, "-e").out.split())
        self.assertEqual(["18", "19"], self.call("consume", name, "-o", -2, "-e").out.split())
        self.assertEqual(20, len(self.call("consume", name, "--offset=-100", "-e").out.split()))
        self.assertEqual(["5", "6"], self.call("consume", name, "-o", 5, "-n", 2).out.split())
        self.assertIn("no such offset", self.call("consume", name, "-o", 1000, "-e", code=1).err)

    def test_a_timeout_is_a_failure_only_where_records_were_promised(self):
        name = self.topic()
        self.call("produce", name, text="a\nb\n")
        done = self.call("consume", name, "--from-beginning", "--timeout-ms", 300)
        self.assertEqual("a\nb\n", done.out)
        done = self.call("consume", name, "--from-beginning", "-n", 3, "--timeout-ms", 300, code=1)
        self.assertEqual("a\nb\n", done.out)
        self.assertIn("2 of 3 came", done.err)

    def test_topics(self):
        self.assertIn("no topic 'nowhere'", self.call("consume", "nowhere", "-e", code=1).err)
        self.assertNotIn("nowhere", self.call("topic", "list").out)
        name = fixture.unique("auto")
        self.call("produce", name, text="created by the first record\n")
        self.assertEqual(1, len(self.consume(name)))
        self.assertIn("No such file", self.call("produce", name, "-f", "/nowhere", code=1).err)
        self.assertIn("directory", self.call("produce", name, "-f", "/", code=1).err)


class Following(ClientTest):
    def start(self, *arguments, **streams):
        return subprocess.Popen([PROGRAM, *arguments, "-b", self.broker.bootstrap], **streams)

    def test_new_records_are_followed_until_interrupted(self):
        name = self.topic("-p", 2)
        self.call("produce", name, text="old\n")
        process = self.start("consume", name, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
        reader.start()

        def knock():
            self.call("produce", name, text="new\n")
            return lines

        try:
            fixture.wait_until(knock, what="a new record")
            self.broker.restart()
            count = len(lines)
            fixture.wait_until(lambda: knock() and len(lines) > count, what="a record after a restart")
            process.send_signal(signal.SIGINT)
            self.assertEqual(0, process.wait(20))
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()
            process.stderr.close()
        self.assertEqual({b"new\n"}, set(lines))

    def test_lines_are_sent_while_the_input_stays_open(self):
        name = self.topic()
        process = self.start("produce", name, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            process.stdin.write(b"first\n")
            process.stdin.flush()
            fixture.wait_until(lambda: self.consume(name), what="the first line")
            process.send_signal(signal.SIGTERM)
            error = process.stderr.read().decode()
            self.assertEqual(1, process.wait(20))
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stderr.close()
        self.assertIn("interrupted after 1 records", error)

    def bar_of(self, arguments, stdin=None):
        """What the command paints when standard error is a terminal."""
        master, slave = pty.openpty()
        painted = []

        def read():
            try:
                while chunk := os.read(master, 65536):
                    painted.append(chunk)
            except OSError:
                pass

        reader = threading.Thread(target=read)
        reader.start()
        with self.start(*arguments, stdin=stdin, stdout=subprocess.DEVNULL, stderr=slave) as process:
            os.close(slave)
            self.assertEqual(0, process.wait(60))
        reader.join()
        os.close(master)
        return b"".join(painted).decode()

    def test_a_bar_is_painted_on_terminals_only(self):
        name = self.topic()
        with tempfile.NamedTemporaryFile("w") as file:
            file.writelines(f"{i}\n" for i in range(50000))
            file.flush()
            painted = self.bar_of(["produce", name, "-f", file.name])
        self.assertRegex(painted, r"\rproduce \[[#.]{30}\] +\d+ %  \d+ records, \d+ a second")
        self.assertTrue(painted.endswith(f"50000 records to {name}\r\n"), painted[-200:])
        painted = self.bar_of(["consume", name, "--from-beginning", "-e"])
        self.assertRegex(painted, r"\rconsume \[[#.]{30}\]")
        self.assertEqual(f"50000 records from {name}\n",
                         self.call("consume", name, "--from-beginning", "-e").err)

    def test_output_that_cannot_be_written_is_a_failure(self):
        name = self.topic()
        self.call("produce", name, text="x" * 1000 + "\n")
        for end in (["-e"], []):  # who follows does not go on without a place to print to
            with open("/dev/full", "wb") as full:
                process = self.start("consume", name, "--from-beginning", *end, stdout=full,
                                     stderr=subprocess.PIPE)
                error = process.communicate(timeout=30)[1].decode()
            self.assertEqual(1, process.returncode)
            self.assertIn("could not be written", error)


def murmur2(data):
    """The hash of kafka-clients' default partitioner, without its sign."""
    m, length = 0x5bd1e995, len(data)
    h = 0x9747b28c ^ length
    for i in range(0, length - length % 4, 4):
        k = int.from_bytes(data[i:i + 4], "little") * m & 0xffffffff
        k = (k ^ k >> 24) * m & 0xffffffff
        h = (h * m & 0xffffffff) ^ k
    if length % 4:
        h = (h ^ int.from_bytes(data[length - length % 4:], "little")) * m & 0xffffffff
    h = (h ^ h >> 13) * m & 0xffffffff
    return (h ^ h >> 15) & 0x7fffffff


if __name__ == "__main__":
    unittest.main()
