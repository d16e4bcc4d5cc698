"""Area A: versions, malformed requests, null lists, acks=0, bad partitions."""

import os
import struct
import time
import unittest

import case
import fixture
import raw

UNSUPPORTED_VERSION = 35
INT32_MAX, INT32_MIN = 0x7FFFFFFF, -0x80000000


class ProtocolCases(case.CaseTest):
    def ranges(self):
        answer = self.link.call("ApiVersions", 3, {"ClientSoftwareName": "raw",
                                                   "ClientSoftwareVersion": "1"})
        self.assertEqual(0, answer["ErrorCode"])
        return {item["ApiKey"]: (item["MinVersion"], item["MaxVersion"])
                for item in answer["ApiKeys"]}

    def test_c01_api_versions_of_an_unknown_version_is_answered_in_v0(self):
        ours = self.ranges()[18]
        link = self.connect()
        link.correlation_id = 77
        link.send_bytes(raw.frame(raw.header(18, 99, 77, flexible=True) + os.urandom(40)))
        data = link.read_frame()
        self.assertEqual(77, struct.unpack(">i", data[:4])[0])
        answer = raw.decode("ApiVersions", "response", 0, data[4:])
        self.assertEqual(UNSUPPORTED_VERSION, answer["ErrorCode"])
        found = {item["ApiKey"]: (item["MinVersion"], item["MaxVersion"])
                 for item in answer["ApiKeys"]}
        self.assertEqual(ours, found[18])
        self.assertEqual(0, link.call("ApiVersions", 0)["ErrorCode"])
        self.assertEqual(0, link.call("ApiVersions", 3, {"ClientSoftwareName": "raw",
                                                         "ClientSoftwareVersion": "1"})["ErrorCode"])

    def test_c02_api_versions_answers_have_no_flexible_header(self):
        for version in (3, 4):
            link = self.connect()
            link.send("ApiVersions", version, {"ClientSoftwareName": "raw",
                                               "ClientSoftwareVersion": "1"})
            data = link.read_frame()
            self.assertEqual(1, struct.unpack(">i", data[:4])[0])
            self.assertEqual(0, struct.unpack(">h", data[4:6])[0], "a tag byte before the error")
            answer = raw.decode("ApiVersions", "response", version, data[4:])
            self.assertIn(18, [item["ApiKey"] for item in answer["ApiKeys"]])

    def test_c05_versions_outside_the_advertised_range_close_the_connection(self):
        topic = self.create()
        cases = []
        for key, (low, high) in self.ranges().items():
            if key != 18:
                cases += [(key, high + 1), (key, low - 1)]
        cases += [(32000, 0), (-5, 0)]
        for key, version in cases:
            body = b""
            if key == 0:
                body = raw.encode("Produce", "request", min(max(version, 3), 12),
                                  self.produce_body(topic, raw.batch([b"x"])))
            with self.subTest(key=key, version=version), raw.Connection(self.broker.port) as link:
                link.send_bytes(raw.frame(raw.header(key, version, 1) + body + bytes(64)))
                self.assertTrue(link.is_closed(), "not closed")
        self.assertEqual(0, self.offset_of(topic, -1))

    def malformed(self):
        """Frames whose counts and lengths promise more than they hold."""
        metadata_v1 = raw.header(3, 1, 1)
        fetch_v12 = raw.header(1, 12, 1, flexible=True)
        fetch_head = struct.pack(">iiiibii", -1, 0, 0, 1000, 0, 0, -1)
        list_v1 = raw.encode("ListOffsets", "request", 1, {
            "ReplicaId": -1, "Topics": [{"Name": "t", "Partitions": [{"PartitionIndex": 0,
                                                                      "Timestamp": -1}]}]})
        full = raw.encode("Metadata", "request", 1, {"Topics": []})
        return {
            "array count": metadata_v1 + struct.pack(">i", INT32_MAX) + bytes(40),
            "compact count": fetch_v12 + fetch_head + raw.uvarint(0xFFFFFFFE) + bytes(20),
            "string length": metadata_v1 + struct.pack(">ih", 1, 30000) + b"x" * 30,
            "cut in an int64": raw.header(2, 1, 1) + list_v1[:-4],
            "bytes after the body": metadata_v1 + full + bytes(10),
            "six continuation bytes": fetch_v12 + fetch_head + b"\xff" * 6 + bytes(20),
        }

    def test_c07_counts_larger_than_the_frame_cost_no_memory(self):
        rounds = 20 if fixture.is_kafka() else 200
        frames = self.malformed()
        for _ in range(3):  # pools and caches fill first
            self.send_each(frames)
        before = self.broker.rss_kib()
        for _ in range(rounds):
            self.send_each(frames)
        if self.is_barnabas():
            self.assertLess(self.broker.rss_kib() - before, 4096, "KiB more than before")

    def send_each(self, frames):
        for name, data in frames.items():
            with self.subTest(name), raw.Connection(self.broker.port) as link:
                link.send_bytes(raw.frame(data))
                what = self.assert_closed_or_answered(link)
                if name != "bytes after the body":
                    self.assertEqual("closed", what)

    def test_c08_what_is_not_kafka_is_closed_at_once(self):
        hello = bytes.fromhex("16030100c8010000c403035d") + os.urandom(180)
        cases = {"HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "TLS": hello,
                 "size -1": struct.pack(">i", -1), "size 0": struct.pack(">i", 0),
                 "too large": struct.pack(">i", 104857601)}
        before = self.broker.rss_kib()
        for name, data in cases.items():
            with self.subTest(name), raw.Connection(self.broker.port) as link:
                began = time.monotonic()
                link.send_bytes(data)
                self.assertTrue(link.is_closed())
                self.assert_at_once(began, 5 if fixture.is_kafka() else 1)
        for _ in range(300):
            raw.Connection(self.broker.port).close()
        if self.is_barnabas():
            self.assertLess(self.broker.rss_kib() - before, 4096, "KiB more than before")
            for _ in range(100):
                with raw.Connection(self.broker.port) as link:
                    link.send_bytes(cases["HTTP"])
                    self.assertTrue(link.is_closed())
            lines = fixture.log_lines(self.broker, "HTTP")
            self.assertTrue(lines, "nothing says that HTTP was spoken")
            self.assertLess(len(lines), 20, "the log line is not rate limited")
            self.assertIn("127.0.0.1", lines[0])

    def test_c08_a_slow_sender_is_served_in_the_end(self):
        link = self.connect()
        for byte in link.request_bytes("Metadata", 1, {"Topics": []}):
            link.send_bytes(bytes([byte]))
            time.sleep(0.01)
        link.sent.append(("Metadata", 1, link.correlation_id))
        self.assertEqual(1, len(link.receive()["Brokers"]))

    def test_c10_acks_0_has_no_answer(self):
        topic = self.create()
        link = self.connect()
        for value in (b"a", b"b", b"c"):
            link.send_bytes(link.request_bytes("Produce", 9, self.produce_body(
                topic, raw.batch([value]), acks=0)))
        self.assertEqual(1, len(link.call("Metadata", 9, {"Topics": []})["Brokers"]))
        # No answer says when they are readable: a broker that syncs first is a moment later.
        fixture.wait_until(lambda: self.values(topic) == [b"a", b"b", b"c"], 5,
                           what="the records")

    def test_c10_a_failed_acks_0_closes_the_connection(self):
        link = self.connect()
        link.send_bytes(link.request_bytes("Produce", 9, self.produce_body(
            fixture.unique("absent"), raw.batch([b"x"]), acks=0)))
        self.assertTrue(link.is_closed())

    def test_c10_acks_2_is_refused(self):
        topic = self.create()
        self.assertEqual(21, self.produce(topic, raw.batch([b"x"]), acks=2)["ErrorCode"])
        self.assertEqual(0, self.offset_of(topic, -1))

    def test_c11_null_means_all_topics_and_empty_means_none(self):
        both = {self.create(), self.create()}
        cases = [(0, [], True), (1, None, True), (1, [], False), (4, None, True), (4, [], False),
                 (9, None, True), (9, [], False), (12, None, True), (12, [], False)]
        for version, names, wants_all in cases:
            with self.subTest(version=version, names=names):
                answer = self.metadata(names, version)
                found = {topic["Name"] for topic in answer["Topics"]}
                self.assertEqual(both if wants_all else set(), found & both)
                self.assertTrue(wants_all or not found)
                self.assertEqual(1, len(answer["Brokers"]))
                if version >= 1:
                    self.assertGreaterEqual(answer["ControllerId"], 0)
                if version >= 2:
                    self.assertTrue(answer["ClusterId"])

    def partitions_answer(self, api, version, body, codes="ErrorCode"):
        answer = self.link.call(api, version, body)
        topic = (answer.get("Responses") or answer.get("Topics"))[0]
        parts = topic.get("Partitions") or topic.get("PartitionResponses")
        return {next(part[name] for name in ("PartitionIndex", "Index", "Partition")
                     if name in part): part[codes] for part in parts}

    def test_c13_absurd_partition_numbers_get_their_own_error(self):
        topic = self.create()
        self.store(topic, raw.batch([b"x"]))
        bad = [-1, INT32_MIN, INT32_MAX]
        order = [bad[0], 0, bad[1], bad[2]]
        wanted = {-1: 3, 0: 0, INT32_MIN: 3, INT32_MAX: 3}
        self.assertEqual(wanted, self.partitions_answer("Fetch", 12, self.fetch_body(
            topic, dict.fromkeys(order, 0))))
        self.assertEqual(wanted, self.partitions_answer("Produce", 9, {
            "Acks": -1, "TimeoutMs": 5000,
            "TopicData": [{"Name": topic, "PartitionData": [
                {"Index": index, "Records": raw.batch([b"y"])} for index in order]}]}))
        self.assertEqual(wanted, self.partitions_answer("ListOffsets", 7, {
            "ReplicaId": -1, "Topics": [{"Name": topic, "Partitions": [
                {"PartitionIndex": index, "Timestamp": -1} for index in order]}]}))
        self.assertEqual(wanted, self.partitions_answer("OffsetForLeaderEpoch", 4, {
            "ReplicaId": -1, "Topics": [{"Topic": topic, "Partitions": [
                {"Partition": index, "LeaderEpoch": 0} for index in order]}]}))
        self.assertEqual(wanted, self.partitions_answer("DeleteRecords", 2, {
            "TimeoutMs": 5000, "Topics": [{"Name": topic, "Partitions": [
                {"PartitionIndex": index, "Offset": 0} for index in order]}]}))

    def test_c14_partitions_in_error_carry_empty_records_never_null(self):
        topic = self.create(2)
        self.store(topic, raw.batch([b"good"]))
        good = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000}
        beyond = {"Partition": 1, "FetchOffset": 99, "PartitionMaxBytes": 1000}
        ours, absent = self.topic_id(topic), raw.uuid.uuid4()
        for version in (4, 11, 12, 13):
            with self.subTest(version=version):
                names = ([{"TopicId": absent, "Partitions": [good]},
                          {"TopicId": ours, "Partitions": [beyond, good]}] if version >= 13 else
                         [{"Topic": "absent", "Partitions": [good]},
                          {"Topic": topic, "Partitions": [beyond, good]}])
                answer = self.link.call("Fetch", version, {
                    "MaxWaitMs": 0, "MinBytes": 1, "MaxBytes": 10000, "Topics": names})
                parts = {(item.get("Topic") or item.get("TopicId"), part["PartitionIndex"]): part
                         for item in answer["Responses"] for part in item["Partitions"]}
                ours_now = ours if version >= 13 else topic
                unknown = parts[absent if version >= 13 else "absent", 0]
                self.assertEqual(100 if version >= 13 else 3, unknown["ErrorCode"])
                self.assertEqual((b"", -1), (unknown["Records"], unknown["HighWatermark"]))
                ranged = parts[ours_now, 1]
                self.assertEqual((1, b"", -1), (ranged["ErrorCode"], ranged["Records"],
                                                ranged["HighWatermark"]))
                found = parts[ours_now, 0]
                self.assertEqual((0, 1), (found["ErrorCode"], found["HighWatermark"]))
                self.assertEqual(b"good", raw.batches(found["Records"])[0].records()[0].value)


if __name__ == "__main__":
    unittest.main()
