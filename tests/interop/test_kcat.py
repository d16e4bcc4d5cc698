"""kcat with Debian's librdkafka 2.0.2: every codec, keys, headers, nulls, listing, time queries."""

import json
import unittest

import fixture
import raw

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class KcatTest(fixture.BrokerTest):
    def kcat(self, *args, data=b"", limit_s=60):
        return fixture.run(["kcat", "-b", self.broker.bootstrap, *args], limit_s,
                           input=data).stdout

    def consume(self, topic, *args):
        """Every record of a topic as kcat's JSON envelope."""
        out = self.kcat("-C", "-q", "-e", "-t", topic, "-J", "-X", "fetch.wait.max.ms=50", *args)
        return [json.loads(line) for line in out.splitlines()]

    def test_what_every_codec_writes_is_read_back(self):
        values = fixture.numbered_values(1000, 1)
        lines = "".join(f"k{at}:{value}\n" for at, value in enumerate(values)).encode()
        for codec in CODECS:
            with self.subTest(codec):
                topic = fixture.unique(codec)
                self.kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec,
                          "-X", "linger.ms=50", data=lines)
                found = self.consume(topic)
                self.assertEqual(list(range(1000)), [item["offset"] for item in found])
                self.assertEqual([f"k{at}" for at in range(1000)], [item["key"] for item in found])
                self.assertEqual(values, [item["payload"] or "" for item in found])

    def test_acknowledgements_of_every_kind(self):
        for acks in ("0", "1", "all"):
            topic = fixture.unique("acks")
            self.kcat("-P", "-t", topic, "-p", "0", "-X", "acks=" + acks, data=b"a\nb\nc\n")
            if acks == "0":
                fixture.wait_until(lambda: len(self.consume(topic)) == 3, what="acks=0 is stored")
            self.assertEqual(["a", "b", "c"], [item["payload"] for item in self.consume(topic)])

    def test_an_idempotent_producer(self):
        topic = fixture.unique("idempotent")
        lines = "".join(f"{number}\n" for number in range(5000)).encode()
        self.kcat("-P", "-t", topic, "-p", "0", "-X", "enable.idempotence=true", "-z", "lz4",
                  data=lines)
        self.assertEqual([str(number) for number in range(5000)],
                         [item["payload"] for item in self.consume(topic)])

    def test_headers_nulls_and_empty_values(self):
        topic = fixture.unique("headers")
        self.kcat("-P", "-t", topic, "-p", "0", "-H", "one=1", "-H", "empty=", "-H", "one=2",
                  data=b"with headers\n")
        self.kcat("-P", "-t", topic, "-p", "0", "-Z", "-K", ":", data=b"gone:\n")
        found = self.consume(topic)
        self.assertEqual(["one", "1", "empty", "", "one", "2"], found[0]["headers"])
        self.assertEqual(("with headers", None), (found[0]["payload"], found[0]["key"]))
        self.assertEqual((None, "gone"), (found[1]["payload"], found[1]["key"]))

    def test_listing_names_broker_topic_and_partitions(self):
        topic = fixture.unique("list")
        self.kcat("-P", "-t", topic, "-p", "0", data=b"x\n")
        found = json.loads(self.kcat("-L", "-J", "-t", topic))
        self.assertEqual([self.broker.bootstrap], [item["name"] for item in found["brokers"]])
        self.assertEqual([topic], [item["topic"] for item in found["topics"]])
        node = found["brokers"][0]["id"]
        self.assertEqual([node], [item["leader"] for item in found["topics"][0]["partitions"]])
        self.assertIn(topic.encode(), self.kcat("-L"))

    def test_offsets_by_time_and_reading_from_an_offset(self):
        topic = fixture.unique("times")
        for value in (b"first\n", b"second\n", b"third\n"):
            self.kcat("-P", "-t", topic, "-p", "0", data=value)
        found = self.consume(topic)
        stamps = [item["ts"] for item in found]
        for wanted, stamp in enumerate(stamps):
            out = self.kcat("-Q", "-t", f"{topic}:0:{stamp}").decode()
            self.assertIn(f"{topic} [0] offset {wanted}", out)
        self.assertIn("offset 3", self.kcat("-Q", "-t", f"{topic}:0:-1").decode())
        self.assertIn("offset 0", self.kcat("-Q", "-t", f"{topic}:0:-2").decode())
        late = self.consume(topic, "-p", "0", "-o", "2")
        self.assertEqual(["third"], [item["payload"] for item in late])
        tail = self.consume(topic, "-p", "0", "-o", "-2")
        self.assertEqual(["second", "third"], [item["payload"] for item in tail])
        by_time = self.consume(topic, "-p", "0", "-o", f"s@{stamps[1]}")
        self.assertEqual(["second", "third"], [item["payload"] for item in by_time])

    def test_reading_from_the_end(self):
        topic = fixture.unique("end")
        self.kcat("-P", "-t", topic, "-p", "0", data=b"".join(b"%d\n" % at for at in range(100)))
        for start, wanted in (("-3", ["97", "98", "99"]), ("end", []), ("98", ["98", "99"]),
                              ("beginning", [str(at) for at in range(100)])):
            with self.subTest(start):
                found = self.consume(topic, "-p", "0", "-o", start)
                self.assertEqual(wanted, [item["payload"] for item in found])

    def test_messages_up_to_the_limit_and_above_it(self):
        topic = fixture.unique("large")
        wide = ("-X", "message.max.bytes=3000000", "-D", "@")
        big = "x" * (1048588 - 100)  # max.message.bytes, less a batch's and a record's head
        self.kcat("-P", "-t", topic, "-p", "0", *wide, data=big.encode())
        with self.assertRaisesRegex(AssertionError, "Message size too large"):
            self.kcat("-P", "-t", topic, "-p", "0", *wide, data=b"y" * 1048589)
        self.kcat("-P", "-t", topic, "-p", "0", *wide, data=b"z" * 500000 + b"@" + b"z" * 500000)
        self.assertEqual([big, "z" * 500000, "z" * 500000],
                         [item["payload"] for item in self.consume(topic)])
        self.assertEqual([len(big), 500000, 500000],
                         [len(item["payload"]) for item in
                          self.consume(topic, "-X", "fetch.message.max.bytes=1000")])

    def test_many_partitions_are_written_and_read(self):
        topic = fixture.unique("many")
        link = raw.Connection(self.broker.port)
        self.addCleanup(link.close)
        answer = link.call("CreateTopics", 5, {
            "Topics": [{"Name": topic, "NumPartitions": 24, "ReplicationFactor": 1}],
            "timeoutMs": 20000, "validateOnly": False})["Topics"][0]
        self.assertEqual(0, answer["ErrorCode"])
        lines = "".join(f"{at}:{at}\n" for at in range(6000)).encode()
        self.kcat("-P", "-t", topic, "-K", ":", "-z", "snappy", data=lines)
        found = self.consume(topic)
        self.assertEqual(list(range(6000)), sorted(int(item["payload"]) for item in found))
        parts = {}
        for item in found:
            parts.setdefault(item["partition"], []).append(item)
        self.assertEqual(24, len(parts))
        for items in parts.values():
            self.assertEqual(list(range(len(items))), [item["offset"] for item in items])
            values = [int(item["payload"]) for item in items]
            self.assertEqual(sorted(values), values)


if __name__ == "__main__":
    unittest.main()
