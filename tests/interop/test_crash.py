"""kill -9 under load: every acknowledged record is there once and in order after the restart.

The producers are librdkafka's, idempotent, acks=all; they go on over the crash and retry by
themselves. What they may leave behind is exactly what they sent."""

import random
import threading
import time
import unittest
import zlib

import fixture
from load import run_load

fixture.need_packages()
import confluent_kafka as ck  # noqa: E402
from confluent_kafka import admin  # noqa: E402

PARTITIONS = 6
RECORDS = 60000
KILLS = 3
NO_LEADER = (ck.KafkaError.NOT_LEADER_FOR_PARTITION, ck.KafkaError.LEADER_NOT_AVAILABLE)


def value_of(partition, sequence):
    """Its own place, a filling of a size that varies, and a checksum of both."""
    head = f"{partition}:{sequence}:" + "abcdefghij" * (sequence * 7919 % 23)
    return f"{head}:{zlib.crc32(head.encode())}".encode()


class Load:
    """One producer, round robin; offsets[partition] has the acknowledged ones, by sequence."""

    def __init__(self, bootstrap, topic, **config):
        self.topic = topic
        self.sent = [0] * PARTITIONS
        self.offsets = [{} for _ in range(PARTITIONS)]
        self.acked, self.faults = 0, []
        self.producer = ck.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True,
                                     "acks": "all", "linger.ms": 2, "log_level": 2,
                                     "batch.num.messages": 200, "reconnect.backoff.max.ms": 200,
                                     "retry.backoff.ms": 20, "retry.backoff.max.ms": 200,
                                     "queue.buffering.max.messages": 5000,
                                     "message.timeout.ms": 120000, **config})

    def on_delivery(self, error, message):
        if error:
            self.faults.append(str(error))
        else:
            self.acked += 1
            self.offsets[message.partition()][int(message.key())] = message.offset()

    def send_until(self, acked, total, limit_s):
        """Keeps the queue full until so many are acknowledged."""
        end = time.monotonic() + limit_s
        while self.acked < acked and not self.faults:
            if time.monotonic() > end:
                raise AssertionError(f"{self.acked} of {acked} acknowledged in {limit_s} s")
            at = sum(self.sent)
            if at >= total or len(self.producer) >= 4000:
                self.producer.poll(0.05)
                continue
            self.send(at)
            self.producer.poll(0)

    def send(self, at):
        partition = at % PARTITIONS
        sequence = self.sent[partition]
        self.producer.produce(self.topic, value_of(partition, sequence), str(sequence),
                              partition=partition, on_delivery=self.on_delivery)
        self.sent[partition] += 1

    def send_into(self, kill):
        """Goes on sending while kill() happens, so that it meets records under way."""
        killer = threading.Thread(target=kill)
        killer.start()
        end = time.monotonic() + 30
        while killer.is_alive() and time.monotonic() < end:
            if len(self.producer) < 4000:
                self.send(sum(self.sent))
            self.producer.poll(0)
        killer.join()

    def open_count(self):
        """Records not yet answered, once every report that has come is heard."""
        while self.producer.poll(0):
            pass
        return len(self.producer)


class CrashTest(fixture.BrokerTest):
    def create(self):
        topic = fixture.unique("crash")
        client = admin.AdminClient({"bootstrap.servers": self.broker.bootstrap})
        client.create_topics([admin.NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        return topic

    def kill_soon(self):
        time.sleep(random.random() / 20)
        self.broker.kill9()

    @staticmethod
    def end_of(consumer, part):
        """The end of a partition, once it has a leader again."""
        try:
            return consumer.get_watermark_offsets(part, 20)[1]
        except ck.KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() not in NO_LEADER:
                raise
            return None

    def read(self, topic):
        """[partition] -> every value to its end; their offsets are dense."""
        consumer = ck.Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "unused",
                                "enable.auto.commit": False, "check.crcs": True, "log_level": 2})
        try:
            ends = []
            for partition in range(PARTITIONS):
                part = ck.TopicPartition(topic, partition)
                ends.append(fixture.wait_until(lambda: self.end_of(consumer, part)))
            consumer.assign([ck.TopicPartition(topic, partition, 0)
                             for partition in range(PARTITIONS)])
            found, limit = [[] for _ in range(PARTITIONS)], time.monotonic() + 60
            while sum(map(len, found)) < sum(ends):
                self.assertLess(time.monotonic(), limit, "not read to the end")
                for message in consumer.consume(5000, 0.5):
                    self.assertIsNone(message.error())
                    self.assertEqual(len(found[message.partition()]), message.offset())
                    found[message.partition()].append(message.value())
            return found
        finally:
            consumer.close()

    def check(self, load):
        """What is there is a prefix of what was sent, and reaches over all that is acknowledged."""
        for partition, values in enumerate(self.read(load.topic)):
            offsets = load.offsets[partition]
            self.assertEqual({at: at for at in range(len(offsets))}, offsets)
            self.assertLessEqual(len(offsets), len(values), "acknowledged, and lost")
            wanted = [value_of(partition, at) for at in range(len(values))]
            if wanted != values:  # a whole list would drown the reader
                at = next(at for at, pair in enumerate(zip(wanted, values)) if pair[0] != pair[1])
                self.fail(f"partition {partition} differs at {at}: {values[at:at + 2]}")

    def kill_under_load(self, **config):
        load = Load(self.broker.bootstrap, self.create(), **config)
        cut_off = 0
        for kill in range(1, KILLS + 1):
            load.send_until(RECORDS * kill // (KILLS + 2), RECORDS, 60)
            load.send_into(self.kill_soon)
            cut_off += load.open_count() > 0
            self.broker.start()
        self.assertGreater(cut_off, 0, "nothing was under way at any of the kills")
        load.send_until(RECORDS, RECORDS, 90)
        self.assertEqual(0, load.producer.flush(30))
        self.assertEqual([], load.faults)
        self.assertEqual(sum(load.sent), load.acked)
        self.assertEqual(load.sent, [len(offsets) for offsets in load.offsets])
        self.check(load)
        self.assertEqual(load.sent, [len(values) for values in self.read(load.topic)])
        return load


class GroupFlushTest(CrashTest):
    OVERRIDES = {"log.segment.bytes": "1048576"}  # several rolls between two kills

    def test_acknowledged_records_are_there_once_and_in_order(self):
        load = self.kill_under_load(**{"compression.type": "lz4"})
        self.broker.restart()
        self.check(load)

    def test_what_was_acknowledged_before_a_kill_is_there_without_its_producer(self):
        """No retry fills a gap: the log itself holds it."""
        for codec in ("none", "zstd"):
            load = Load(self.broker.bootstrap, self.create(), **{"compression.type": codec})
            load.send_until(RECORDS // 4, RECORDS, 60)
            load.send_into(self.kill_soon)
            load.open_count()
            load.producer.purge()
            load.producer.flush(10)
            del load.producer
            self.broker.start()
            self.check(load)

    def test_a_real_load_reads_back_what_was_acknowledged(self):
        """bench_load: an idempotent producer for each codec, three topics of twelve partitions."""
        found = run_load(200000, 240)
        self.assertEqual((200000, 200000, True), (found["acked"], found["found"], found["good"]))


class OsFlushTest(CrashTest):
    """What the process wrote outlives the process, if not the machine: the rest must fit too."""

    OVERRIDES = {"log.flush.policy": "os"}

    def test_acknowledged_records_are_there_once_and_in_order(self):
        self.kill_under_load()


if __name__ == "__main__":
    unittest.main()
