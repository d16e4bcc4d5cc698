"""kafka-python 3: its producer, assigned consumer and admin client. Part of ./test --full."""

import time
import unittest

import fixture

# Its package is called kafka, like the peer's helper, whose name fixture has given back.
fixture.need_packages("kafka-python==3.0.12")
import kafka  # noqa: E402
from kafka import TopicPartition  # noqa: E402
from kafka.admin import KafkaAdminClient, NewTopic  # noqa: E402

CODECS = (None, "gzip")  # the others want packages of their own


class KafkaPythonTest(fixture.BrokerTest):
    def create(self, partitions=1):
        name = fixture.unique()
        client = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        self.addCleanup(client.close)
        client.create_topics([NewTopic(name, partitions, 1)])
        return name

    def consumer(self, topic, partitions=1):
        client = kafka.KafkaConsumer(bootstrap_servers=self.broker.bootstrap, group_id=None,
                                     enable_auto_commit=False, auto_offset_reset="earliest")
        self.addCleanup(client.close)
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        client.assign(parts)
        return client, parts

    def read(self, client, count, limit_s=30):
        found, end = [], time.monotonic() + limit_s
        while len(found) < count and time.monotonic() < end:
            for records in client.poll(timeout_ms=500).values():
                found.extend(records)
        self.assertEqual(count, len(found))
        return found

    def test_what_it_writes_it_reads(self):
        for codec in CODECS:
            with self.subTest(codec):
                topic, values = self.create(), fixture.numbered_values(500, 5)
                producer = kafka.KafkaProducer(bootstrap_servers=self.broker.bootstrap,
                                               compression_type=codec, acks="all", linger_ms=20)
                futures = [producer.send(topic, value.encode(), key=b"k%d" % number,
                                         headers=[("h", b"%d" % number)], partition=0)
                           for number, value in enumerate(values)]
                offsets = [future.get(30).offset for future in futures]
                producer.close()
                self.assertEqual(list(range(500)), offsets)
                found = self.read(self.consumer(topic)[0], 500)
                self.assertEqual(values, [item.value.decode() for item in found])
                self.assertEqual([b"k%d" % number for number in range(500)],
                                 [item.key for item in found])
                self.assertEqual([("h", b"7")], [tuple(item) for item in found[7].headers])

    def test_offsets_and_seeking(self):
        topic = self.create()
        producer = kafka.KafkaProducer(bootstrap_servers=self.broker.bootstrap)
        stamps = [1700000000000 + 1000 * number for number in range(5)]
        for stamp in stamps:
            producer.send(topic, b"v", timestamp_ms=stamp, partition=0).get(30)
        producer.close()
        client, (part,) = self.consumer(topic)
        self.assertEqual({part: 0}, client.beginning_offsets([part]))
        self.assertEqual({part: 5}, client.end_offsets([part]))
        found = client.offsets_for_times({part: stamps[2] - 1})[part]
        self.assertEqual((2, stamps[2]), (found.offset, found.timestamp))
        client.seek(part, 3)
        self.assertEqual([3, 4], [item.offset for item in self.read(client, 2)])

    def test_topics_are_described_and_deleted(self):
        topic = self.create(3)
        client = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        self.addCleanup(client.close)
        self.assertIn(topic, client.list_topics())
        client.delete_topics([topic])
        fixture.wait_until(lambda: topic not in client.list_topics(), what="the topic is gone")


if __name__ == "__main__":
    unittest.main()
