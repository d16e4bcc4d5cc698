"""What the case tests share: a broker, raw connections, and the few requests that all of them need.

Each helper uses one fixed version unless the test asks for another, and returns the part of the
answer that belongs to the one topic or partition that was asked for."""

import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "interop"))
import fixture  # noqa: E402
import raw  # noqa: E402

OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC, CORRUPT = 1, 3, 2


class CaseTest(fixture.BrokerTest):
    def connect(self, timeout_s=raw.TIMEOUT_S):
        connection = raw.Connection(self.broker.port, timeout_s)
        self.addCleanup(connection.close)
        return connection

    def setUp(self):
        super().setUp()
        self.link = self.connect()

    def reconnect(self):
        """After a restart."""
        self.link.close()
        self.link = self.connect()

    def restarts(self):
        """The ways to start again that a case's 'restarts' names; yields their names."""
        yield "no restart"
        self.broker.restart()
        self.reconnect()
        yield "restart"
        self.broker.crash()
        self.reconnect()
        yield "crash"

    # ---- topics

    def create(self, partitions=1, configs=None, name=None):
        """A new topic whose partitions all answer; returns its name."""
        name = name or fixture.unique("case")
        answer = self.create_raw([{"Name": name, "NumPartitions": partitions,
                                   "ReplicationFactor": 1,
                                   "Configs": [{"Name": key, "Value": value}
                                               for key, value in (configs or {}).items()]}])
        self.assertEqual(0, answer[0]["ErrorCode"], answer)
        self.wait_served(name, partitions)
        return name

    def create_raw(self, topics, validate_only=False, version=5, timeout_ms=20000):
        body = {"Topics": topics, "timeoutMs": timeout_ms, "validateOnly": validate_only}
        return self.link.call("CreateTopics", version, body)["Topics"]

    def wait_served(self, topic, partitions=1):
        for partition in range(partitions):
            fixture.wait_until(lambda: self.list_offset(topic, -1, partition)["ErrorCode"] == 0,
                               what=f"{topic}-{partition} is served")

    def topic_id(self, topic):
        answer = self.metadata([topic])["Topics"][0]
        self.assertEqual(0, answer["ErrorCode"])
        return answer["TopicId"]

    def metadata(self, names, version=12):
        topics = None if names is None else [{"Name": name} for name in names]
        return self.link.call("Metadata", version, {"Topics": topics,
                                                    "AllowAutoTopicCreation": False})

    def topic_names(self):
        return {topic["Name"] for topic in self.metadata(None)["Topics"]}

    def leader_epoch(self, topic, partition=0):
        for found in self.metadata([topic])["Topics"][0]["Partitions"]:
            if found["PartitionIndex"] == partition:
                return found["LeaderEpoch"]
        raise AssertionError("no such partition")

    def delete_topic(self, topic):
        answer = self.link.call("DeleteTopics", 5, {"TopicNames": [topic], "TimeoutMs": 20000})
        self.assertEqual(0, answer["Responses"][0]["ErrorCode"], answer)

    # ---- records

    @staticmethod
    def produce_body(topic, records, partition=0, acks=-1):
        return {"Acks": acks, "TimeoutMs": 30000,
                "TopicData": [{"Name": topic,
                               "PartitionData": [{"Index": partition, "Records": records}]}]}

    def produce(self, topic, records, partition=0, acks=-1, version=9, link=None):
        answer = (link or self.link).call("Produce", version,
                                          self.produce_body(topic, records, partition, acks))
        return answer["Responses"][0]["PartitionResponses"][0]

    def store(self, topic, records, **kwargs):
        """produce() that must work; returns the base offset."""
        answer = self.produce(topic, records, **kwargs)
        self.assertEqual(0, answer["ErrorCode"], answer)
        return answer["BaseOffset"]

    @staticmethod
    def fetch_body(topic, offsets, min_bytes=1, max_wait_ms=0, max_bytes=1 << 28,
                   partition_max_bytes=1 << 26, **fields):
        """offsets: {partition: offset}, in the order in which they are asked for."""
        return {"MaxWaitMs": max_wait_ms, "MinBytes": min_bytes, "MaxBytes": max_bytes,
                "Topics": [{"Topic": topic,
                            "Partitions": [{"Partition": partition, "FetchOffset": offset,
                                            "PartitionMaxBytes": partition_max_bytes}
                                           for partition, offset in offsets.items()]}],
                **fields}

    def fetch(self, topic, offset, partition=0, version=12, link=None, **kwargs):
        """Fetches one partition; returns its part of the answer, 'Records' as batches."""
        answer = (link or self.link).call("Fetch", version,
                                          self.fetch_body(topic, {partition: offset}, **kwargs))
        self.assertEqual(0, answer["ErrorCode"], answer)
        part = answer["Responses"][0]["Partitions"][0]
        self.assertIsNotNone(part["Records"], "a null record set")
        part["Records"] = raw.batches(part["Records"])
        return part

    def read_all(self, topic, partition=0, start=0):
        """Every batch from 'start' to the high watermark, sound or not."""
        out, at = [], start
        while True:
            part = self.fetch(topic, at, partition)
            self.assertEqual(0, part["ErrorCode"], part)
            if not part["Records"]:
                self.assertEqual(at, part["HighWatermark"], "an empty answer below the end")
                return out
            out.extend(part["Records"])
            at = part["Records"][-1].last_offset + 1

    def values(self, topic, partition=0):
        return [record.value for batch in self.read_all(topic, partition)
                for record in batch.records()]

    # ---- offsets

    def list_offset(self, topic, timestamp, partition=0, version=7, **fields):
        """The answer to one ListOffsets: -1 the end, -2 the start, -3 the highest time."""
        body = {"ReplicaId": -1,
                "Topics": [{"Name": topic,
                            "Partitions": [{"PartitionIndex": partition, "Timestamp": timestamp,
                                            **fields}]}]}
        return self.link.call("ListOffsets", version, body)["Topics"][0]["Partitions"][0]

    def offset_of(self, topic, timestamp, partition=0, version=7):
        answer = self.list_offset(topic, timestamp, partition, version)
        self.assertEqual(0, answer["ErrorCode"], answer)
        return answer["Offset"]

    def offset_and_time(self, topic, timestamp, partition=0, version=7):
        answer = self.list_offset(topic, timestamp, partition, version)
        self.assertEqual(0, answer["ErrorCode"], answer)
        return answer["Offset"], answer["Timestamp"]

    def delete_records(self, topic, offset, partition=0):
        """(error, low watermark)"""
        body = {"Topics": [{"Name": topic, "Partitions": [{"PartitionIndex": partition,
                                                          "Offset": offset}]}],
                "TimeoutMs": 20000}
        part = self.link.call("DeleteRecords", 2, body)["Topics"][0]["Partitions"][0]
        return part["ErrorCode"], part["LowWatermark"]

    def end_of_epoch(self, topic, epoch, current=-1, partition=0):
        """(error, epoch, end offset)"""
        body = {"ReplicaId": -1,
                "Topics": [{"Topic": topic,
                            "Partitions": [{"Partition": partition, "CurrentLeaderEpoch": current,
                                            "LeaderEpoch": epoch}]}]}
        part = self.link.call("OffsetForLeaderEpoch", 4, body)["Topics"][0]["Partitions"][0]
        return part["ErrorCode"], part["LeaderEpoch"], part["EndOffset"]

    def producer_id(self):
        """A new idempotent producer: (id, epoch)."""
        answer = fixture.wait_until(self._try_producer_id, what="a producer id")
        return answer["ProducerId"], answer["ProducerEpoch"]

    def _try_producer_id(self):
        answer = self.link.call("InitProducerId", 4, {"TransactionalId": None,
                                                      "TransactionTimeoutMs": 60000})
        return answer if answer["ErrorCode"] == 0 else None

    # ---- limits

    def assert_at_once(self, began, limit_s=0.5):
        """'At once' on a machine that may be busy."""
        took = time.monotonic() - began
        self.assertLess(took, limit_s, "took too long")

    def assert_closed_or_answered(self, link):
        """The peer closes, or sends a whole frame: what it must not do is hang."""
        try:
            link.read_frame()
        except raw.Closed:
            return "closed"
        return "answered"

    def is_barnabas(self):
        return not fixture.is_kafka()


class OwnBrokerTest(CaseTest):
    """A broker for each test, which hands it to own(). Its files stay when the test fails."""

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        pass

    def own(self, broker):
        self.broker = broker
        self.faults_before = fixture.result_faults(self._outcome.result)
        self.addCleanup(self.end_broker)
        broker.start()
        super().setUp()

    def end_broker(self):
        if self.broker.is_alive():
            self.broker.kill9()
        if fixture.result_faults(self._outcome.result) == self.faults_before:
            self.broker.remove()

    def tearDown(self):
        if self.broker is not None:
            super().tearDown()
