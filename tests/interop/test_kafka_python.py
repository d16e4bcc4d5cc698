"""kafka-python 3: its producer, assigned consumer and admin client. Part of ./test --full."""

import time
import unittest

import fixture

# Its package is called kafka, like the peer's helper, whose name fixture has given back.
fixture.need_packages()
import kafka  # noqa: E402
from kafka import TopicPartition, errors  # noqa: E402
from kafka.admin import ConfigResource, KafkaAdminClient, NewTopic  # noqa: E402

CODECS = (None, "gzip", "snappy", "lz4", "zstd")


class KafkaPythonTest(fixture.BrokerTest):
    def admin(self):
        client = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        self.addCleanup(client.close)
        return client

    def create(self, partitions=1, configs=None):
        name, client = fixture.unique(), self.admin()
        client.create_topics([NewTopic(name, partitions, 1, topic_configs=configs or {})])
        client.wait_for_topics([name])
        return name

    def producer(self, **config):
        client = kafka.KafkaProducer(bootstrap_servers=self.broker.bootstrap, **config)
        self.addCleanup(client.close)
        return client

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
                producer = self.producer(compression_type=codec, acks="all", linger_ms=20)
                futures = [producer.send(topic, value.encode(), key=b"k%d" % number,
                                         headers=[("h", b"%d" % number)], partition=0)
                           for number, value in enumerate(values)]
                offsets = [future.get(30).offset for future in futures]
                self.assertEqual(list(range(500)), offsets)
                found = self.read(self.consumer(topic)[0], 500)
                self.assertEqual(values, [item.value.decode() for item in found])
                self.assertEqual([b"k%d" % number for number in range(500)],
                                 [item.key for item in found])
                self.assertEqual([("h", b"7")], [tuple(item) for item in found[7].headers])

    def test_offsets_and_seeking(self):
        topic = self.create()
        producer = self.producer()
        stamps = [1700000000000 + 1000 * number for number in range(5)]
        for stamp in stamps:
            producer.send(topic, b"v", timestamp_ms=stamp, partition=0).get(30)
        client, (part,) = self.consumer(topic)
        self.assertEqual({part: 0}, client.beginning_offsets([part]))
        self.assertEqual({part: 5}, client.end_offsets([part]))
        found = client.offsets_for_times({part: stamps[2] - 1})[part]
        self.assertEqual((2, stamps[2]), (found.offset, found.timestamp))
        client.seek(part, 3)
        self.assertEqual([3, 4], [item.offset for item in self.read(client, 2)])

    def test_acknowledgements_of_every_kind(self):
        for acks in (0, 1, "all"):
            with self.subTest(acks=acks):
                topic = self.create()
                producer = self.producer(acks=acks, enable_idempotence=acks == "all")
                for number in range(100):
                    producer.send(topic, b"%d" % number, partition=0)
                producer.flush(30)
                self.assertEqual([b"%d" % number for number in range(100)],
                                 [item.value for item in self.read(self.consumer(topic)[0], 100)])

    def test_many_partitions_keep_their_order(self):
        topic = self.create(12)
        producer = self.producer(linger_ms=5, compression_type="lz4")
        for number in range(6000):
            producer.send(topic, b"%d" % number, partition=number % 12)
        producer.flush(60)
        found = {part: [] for part in range(12)}
        for item in self.read(self.consumer(topic, 12)[0], 6000):
            found[item.partition].append(int(item.value))
        self.assertEqual({part: list(range(part, 6000, 12)) for part in range(12)}, found)

    def test_a_tombstone_and_an_empty_value_differ(self):
        topic = self.create()
        producer = self.producer()
        producer.send(topic, None, key=b"gone", partition=0)
        producer.send(topic, b"", key=b"", partition=0)
        producer.flush(30)
        self.assertEqual([(b"gone", None), (b"", b"")],
                         [(item.key, item.value) for item in self.read(self.consumer(topic)[0], 2)])

    def test_a_message_above_the_topics_limit_is_refused(self):
        topic = self.create(configs={"max.message.bytes": "100000"})
        producer = self.producer()
        self.assertEqual(0, producer.send(topic, bytes(99000), partition=0).get(30).offset)
        with self.assertRaises(errors.MessageSizeTooLargeError):
            producer.send(topic, bytes(100001), partition=0).get(30)
        self.assertEqual([99000], [len(item.value) for item in
                                   self.read(self.consumer(topic)[0], 1)])

    # ---- administration

    def test_topics_are_created_grown_and_deleted(self):
        topic, client = self.create(3), self.admin()
        self.assertIn(topic, client.list_topics())
        with self.assertRaises(errors.TopicAlreadyExistsError):
            client.create_topics([NewTopic(topic, 1, 1)])
        client.create_partitions({topic: 5})
        fixture.wait_until(
            lambda: len(client.describe_topics([topic])[0]["partitions"]) == 5)
        found = client.describe_topic_partitions([topic])["topics"][0]
        self.assertEqual([0, 1, 2, 3, 4],
                         [part["partition_index"] for part in found["partitions"]])
        client.delete_topics([topic])
        fixture.wait_until(lambda: topic not in client.list_topics(), what="the topic is gone")

    def test_the_cluster_and_its_directories_are_described(self):
        topic, client = self.create(2), self.admin()
        found = client.describe_cluster()
        self.assertEqual([self.broker.port], [broker["port"] for broker in found["brokers"]])
        self.assertTrue(found["cluster_id"])
        (logs,) = client.describe_log_dirs([topic])[0]["log_dirs"]
        self.assertEqual((0, self.broker.logs), (logs["error_code"], logs["log_dir"]))
        self.assertEqual([0, 1], sorted(part["partition_index"]
                                        for part in logs["topics"][0]["partitions"]))

    def test_configurations_are_described_changed_and_reset(self):
        topic, client = self.create(configs={"retention.ms": "3600000"}), self.admin()

        def modified():
            found = client.describe_configs([ConfigResource("TOPIC", topic)])["topic"][topic]
            return {key: item["value"] for key, item in found.items()}

        self.assertEqual({"retention.ms": "3600000"}, modified())
        client.alter_configs([ConfigResource("TOPIC", topic, {"segment.ms": "700000"})])
        self.assertEqual({"retention.ms": "3600000", "segment.ms": "700000"}, modified())
        client.reset_configs([ConfigResource("TOPIC", topic, ["retention.ms"])])
        self.assertEqual({"segment.ms": "700000"}, modified())

    def test_records_are_deleted_and_offsets_listed(self):
        topic, client = self.create(), self.admin()
        producer = self.producer(linger_ms=20)
        for number in range(20):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush(30)
        part = TopicPartition(topic, 0)
        self.assertEqual(7, client.delete_records({part: 7})[part]["low_watermark"])
        self.assertEqual([7, 20], [client.list_partition_offsets({part: spec})[part].offset
                                   for spec in (-2, -1)])
        self.assertEqual(list(range(7, 20)),
                         [item.offset for item in self.read(self.consumer(topic)[0], 13)])


if __name__ == "__main__":
    unittest.main()
