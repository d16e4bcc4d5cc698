"""The newest librdkafka (confluent-kafka) and the Java client read what each other wrote."""

import time
import unittest

import fixture

fixture.need_packages("confluent-kafka==2.16.1")
import confluent_kafka as ck  # noqa: E402
from confluent_kafka import admin  # noqa: E402

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def text(data):
    return None if data is None else data.decode()


class LibrdkafkaTest(fixture.BrokerTest):
    def config(self, **more):
        return {"bootstrap.servers": self.broker.bootstrap, "socket.timeout.ms": 20000,
                **{key.replace("_", "."): value for key, value in more.items()}}

    def produce(self, topic, items, **config):
        """items: (key, value); returns their offsets, in order, once all are acknowledged."""
        producer, offsets, faults = ck.Producer(self.config(**config)), [None] * len(items), []

        def report(number):
            def done(error, message):
                if error:
                    faults.append(error)
                else:
                    offsets[number] = message.offset()
            return done

        for number, (key, value) in enumerate(items):
            producer.produce(topic, value, key, partition=0, on_delivery=report(number))
            producer.poll(0)
        self.assertEqual(0, producer.flush(60), "not delivered")
        self.assertEqual([], faults)
        return offsets

    def consume(self, topic, count, offset=ck.OFFSET_BEGINNING, limit_s=30, **config):
        consumer = ck.Consumer(self.config(group_id="unused", enable_auto_commit=False,
                                           check_crcs=True, **config))
        self.addCleanup(consumer.close)
        consumer.assign([ck.TopicPartition(topic, 0, offset)])
        found, end = [], time.monotonic() + limit_s
        while len(found) < count and time.monotonic() < end:
            for message in consumer.consume(min(count - len(found), 1000), 0.5):
                self.assertIsNone(message.error())
                found.append(message)
        self.assertEqual(count, len(found))
        return found

    def contents(self, topic, count):
        return [(text(item.key()), text(item.value())) for item in self.consume(topic, count)]

    def admin(self):
        return admin.AdminClient(self.config())

    def create(self, partitions=1, **configs):
        name = fixture.unique()
        self.admin().create_topics([admin.NewTopic(
            name, partitions, 1, config={key.replace("_", "."): value
                                         for key, value in configs.items()})])[name].result(30)
        return name

    def items(self, seed):
        values = fixture.numbered_values(600, seed)
        return [(None if number % 5 == 0 else f"key-{number}",
                 None if number % 11 == 10 else value) for number, value in enumerate(values)]

    # ---- producing and consuming

    def test_each_codec_written_here_is_read_by_every_client(self):
        for seed, codec in enumerate(CODECS):
            with self.subTest(codec):
                topic, items = self.create(), self.items(seed)
                offsets = self.produce(topic, items, compression_type=codec, linger_ms=50,
                                       enable_idempotence=True)
                self.assertEqual(list(range(600)), offsets)
                self.assertEqual(items, self.contents(topic, 600))
                found = fixture.Java.get().call(
                    "consume", bootstrap=self.broker.bootstrap, topic=topic, partitions=[0],
                    count=600, **{"from": "beginning"})["records"]
                self.assertEqual(items, [(item["key"], item["value"]) for item in found])

    def test_each_codec_written_by_java_is_read_here(self):
        for seed, codec in enumerate(CODECS):
            with self.subTest(codec):
                topic, items = self.create(), self.items(seed)
                answer = fixture.Java.get().call(
                    "produce", bootstrap=self.broker.bootstrap, topic=topic,
                    props={"compression.type": codec, "linger.ms": "50", "acks": "all"},
                    records=[{"key": key, "value": value, "partition": 0}
                             for key, value in items])
                self.assertEqual([[0, number] for number in range(600)], answer["offsets"])
                self.assertEqual(items, self.contents(topic, 600))

    def test_a_topic_with_its_own_codec_is_recompressed(self):
        for codec in ("gzip", "snappy", "lz4", "zstd", "uncompressed"):
            for sent in ("none", "zstd"):
                with self.subTest(codec, sent=sent):
                    topic, items = self.create(compression_type=codec), self.items(9)
                    self.produce(topic, items, compression_type=sent, linger_ms=50)
                    self.assertEqual(items, self.contents(topic, 600))

    def test_acknowledgements_of_every_kind(self):
        items = self.items(3)
        for acks in (0, 1, -1):
            with self.subTest(acks=acks):
                topic = self.create()
                self.produce(topic, items, acks=acks)
                self.assertEqual(items, self.contents(topic, 600))

    def test_many_partitions_at_a_time_keep_their_order(self):
        topic = self.create(6)
        producer = ck.Producer(self.config(enable_idempotence=True, linger_ms=5))
        for number in range(12000):
            producer.produce(topic, str(number), partition=number % 6)
            producer.poll(0)
        self.assertEqual(0, producer.flush(60))
        consumer = ck.Consumer(self.config(group_id="unused", enable_auto_commit=False))
        self.addCleanup(consumer.close)
        consumer.assign([ck.TopicPartition(topic, part, ck.OFFSET_BEGINNING) for part in range(6)])
        found, end = {part: [] for part in range(6)}, time.monotonic() + 30
        while sum(map(len, found.values())) < 12000 and time.monotonic() < end:
            for message in consumer.consume(1000, 0.5):
                found[message.partition()].append(int(message.value()))
        self.assertEqual({part: list(range(part, 12000, 6)) for part in range(6)}, found)

    def test_assigned_consumers_seek_and_ask_for_offsets(self):
        topic = self.create()
        for number, stamp in enumerate((1700000001000, 1700000002000, 1700000003000)):
            producer = ck.Producer(self.config())
            producer.produce(topic, str(number), partition=0, timestamp=stamp)
            self.assertEqual(0, producer.flush(30))
        consumer = ck.Consumer(self.config(group_id="unused", enable_auto_commit=False))
        self.addCleanup(consumer.close)
        self.assertEqual((0, 3), consumer.get_watermark_offsets(ck.TopicPartition(topic, 0), 20))
        for stamp, wanted in ((1700000001500, 1), (1700000003000, 2), (1700000003001, -1)):
            found = consumer.offsets_for_times([ck.TopicPartition(topic, 0, stamp)], 20)[0]
            self.assertEqual(wanted if wanted >= 0 else ck.OFFSET_END, found.offset)
        self.assertEqual([b"2"], [item.value() for item in self.consume(topic, 1, 2)])
        self.assertEqual([b"1", b"2"], [item.value() for item in
                                        self.consume(topic, 2, ck.OFFSET_TAIL(2))])

    def test_an_end_of_partition_is_told(self):
        topic = self.create()
        self.produce(topic, [(None, "only")])
        consumer = ck.Consumer(self.config(group_id="unused", enable_auto_commit=False,
                                           enable_partition_eof=True))
        self.addCleanup(consumer.close)
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        self.assertEqual(b"only", consumer.poll(20).value())
        self.assertEqual(ck.KafkaError._PARTITION_EOF, consumer.poll(20).error().code())

    # ---- administration

    def test_topics_are_created_grown_described_and_deleted(self):
        client, name = self.admin(), self.create(2, retention_ms="3600000")
        client.create_partitions([admin.NewPartitions(name, 5)])[name].result(30)
        found = fixture.wait_until(
            lambda: len(client.list_topics(name, 20).topics[name].partitions) == 5)
        self.assertTrue(found)
        with self.assertRaises(ck.KafkaException) as caught:
            client.create_topics([admin.NewTopic(name, 1, 1)])[name].result(30)
        self.assertEqual(ck.KafkaError.TOPIC_ALREADY_EXISTS, caught.exception.args[0].code())
        client.delete_topics([name])[name].result(30)
        fixture.wait_until(lambda: name not in client.list_topics(timeout=20).topics)

    def test_configurations_are_described_and_changed(self):
        client, name = self.admin(), self.create(retention_ms="3600000")
        resource = admin.ConfigResource(admin.RESOURCE_TOPIC, name)
        entries = client.describe_configs([resource])[resource].result(30)
        self.assertEqual("3600000", entries["retention.ms"].value)
        self.assertFalse(entries["retention.ms"].is_default)
        self.assertTrue(entries["segment.bytes"].is_default)
        change = admin.ConfigResource(admin.RESOURCE_TOPIC, name, incremental_configs=[
            admin.ConfigEntry("segment.ms", "700000",
                              incremental_operation=admin.AlterConfigOpType.SET),
            admin.ConfigEntry("retention.ms", None,
                              incremental_operation=admin.AlterConfigOpType.DELETE)])
        client.incremental_alter_configs([change])[change].result(30)
        entries = client.describe_configs([resource])[resource].result(30)
        self.assertEqual("700000", entries["segment.ms"].value)
        self.assertEqual("604800000", entries["retention.ms"].value)

    def test_records_are_deleted_and_offsets_listed(self):
        client, topic = self.admin(), self.create()
        self.produce(topic, [(None, str(number)) for number in range(20)])
        part = ck.TopicPartition(topic, 0, 7)
        self.assertEqual(7, client.delete_records([part])[part].result(30).low_watermark)

        def offset(spec):
            asked = ck.TopicPartition(topic, 0)
            return client.list_offsets({asked: spec})[asked].result(30).offset

        self.assertEqual(7, offset(admin.OffsetSpec.earliest()))
        self.assertEqual(20, offset(admin.OffsetSpec.latest()))
        self.assertGreaterEqual(offset(admin.OffsetSpec.max_timestamp()), 7)
        self.assertEqual([str(number).encode() for number in range(7, 20)],
                         [item.value() for item in self.consume(topic, 13)])

    def test_the_cluster_is_described(self):
        found = self.admin().describe_cluster().result(30)
        self.assertEqual([self.broker.port], [node.port for node in found.nodes])
        self.assertTrue(found.cluster_id)


if __name__ == "__main__":
    unittest.main()
