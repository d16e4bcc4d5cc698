"""The newest librdkafka (confluent-kafka) alone, and with kcat (librdkafka 2.0.2) and the Java
client: each reads what the others wrote. No group: consumers are assigned their partitions."""

import json
import time
import unittest

import fixture

fixture.need_packages()
import confluent_kafka as ck  # noqa: E402
from confluent_kafka import admin  # noqa: E402

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TAIL = -2000  # TAIL - n: n records before the end


def text(data):
    return None if data is None else data.decode()


class ClientTest(fixture.BrokerTest):
    def config(self, **more):
        return {"bootstrap.servers": self.broker.bootstrap, "socket.timeout.ms": 20000,
                "log_level": 3,
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

    def consumer(self, **config):
        consumer = ck.Consumer(self.config(group_id="unused", enable_auto_commit=False,
                                           check_crcs=True, **config))
        self.addCleanup(consumer.close)
        return consumer

    def consume(self, topic, count, offset=ck.OFFSET_BEGINNING, limit_s=30, **config):
        consumer = self.consumer(**config)
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

    def setUp(self):
        super().setUp()
        self.admin = admin.AdminClient(self.config())  # what it promises ends with it
        self.addCleanup(delattr, self, "admin")

    def create(self, partitions=1, **configs):
        name = fixture.unique()
        topic = admin.NewTopic(name, partitions, 1, config={key.replace("_", "."): value
                                                            for key, value in configs.items()})
        self.admin.create_topics([topic])[name].result(30)
        fixture.wait_until(lambda: name in self.admin.list_topics(timeout=20).topics)
        return name

    def items(self, seed):
        values = fixture.numbered_values(600, seed)
        return [(None if number % 5 == 0 else f"key-{number}",
                 None if number % 11 == 10 else value) for number, value in enumerate(values)]

    def kcat(self, *args, data=b""):
        return fixture.run(["kcat", "-b", self.broker.bootstrap, *args], 60, input=data).stdout


class RecordsTest(ClientTest):
    def test_each_codec_written_here_is_read_by_every_client(self):
        for seed, codec in enumerate(CODECS):
            with self.subTest(codec):
                topic, items = self.create(), self.items(seed)
                offsets = self.produce(topic, items, compression_type=codec, linger_ms=50,
                                       enable_idempotence=True)
                self.assertEqual(list(range(600)), offsets)
                self.assertEqual(items, self.contents(topic, 600))
                lines = self.kcat("-C", "-q", "-e", "-J", "-t", topic, "-X",
                                  "fetch.wait.max.ms=50").splitlines()
                self.assertEqual(items, [(item["key"], item["payload"])
                                         for item in map(json.loads, lines)])
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

    def test_each_codec_written_by_kcat_is_read_here(self):
        values = fixture.numbered_values(600, 4)
        lines = "".join(f"k{at}:{value}\n" for at, value in enumerate(values)).encode()
        for codec in CODECS:
            with self.subTest(codec):
                topic = self.create()
                self.kcat("-P", "-t", topic, "-p", "0", "-K", ":", "-z", codec, "-X",
                          "linger.ms=50", "-X", "enable.idempotence=true", data=lines)
                self.assertEqual([(f"k{at}", value) for at, value in enumerate(values)],
                                 self.contents(topic, 600))

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

    def test_headers_and_timestamps_are_kept(self):
        topic = self.create()
        producer = ck.Producer(self.config(linger_ms=50))
        headers = [("one", b"1"), ("empty", b""), ("null", None), ("one", b"\x00\xff")]
        producer.produce(topic, b"a", partition=0, headers=headers, timestamp=1700000000000)
        producer.produce(topic, b"b", partition=0, timestamp=1600000000000)
        self.assertEqual(0, producer.flush(30))
        first, second = self.consume(topic, 2)
        self.assertEqual(headers, first.headers())
        self.assertEqual((ck.TIMESTAMP_CREATE_TIME, 1700000000000), first.timestamp())
        self.assertEqual((ck.TIMESTAMP_CREATE_TIME, 1600000000000), second.timestamp())

    def test_many_partitions_at_a_time_keep_their_order(self):
        topic = self.create(12)
        producer = ck.Producer(self.config(enable_idempotence=True, linger_ms=5))
        for number in range(12000):
            producer.produce(topic, str(number), partition=number % 12)
            producer.poll(0)
        self.assertEqual(0, producer.flush(60))
        consumer = self.consumer()
        consumer.assign([ck.TopicPartition(topic, part, ck.OFFSET_BEGINNING) for part in range(12)])
        found, end = {part: [] for part in range(12)}, time.monotonic() + 30
        while sum(map(len, found.values())) < 12000 and time.monotonic() < end:
            for message in consumer.consume(1000, 0.5):
                self.assertIsNone(message.error())
                found[message.partition()].append(int(message.value()))
        self.assertEqual({part: list(range(part, 12000, 12)) for part in range(12)}, found)

    def test_a_consumer_reads_each_record_as_it_becomes_readable(self):
        """Long polls are answered as records become readable, not at their deadline."""
        topic, count = self.create(), 200
        consumer = self.consumer(fetch_wait_max_ms=10000)
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        producer = ck.Producer(self.config(enable_idempotence=True, linger_ms=0))
        began = time.monotonic()
        for number in range(count):
            producer.produce(topic, str(number), partition=0)
            producer.flush(20)
            self.assertEqual(str(number), text(consumer.poll(20).value()))
        self.assertLess(time.monotonic() - began, 30)

    def test_messages_up_to_the_limit_and_above_it(self):
        topic = self.create(max_message_bytes="300000")
        fits = "x" * (300000 - 200)  # the batch has a head too
        self.produce(topic, [("fits", fits)])
        producer, faults = ck.Producer(self.config()), []
        producer.produce(topic, "x" * 300001, partition=0,
                         on_delivery=lambda error, _: faults.append(error))
        self.assertEqual(0, producer.flush(30))
        self.assertEqual([ck.KafkaError.MSG_SIZE_TOO_LARGE], [fault.code() for fault in faults])
        self.assertEqual([("fits", fits)], self.contents(topic, 1))
        self.assertEqual([("fits", fits)], [(text(item.key()), text(item.value())) for item in
                         self.consume(topic, 1, fetch_message_max_bytes=1000)])


class PositionsTest(ClientTest):
    def setUp(self):
        super().setUp()
        self.topic = self.create()
        producer = ck.Producer(self.config())
        for number, stamp in enumerate((1700000001000, 1700000002000, 1700000003000)):
            producer.produce(self.topic, str(number), partition=0, timestamp=stamp)
            self.assertEqual(0, producer.flush(30))

    def test_watermarks_and_offsets_for_times(self):
        consumer = self.consumer()
        self.assertEqual((0, 3),
                         consumer.get_watermark_offsets(ck.TopicPartition(self.topic, 0), 20))
        for stamp, wanted in ((0, 0), (1700000001500, 1), (1700000003000, 2),
                              (1700000003001, ck.OFFSET_END)):
            asked = ck.TopicPartition(self.topic, 0, stamp)
            self.assertEqual(wanted, consumer.offsets_for_times([asked], 20)[0].offset)

    def test_reading_from_an_offset_and_from_the_end(self):
        self.assertEqual([b"2"], [item.value() for item in self.consume(self.topic, 1, 2)])
        self.assertEqual([b"1", b"2"], [item.value() for item in
                                        self.consume(self.topic, 2, TAIL - 2)])

    def test_seeking_back_and_forth(self):
        consumer = self.consumer()
        consumer.assign([ck.TopicPartition(self.topic, 0, 0)])
        self.assertEqual(b"0", consumer.poll(20).value())
        for offset in (2, 0, 1):
            consumer.seek(ck.TopicPartition(self.topic, 0, offset))
            found = consumer.poll(20)
            self.assertEqual((offset, str(offset)), (found.offset(), text(found.value())))

    def test_an_offset_out_of_range_follows_the_reset_policy(self):
        for policy, wanted in (("earliest", 0), ("error", ck.KafkaError._AUTO_OFFSET_RESET)):
            with self.subTest(policy):
                consumer = self.consumer(auto_offset_reset=policy)
                consumer.assign([ck.TopicPartition(self.topic, 0, 1000)])
                found = consumer.poll(20)
                self.assertEqual(wanted,
                                 found.error().code() if found.error() else found.offset())

    def test_an_end_of_partition_is_told_each_time_it_is_reached(self):
        consumer = self.consumer(enable_partition_eof=True)
        consumer.assign([ck.TopicPartition(self.topic, 0, 2)])
        self.assertEqual(b"2", consumer.poll(20).value())
        self.assertEqual(ck.KafkaError._PARTITION_EOF, consumer.poll(20).error().code())
        self.produce(self.topic, [(None, "more")])
        self.assertEqual(b"more", consumer.poll(20).value())
        self.assertEqual(ck.KafkaError._PARTITION_EOF, consumer.poll(20).error().code())


class AdminTest(ClientTest):
    def test_topics_are_created_grown_and_deleted(self):
        name = self.create(2)
        self.admin.create_partitions([admin.NewPartitions(name, 5)])[name].result(30)
        fixture.wait_until(
            lambda: len(self.admin.list_topics(name, 20).topics[name].partitions) == 5)
        with self.assertRaises(ck.KafkaException) as caught:
            self.admin.create_topics([admin.NewTopic(name, 1, 1)])[name].result(30)
        self.assertEqual(ck.KafkaError.TOPIC_ALREADY_EXISTS, caught.exception.args[0].code())
        with self.assertRaises(ck.KafkaException) as caught:
            self.admin.create_partitions([admin.NewPartitions(name, 4)])[name].result(30)
        self.assertEqual(ck.KafkaError.INVALID_PARTITIONS, caught.exception.args[0].code())
        self.admin.delete_topics([name])[name].result(30)
        fixture.wait_until(lambda: name not in self.admin.list_topics(timeout=20).topics)
        with self.assertRaises(ck.KafkaException) as caught:
            self.admin.delete_topics([name])[name].result(30)
        self.assertEqual(ck.KafkaError.UNKNOWN_TOPIC_OR_PART, caught.exception.args[0].code())

    def test_topics_are_described_with_their_ids(self):
        name = self.create(3)
        found = self.admin.describe_topics(ck.TopicCollection([name]))[name].result(30)
        self.assertEqual((name, [0, 1, 2]), (found.name, [part.id for part in found.partitions]))
        for part in found.partitions:
            self.assertEqual(self.broker.port, part.leader.port)
            self.assertEqual([part.leader.id], [node.id for node in part.isr])
        self.assertNotEqual((0, 0), (found.topic_id.get_most_significant_bits(),
                                     found.topic_id.get_least_significant_bits()))

    def test_the_metadata_of_twenty_topics_of_twelve_partitions(self):
        names = {fixture.unique("many") for _ in range(20)}
        made = self.admin.create_topics([admin.NewTopic(name, 12, 1) for name in names])
        for future in made.values():
            future.result(60)
        fixture.wait_until(lambda: names <= set(self.admin.list_topics(timeout=20).topics))
        found = self.admin.list_topics(timeout=20)
        for name in names:
            parts = found.topics[name].partitions
            self.assertEqual(list(range(12)), sorted(parts))
            self.assertTrue(all(part.error is None and part.leader == found.controller_id
                                for part in parts.values()))

    def test_configurations_are_described_and_changed(self):
        name = self.create(retention_ms="3600000")
        resource = admin.ConfigResource(admin.RESOURCE_TOPIC, name)

        def describe():
            return self.admin.describe_configs([resource])[resource].result(30)

        entries = describe()
        self.assertEqual("3600000", entries["retention.ms"].value)
        self.assertFalse(entries["retention.ms"].is_default)
        self.assertTrue(entries["segment.bytes"].is_default)
        change = admin.ConfigResource(admin.RESOURCE_TOPIC, name, incremental_configs=[
            admin.ConfigEntry("segment.ms", "700000",
                              incremental_operation=admin.AlterConfigOpType.SET),
            admin.ConfigEntry("cleanup.policy", "compact",
                              incremental_operation=admin.AlterConfigOpType.APPEND),
            admin.ConfigEntry("retention.ms", None,
                              incremental_operation=admin.AlterConfigOpType.DELETE)])
        self.admin.incremental_alter_configs([change])[change].result(30)
        entries = describe()
        self.assertEqual("700000", entries["segment.ms"].value)
        self.assertEqual("delete,compact", entries["cleanup.policy"].value)
        self.assertEqual("604800000", entries["retention.ms"].value)
        bad = admin.ConfigResource(admin.RESOURCE_TOPIC, name, incremental_configs=[
            admin.ConfigEntry("segment.ms", "soon",
                              incremental_operation=admin.AlterConfigOpType.SET)])
        with self.assertRaises(ck.KafkaException) as caught:
            self.admin.incremental_alter_configs([bad])[bad].result(30)
        self.assertEqual(ck.KafkaError.INVALID_CONFIG, caught.exception.args[0].code())

    def test_the_brokers_configuration_is_described(self):
        node = next(iter(self.admin.list_topics(timeout=20).brokers))
        resource = admin.ConfigResource(admin.RESOURCE_BROKER, str(node))
        entries = self.admin.describe_configs([resource])[resource].result(30)
        self.assertIn("log.dirs", entries)
        self.assertTrue(entries["log.dirs"].is_read_only)

    def test_records_are_deleted_and_offsets_listed(self):
        topic = self.create()
        producer = ck.Producer(self.config(linger_ms=50))
        for number in range(20):
            stamp = 1700000000000 + (5000 if number == 12 else number)
            producer.produce(topic, str(number), partition=0, timestamp=stamp)
        self.assertEqual(0, producer.flush(30))
        part = ck.TopicPartition(topic, 0, 7)
        self.assertEqual(7, self.admin.delete_records([part])[part].result(30).low_watermark)

        def offset(spec):
            asked = ck.TopicPartition(topic, 0)
            return self.admin.list_offsets({asked: spec})[asked].result(30).offset

        self.assertEqual(7, offset(admin.OffsetSpec.earliest()))
        self.assertEqual(20, offset(admin.OffsetSpec.latest()))
        self.assertEqual(12, offset(admin.OffsetSpec.max_timestamp()))
        self.assertEqual(9, offset(admin.OffsetSpec.for_timestamp(1700000000009)))
        self.assertEqual(12, offset(admin.OffsetSpec.for_timestamp(1700000001000)))
        self.assertEqual([str(number).encode() for number in range(7, 20)],
                         [item.value() for item in self.consume(topic, 13)])

    def test_the_cluster_is_described(self):
        found = self.admin.describe_cluster().result(30)
        self.assertEqual([self.broker.port], [node.port for node in found.nodes])
        self.assertEqual(found.nodes[0].id, found.controller.id)
        self.assertTrue(found.cluster_id)

    def make_again(self, topic):
        """Creates a topic whose name a deletion may still hold."""
        def made():
            try:
                self.admin.create_topics([admin.NewTopic(topic, 1, 1)])[topic].result(30)
            except ck.KafkaException as error:
                self.assertEqual(ck.KafkaError.TOPIC_ALREADY_EXISTS, error.args[0].code())
                return False
            return True

        fixture.wait_until(made, what="the name is free again")

    @unittest.skipIf(fixture.is_kafka(), "the client does not always see that the topic changed")
    def test_a_consumer_that_waits_in_a_deleted_topic_goes_on_in_the_next_of_its_name(self):
        """The long poll ends with the topic, not 20 s later; the client asks for its new id."""
        topic = self.create()
        self.produce(topic, [(None, "old")])
        consumer = self.consumer(fetch_wait_max_ms=20000, topic_metadata_refresh_interval_ms=200)
        consumer.assign([ck.TopicPartition(topic, 0, 0)])
        self.assertEqual(b"old", consumer.poll(20).value())
        self.assertIsNone(consumer.poll(0.5))
        self.admin.delete_topics([topic])[topic].result(30)
        began = time.monotonic()
        self.make_again(topic)
        self.produce(topic, [(None, "new"), (None, "newer")])
        found = consumer.poll(15)
        self.assertIsNotNone(found, "nothing came")
        self.assertIn(text(found.value()), ("new", "newer"))
        self.assertLess(time.monotonic() - began, 10)

    def test_a_topic_made_anew_under_its_name_starts_empty(self):
        topic = self.create()
        self.produce(topic, [(None, "old")])
        self.admin.delete_topics([topic])[topic].result(30)
        self.make_again(topic)
        self.assertEqual([0], self.produce(topic, [(None, "new")]))
        self.assertEqual([(None, "new")], self.contents(topic, 1))


if __name__ == "__main__":
    unittest.main()
