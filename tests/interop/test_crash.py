"""kill -9 under load: every acknowledged record is there once and in order after the restart.

The producers are librdkafka's, idempotent, acks=all; they go on over the crash and retry by
themselves. What they may leave behind is exactly what they sent."""

import random
import threading
import time
import unittest

import fixture

fixture.need_packages("confluent-kafka==2.16.1")
import confluent_kafka as ck  # noqa: E402
from confluent_kafka import admin  # noqa: E402

PARTITIONS, RECORDS, KILLS = 4, 40000, 3


class CrashTest(fixture.BrokerTest):
    def config(self, **more):
        # librdkafka logs each refused connection while the broker is down.
        return {"bootstrap.servers": self.broker.bootstrap, "log_level": 0, **more}

    def load(self, topic, codec, acknowledged, faults):
        """Sends 0..RECORDS-1 round robin; notes what is acknowledged, by partition."""
        producer = ck.Producer(self.config(**{
            "enable.idempotence": True, "compression.type": codec, "linger.ms": 2,
            "batch.num.messages": 200, "reconnect.backoff.max.ms": 200,
            "message.timeout.ms": 120000}))

        def report(error, message):
            if error:
                faults.append(str(error))
            else:
                acknowledged[message.partition()].append((message.offset(), int(message.key())))

        for number in range(RECORDS):
            while True:
                try:
                    producer.produce(topic, f"value {number}", str(number),
                                     partition=number % PARTITIONS, on_delivery=report)
                    break
                except BufferError:
                    producer.poll(0.05)
            producer.poll(0)
            if number % 400 == 0:
                time.sleep(0.02)  # the load must still run when the kills come
        if producer.flush(150):
            faults.append("not delivered in time")

    def read(self, topic):
        consumer = ck.Consumer(self.config(**{"group.id": "unused", "enable.auto.commit": False,
                                              "check.crcs": True, "enable.partition.eof": True}))
        try:
            consumer.assign([ck.TopicPartition(topic, part, 0) for part in range(PARTITIONS)])
            found, open_parts = {part: [] for part in range(PARTITIONS)}, set(range(PARTITIONS))
            end = time.monotonic() + 60
            while open_parts and time.monotonic() < end:
                for message in consumer.consume(2000, 0.5):
                    if message.error():
                        self.assertEqual(ck.KafkaError._PARTITION_EOF, message.error().code())
                        open_parts.discard(message.partition())
                    else:
                        found[message.partition()].append((message.offset(), int(message.key())))
            self.assertEqual(set(), open_parts, "not read to the end")
            return found
        finally:
            consumer.close()

    def test_nothing_acknowledged_is_lost_or_doubled(self):
        topics = {fixture.unique(codec): codec for codec in ("none", "lz4")}
        client = admin.AdminClient(self.config())
        for future in client.create_topics(
                [admin.NewTopic(name, PARTITIONS, 1) for name in topics]).values():
            future.result(30)
        acknowledged = {name: [[] for _ in range(PARTITIONS)] for name in topics}
        faults, threads = [], []
        for name, codec in topics.items():
            threads.append(threading.Thread(target=self.load,
                                            args=(name, codec, acknowledged[name], faults)))
            threads[-1].start()

        def count():
            return sum(len(part) for parts in acknowledged.values() for part in parts)

        total = RECORDS * len(topics)
        for kill in range(1, KILLS + 1):
            goal = total * kill // (KILLS + 2)
            fixture.wait_until(lambda: count() >= goal or faults, 90, what=f"{goal} acknowledged")
            time.sleep(random.random() / 20)
            self.assertLess(count(), total, "the load was over before the kill")
            self.broker.crash()
        for thread in threads:
            thread.join(200)
        self.assertEqual([], faults)
        for name in topics:
            found = self.read(name)
            for part in range(PARTITIONS):
                wanted = [(at, number) for at, number in
                          enumerate(range(part, RECORDS, PARTITIONS))]
                self.assertEqual(wanted, found[part], f"{name}-{part}")
                self.assertEqual(wanted, sorted(acknowledged[name][part]))

    def test_what_was_acknowledged_before_the_kill_is_there_after_it(self):
        """Without a producer that goes on: the log itself holds it."""
        topic = fixture.unique()
        client = admin.AdminClient(self.config())
        client.create_topics([admin.NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        seen = [[] for _ in range(PARTITIONS)]
        producer = ck.Producer(self.config(**{"enable.idempotence": True, "linger.ms": 1}))

        def report(error, message):
            if not error:
                seen[message.partition()].append((message.offset(), int(message.key())))

        end = time.monotonic() + 1.5
        number = 0
        while time.monotonic() < end:
            producer.produce(topic, "v", str(number), partition=number % PARTITIONS,
                             on_delivery=report)
            number += 1
            producer.poll(0.0002)
        self.broker.kill9()
        producer.poll(0)
        producer.purge()
        producer.flush(10)
        self.broker.start()
        found = self.read(topic)
        for part in range(PARTITIONS):
            self.assertTrue(seen[part])
            self.assertEqual(seen[part], found[part][:len(seen[part])])
            self.assertEqual(list(range(part, part + PARTITIONS * len(found[part]), PARTITIONS)),
                             [key for _, key in found[part]], "a gap or a double")


if __name__ == "__main__":
    unittest.main()
