"""Apache Kafka's Java clients 4.4 against the broker: producer, consumer in assign mode, Admin.

One JVM serves all tests (fixture.Java): a command a line, an answer a line."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixture  # noqa: E402

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class JavaClient(fixture.BrokerTest):
    OVERRIDES = {"log.segment.bytes": "1048576"}

    def call(self, cmd, **fields):
        return fixture.Java.get().call(cmd, bootstrap=self.broker.bootstrap, **fields)

    def create(self, partitions=1, **fields):
        name = fixture.unique()
        self.call("create_topic", topic=name, partitions=partitions, **fields)
        return name

    def consume(self, topic, count, start="beginning", partitions=(0,), **props):
        return self.call("consume", topic=topic, partitions=list(partitions), count=count,
                         **{"from": start}, props=props)["records"]

    # ---- producer and consumer

    def test_idempotent_producer_every_codec_exact_contents(self):
        for codec in CODECS:
            with self.subTest(codec=codec):
                topic = self.create()
                records = [{"key": f"k{i}", "value": f"{codec} {i} " + "x" * (i % 50),
                            "timestamp": 1700000000000 + i,
                            "headers": [["h", str(i)], ["empty", None]]} for i in range(200)]
                records.append({"key": "gone", "value": None, "timestamp": 1700000000999})
                sent = self.call("produce", topic=topic, records=records,
                                 props={"compression.type": codec, "acks": "all",
                                        "enable.idempotence": "true"})["offsets"]
                self.assertEqual([[0, i] for i in range(201)], sent)
                got = self.consume(topic, 201)
                self.assertEqual([r["value"] for r in records], [r["value"] for r in got])
                self.assertEqual([r["key"] for r in records], [r["key"] for r in got])
                self.assertEqual([r["timestamp"] for r in records],
                                 [r["timestamp"] for r in got])
                self.assertEqual([["h", "7"], ["empty", None]], got[7]["headers"])

    def test_many_partitions_keep_their_order(self):
        topic = self.create(partitions=6)
        self.call("produce", topic=topic, props={"linger.ms": "5"},
                  records=[{"value": str(i), "partition": i % 6} for i in range(3000)])
        got = self.consume(topic, 3000, partitions=range(6))
        for p in range(6):
            self.assertEqual([str(i) for i in range(p, 3000, 6)],
                             [r["value"] for r in got if r["partition"] == p])

    def test_seek_and_times(self):
        topic = self.create()
        self.call("produce", topic=topic, props={"batch.size": "1"},
                  records=[{"value": str(i), "timestamp": 1000 + 10 * i} for i in range(20)])
        self.assertEqual(["12", "13"], [r["value"] for r in self.consume(topic, 2, "12")][:2])
        found = self.call("offsets", topic=topic, partitions=[0], times=[1000, 1055, 1191])
        self.assertEqual({"0": 0}, found["beginning"])
        self.assertEqual({"0": 20}, found["end"])
        self.assertEqual([{"0": [0, 1000]}, {"0": [6, 1060]}, {"0": None}], found["times"])

    def test_acks_one_and_zero(self):
        topic = self.create()
        for acks in ("1", "0"):
            self.call("produce", topic=topic, records=[{"value": "a" + acks}],
                      props={"acks": acks, "enable.idempotence": "false"})
        self.assertEqual(["a1", "a0"], [r["value"] for r in self.consume(topic, 2)])

    def test_a_record_above_the_limit_is_refused_and_others_go_on(self):
        topic = self.create(configs={"max.message.bytes": "2000"})
        with self.assertRaises(fixture.JavaError) as caught:
            self.call("produce", topic=topic, records=[{"value": "y" * 5000}])
        self.assertEqual("RecordTooLargeException", caught.exception.kind)
        self.call("produce", topic=topic, records=[{"value": "small"}])
        self.assertEqual(["small"], [r["value"] for r in self.consume(topic, 1)])

    # ---- Admin

    def test_topics(self):
        made = self.call("create_topic", topic="made", partitions=3,
                         configs={"retention.ms": "12345", "cleanup.policy": "compact, delete"})
        self.assertEqual((3, 1), (made["partitions"], made["replication"]))
        self.assertEqual("12345", made["configs"]["retention.ms"])
        self.assertEqual("compact,delete", made["configs"]["cleanup.policy"])
        described = self.call("describe_topic", topic="made")
        self.assertEqual(3, len(described["partitions"]))
        self.assertTrue(all(p["port"] == self.broker.port and p["leader"] == p["isr"][0]
                            for p in described["partitions"]))
        self.assertEqual(described["id"], self.call("list_topics")["topics"]["made"])
        with self.assertRaises(fixture.JavaError) as caught:
            self.call("create_topic", topic="made")
        self.assertEqual("TopicExistsException", caught.exception.kind)
        self.call("create_topic", topic="dry", validate_only=True)
        self.assertNotIn("dry", self.call("list_topics")["topics"])
        self.call("create_partitions", topic="made", count=5)
        self.assertEqual(5, len(self.call("describe_topic", topic="made")["partitions"]))
        self.call("delete_topics", topics=["made"])
        self.assertNotIn("made", self.call("list_topics")["topics"])

    def test_configs_of_topics(self):
        topic = self.create(configs={"segment.ms": "900000"})
        every = self.call("describe_configs", topic=topic)["configs"]
        self.assertEqual("DYNAMIC_TOPIC_CONFIG", every["segment.ms"]["source"])
        self.assertEqual("DEFAULT_CONFIG", every["max.message.bytes"]["source"])
        self.assertEqual("STATIC_BROKER_CONFIG", every["segment.bytes"]["source"])
        self.assertEqual("LIST", every["cleanup.policy"]["type"])
        self.call("alter_configs", topic=topic, ops=[["retention.ms", "777", "SET"],
                                                     ["cleanup.policy", "compact", "APPEND"],
                                                     ["segment.ms", None, "DELETE"]])
        every = self.call("describe_configs", topic=topic)["configs"]
        self.assertEqual("777", every["retention.ms"]["value"])
        self.assertEqual("delete,compact", every["cleanup.policy"]["value"])
        self.assertEqual("DEFAULT_CONFIG", every["segment.ms"]["source"])
        for bad in (["retention.ms", "x", "SET"], ["no.such.key", "1", "SET"]):
            with self.assertRaises(fixture.JavaError) as caught:
                self.call("alter_configs", topic=topic, ops=[bad])
            self.assertEqual("InvalidConfigurationException", caught.exception.kind)

    def test_configs_of_the_broker_change_while_it_runs(self):
        node = str(self.call("describe_cluster")["nodes"][0][0])
        self.call("alter_configs", broker="", ops=[["log.retention.ms", "5555", "SET"]])
        topic = self.create()
        self.assertEqual("5555", self.call("describe_configs",
                                           topic=topic)["configs"]["retention.ms"]["value"])
        self.call("alter_configs", broker="", ops=[["log.retention.ms", None, "DELETE"]])
        with self.assertRaises(fixture.JavaError):
            self.call("alter_configs", broker=node, ops=[["node.id", "7", "SET"]])

    def test_delete_records_and_offsets(self):
        topic = self.create()
        self.call("produce", topic=topic, props={"batch.size": "1"},
                  records=[{"value": str(i), "timestamp": 5000 - i} for i in range(10)])
        self.assertEqual({"earliest": [0, -1], "latest": [10, -1], "max_timestamp": [0, 5000],
                          "4997": [0, 5000]},
                         self.call("list_offsets", topic=topic,
                                   specs=["earliest", "latest", "max_timestamp",
                                          "4997"])["offsets"])
        self.assertEqual(4, self.call("delete_records", topic=topic, before=4)["low_watermark"])
        self.assertEqual([4, -1], self.call("list_offsets", topic=topic,
                                            specs=["earliest"])["offsets"]["earliest"])
        self.assertEqual(["4", "5"], [r["value"] for r in self.consume(topic, 6)][:2])

    def test_cluster(self):
        cluster = self.call("describe_cluster")
        self.assertEqual(22, len(cluster["cluster"]))
        self.assertEqual([[cluster["controller"], "127.0.0.1", self.broker.port]],
                         cluster["nodes"])

    def test_everything_is_there_after_restart_and_crash(self):
        topic = self.create(partitions=2, configs={"retention.ms": "-1"})
        self.call("produce", topic=topic, records=[{"value": str(i), "partition": i % 2}
                                                   for i in range(100)])
        for again in (self.broker.restart, self.broker.crash):
            again()
            self.assertEqual(100, len(self.consume(topic, 100, partitions=(0, 1))))
            self.assertEqual("-1", self.call("describe_configs", topic=topic)
                             ["configs"]["retention.ms"]["value"])


if __name__ == "__main__":
    unittest.main()
