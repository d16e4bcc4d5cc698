"""A topic directory that Kafka 4.4 wrote is served by Barnabas: records, times, epochs, producers.

How it is adopted: the topic is created here, the broker stopped, the files of Kafka's directory laid
into ours. partition.metadata stays ours, since it holds the topic's id; the manifest and the marker
of the clean stop go, so that the start looks at the files."""

import os
import shutil
import sys
import unittest

import fixture

sys.path.insert(0, os.path.join(fixture.ROOT, "tests", "cases"))
import case  # noqa: E402
import raw  # noqa: E402

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SIZE = {"segment.bytes": "1048576", "retention.ms": "-1"}


@unittest.skipIf(fixture.is_kafka(), "adopts what Kafka wrote")
class AdoptionTest(case.CaseTest):
    def write_with_kafka(self, topics, producer):
        """Fills the topics on a Kafka node and stops it; returns what it holds, by topic."""
        node = fixture.Kafka()
        self.addCleanup(node.remove)
        node.start()
        ours = self.broker
        try:
            self.broker = node
            self.reconnect()
            held = {}
            for topic, codec in topics.items():
                self.create(configs=SIZE, name=topic)
                self.write(node, topic, codec, producer)
                self.assertEqual((0, 7), self.delete_records(topic, 7))
                held[topic] = (self.read_all(topic, start=7), self.offset_of(topic, -1),
                               self.offset_and_time(topic, -3))
        finally:
            self.broker = ours
            node.stop()
        return node, held

    def write(self, node, topic, codec, producer):
        values = fixture.numbered_values(400, codec)
        answer = fixture.Java.get().call(
            "produce", bootstrap=node.bootstrap, topic=topic,
            props={"compression.type": codec, "linger.ms": "20", "batch.size": "2000"},
            records=[{"key": f"k{number}", "value": value, "partition": 0,
                      "timestamp": 1700000000000 + number} for number, value in enumerate(values)])
        self.assertEqual(400, len(answer["offsets"]))
        for number in range(30):  # rolls some segments
            self.store(topic, raw.batch([(1700000001000 + number, os.urandom(100000))]))
        for sequence in range(3):
            self.store(topic, self.from_producer(producer, sequence))

    @staticmethod
    def from_producer(producer, sequence):
        """Stamped now: a producer whose last batch is older than a day is forgotten."""
        return raw.batch([b"s%d" % sequence], producer_id=producer, producer_epoch=0,
                         sequence=sequence)

    def adopt(self, node, topic):
        theirs, ours = node.partition_dir(topic), self.broker.partition_dir(topic)
        for name in os.listdir(ours):
            if name != "partition.metadata":
                os.unlink(os.path.join(ours, name))
        for name in os.listdir(theirs):
            if name != "partition.metadata":
                shutil.copy2(os.path.join(theirs, name), ours)

    def test_directories_that_kafka_wrote_are_served(self):
        topics = {fixture.unique(codec): codec for codec in CODECS}
        producer = 424242
        node, held = self.write_with_kafka(topics, producer)
        self.reconnect()
        for topic in topics:
            self.create(configs=SIZE, name=topic)
        self.broker.stop()
        for topic in topics:
            segments = [name for name in os.listdir(node.partition_dir(topic))
                        if name.endswith(".log")]
            self.assertGreaterEqual(len(segments), 3)
            self.adopt(node, topic)
        for name in ("manifest", ".kafka_cleanshutdown"):
            path = os.path.join(self.broker.logs, name)
            if os.path.exists(path):
                os.unlink(path)
        self.broker.start()
        self.reconnect()
        for topic in topics:
            with self.subTest(topic):
                self.check(topic, *held[topic], producer)

    def check(self, topic, batches, end, highest, producer):
        self.wait_served(topic)
        self.assertEqual(end, self.offset_of(topic, -1))
        start = self.offset_of(topic, -2)
        found = self.read_all(topic, start=start)
        wanted = {batch.base_offset: batch.data for batch in batches}
        self.assertEqual(wanted, {batch.base_offset: batch.data for batch in found
                                  if batch.base_offset in wanted})
        self.assertEqual(highest, self.offset_and_time(topic, -3))
        self.assertEqual((100, 1700000000100), self.offset_and_time(topic, 1700000000100))
        again = self.produce(topic, self.from_producer(producer, 2))
        self.assertEqual((0, end - 1), (again["ErrorCode"], again["BaseOffset"]), "a duplicate")
        self.assertEqual(end, self.store(topic, self.from_producer(producer, 3)))


if __name__ == "__main__":
    unittest.main()
