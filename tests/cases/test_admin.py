"""Area I, what a broker alone shows: topic names, dry runs, configurations, every version."""

import os
import unittest

import case
import fixture
import raw

INVALID_TOPIC, EXISTS, INVALID_PARTITIONS, INVALID_CONFIG, INVALID_REQUEST = 17, 36, 37, 40, 42
INVALID_REPLICATION, TIMED_OUT = 38, 7
TOPIC, BROKER = 2, 4
DYNAMIC_TOPIC, DYNAMIC_BROKER, STATIC, DEFAULT = 1, 2, 4, 5
SET, DELETE, APPEND, SUBTRACT = range(4)
TOPIC_KEYS = """cleanup.policy compression.gzip.level compression.lz4.level compression.type
compression.zstd.level delete.retention.ms file.delete.delay.ms flush.messages flush.ms
index.interval.bytes max.compaction.lag.ms max.message.bytes message.timestamp.after.max.ms
message.timestamp.before.max.ms message.timestamp.type min.cleanable.dirty.ratio
min.compaction.lag.ms min.insync.replicas preallocate retention.bytes retention.ms segment.bytes
segment.index.bytes segment.jitter.ms segment.ms unclean.leader.election.enable""".split()


def topic(name, partitions=1, replication=1, **configs):
    return {"Name": name, "NumPartitions": partitions, "ReplicationFactor": replication,
            "Configs": [{"Name": key.replace("_", "."), "Value": value}
                        for key, value in configs.items()]}


class AdminCases(case.CaseTest):
    OVERRIDES = {"log.retention.hours": "99", "log.segment.bytes": "2097152"}

    def create_error(self, name, validate_only=False, **fields):
        return self.create_raw([topic(name, **fields)], validate_only)[0]["ErrorCode"]

    # ---- C77

    def test_c77_topic_names(self):
        before = self.files_outside()
        for name in ("", ".", "..", "a b", "a/b", "../x", "\u00fc", "a" * 250, "a\0b"):
            with self.subTest(name):
                self.assertEqual(INVALID_TOPIC, self.create_error(name))
        longest = fixture.unique() + "a" * 300
        self.assertEqual(0, self.create_error(longest[:249]))
        name = fixture.unique()
        answers = self.create_raw([topic(name), topic(name)])
        self.assertEqual([(name, INVALID_REQUEST)],
                         [(item["Name"], item["ErrorCode"]) for item in answers])
        self.assertNotIn(name, self.topic_names())
        self.assertEqual(before, self.files_outside())

    def files_outside(self):
        return set(os.listdir(self.broker.directory)), set(
            os.listdir(os.path.dirname(self.broker.directory))) & {"x", "a"}

    # ---- C79

    def both_ways(self, wanted, **configs):
        name = fixture.unique()
        for validate_only in (True, False):
            with self.subTest(configs=configs, validate_only=validate_only):
                self.assertEqual(wanted, self.create_error(name, validate_only, **configs))
                self.assertEqual(wanted == 0 and not validate_only, name in self.topic_names())

    def test_c79_a_dry_run_checks_what_the_real_run_checks(self):
        self.both_ways(INVALID_CONFIG, retention_ms="abc")
        self.both_ways(INVALID_CONFIG, **{"unclean.leader.election.enable": "maybe"})
        self.both_ways(INVALID_CONFIG, **{"no.such.key": "1"})
        self.both_ways(INVALID_CONFIG, **{"min.insync.replicas": "0"})
        self.both_ways(INVALID_CONFIG, **{"segment.bytes": "1000"})
        self.both_ways(0, **{"unclean.leader.election.enable": "TRUE"})
        self.both_ways(0, **{"cleanup.policy": "compact, delete"})
        existing = self.create()
        for validate_only in (True, False):
            self.assertEqual(EXISTS, self.create_error(existing, validate_only))
            self.assertEqual(INVALID_PARTITIONS, self.create_error(
                fixture.unique(), validate_only, partitions=0))
            self.assertEqual(INVALID_REPLICATION, self.create_error(
                fixture.unique(), validate_only, replication=3))

    def add_partitions(self, name, count, validate_only=False, version=2):
        answer = self.link.call("CreatePartitions", version, {
            "Topics": [{"Name": name, "Count": count, "Assignments": None}], "TimeoutMs": 20000,
            "ValidateOnly": validate_only})
        return answer["Results"][0]["ErrorCode"]

    def test_c79_create_partitions_checks_and_dry_runs(self):
        name = self.create(2)
        for validate_only in (True, False):
            self.assertEqual(INVALID_PARTITIONS, self.add_partitions(name, 2, validate_only))
            self.assertEqual(INVALID_PARTITIONS, self.add_partitions(name, 1, validate_only))
            self.assertEqual(3, self.add_partitions(fixture.unique(), 3, validate_only))
        self.assertEqual(0, self.add_partitions(name, 4, True))
        self.assertEqual(2, len(self.metadata([name])["Topics"][0]["Partitions"]))
        self.assertEqual(0, self.add_partitions(name, 4))
        self.wait_served(name, 4)
        self.assertEqual(0, self.store(name, raw.batch([b"x"]), partition=3))

    def alter(self, name, ops, validate_only=False, kind=TOPIC, version=1):
        """ops: [(key, operation, value)]; returns the error."""
        answer = self.link.call("IncrementalAlterConfigs", version, {
            "Resources": [{"ResourceType": kind, "ResourceName": name,
                           "Configs": [{"Name": key, "ConfigOperation": operation, "Value": value}
                                       for key, operation, value in ops]}],
            "ValidateOnly": validate_only})
        return answer["Responses"][0]["ErrorCode"]

    def test_c79_altering_configs_checks_and_dry_runs(self):
        name = self.create()
        for validate_only in (True, False):
            for key, value in (("retention.ms", "abc"), ("no.such.key", "1"),
                               ("min.insync.replicas", "0"), ("segment.bytes", "1000"),
                               ("compression.type", "foo")):
                with self.subTest(key, validate_only=validate_only):
                    self.assertEqual(INVALID_CONFIG,
                                     self.alter(name, [(key, SET, value)], validate_only))
        self.assertEqual(0, self.alter(name, [("retention.ms", SET, "5000000")], True))
        self.assertEqual("356400000", self.configs(TOPIC, name)["retention.ms"]["Value"])

    def test_c80_incremental_changes_touch_only_what_they_name(self):
        name = self.create(configs={"retention.ms": "5000000", "max.message.bytes": "2000000"})
        self.assertEqual(0, self.alter(name, [("max.message.bytes", DELETE, None),
                                              ("segment.ms", SET, "900000"),
                                              ("cleanup.policy", APPEND, "compact")]))
        found = self.configs(TOPIC, name)
        self.assertEqual(("5000000", "900000", "delete,compact", "1048588"),
                         tuple(found[key]["Value"] for key in (
                             "retention.ms", "segment.ms", "cleanup.policy", "max.message.bytes")))
        self.assertEqual(0, self.alter(name, [("cleanup.policy", SUBTRACT, "delete")]))
        self.assertEqual("compact", self.configs(TOPIC, name)["cleanup.policy"]["Value"])
        twice = [("segment.ms", SET, "800000"), ("segment.ms", SET, "700000")]
        self.assertEqual(INVALID_REQUEST, self.alter(name, twice))
        self.assertEqual(INVALID_REQUEST, self.alter(name, [("segment.ms", SET, None)]))
        for _ in self.restarts():
            self.wait_served(name)
            self.assertEqual("900000", self.configs(TOPIC, name)["segment.ms"]["Value"])

    # ---- C82

    def test_c82_a_bad_value_keeps_the_connection_and_the_other_topics(self):
        bad = {"compression.type": "foo", "message.timestamp.type": "x", "cleanup.policy": "zip"}
        for key, value in bad.items():
            with self.subTest(key):
                names = [fixture.unique() for _ in range(3)]
                answers = {item["Name"]: item for item in self.create_raw(
                    [topic(names[0]), topic(names[1], **{key: value}), topic(names[2])])}
                self.assertEqual([0, INVALID_CONFIG, 0],
                                 [answers[name]["ErrorCode"] for name in names])
                self.assertTrue(answers[names[1]]["ErrorMessage"])
                self.wait_served(names[0])
                self.assertEqual(INVALID_CONFIG, self.alter(names[0], [(key, SET, value)]))
                self.assertEqual(0, self.link.call("ApiVersions", 0)["ErrorCode"])

    # ---- C83

    def describe(self, kind, name, keys=None, **flags):
        answer = self.link.call("DescribeConfigs", 4, {
            "Resources": [{"ResourceType": kind, "ResourceName": name,
                           "ConfigurationKeys": keys}], **flags})
        return answer["Results"][0]

    def configs(self, kind, name, keys=None, **flags):
        answer = self.describe(kind, name, keys, **flags)
        self.assertEqual(0, answer["ErrorCode"], answer["ErrorMessage"])
        return {item["Name"]: item for item in answer["Configs"]}

    def test_c83_describe_configs_filters_and_names_sources(self):
        name = self.create(configs={"segment.ms": "900000"})
        every = self.configs(TOPIC, name)
        self.assertEqual([], [key for key in TOPIC_KEYS if key not in every])
        self.assertEqual({"segment.ms"}, set(self.configs(TOPIC, name, ["segment.ms"])))
        self.assertEqual({"segment.ms", "retention.ms"},
                         set(self.configs(TOPIC, name, ["segment.ms", "retention.ms"])))
        self.assertEqual({"segment.ms"}, set(self.configs(TOPIC, name, ["segment.ms", "nope"])))
        self.assertEqual((DYNAMIC_TOPIC, "900000"), self.source(every["segment.ms"]))
        self.assertEqual((DEFAULT, "10485760"), self.source(every["segment.index.bytes"]))
        self.assertEqual((STATIC, "2097152"), self.source(every["segment.bytes"]))
        self.assertEqual("356400000", every["retention.ms"]["Value"])
        self.assertEqual([], every["segment.ms"]["Synonyms"])
        full = self.configs(TOPIC, name, ["segment.ms", "segment.bytes", "retention.ms"],
                            IncludeSynonyms=True, IncludeDocumentation=True)
        self.assertEqual(("segment.ms", "900000", DYNAMIC_TOPIC),
                         self.synonym(full["segment.ms"]["Synonyms"][0]))
        self.assertEqual([("log.segment.bytes", "2097152", STATIC),
                          ("log.segment.bytes", "1073741824", DEFAULT)],
                         [self.synonym(item) for item in full["segment.bytes"]["Synonyms"]])
        self.assertTrue(full["segment.ms"]["Documentation"])
        self.assertEqual(3, self.describe(TOPIC, fixture.unique())["ErrorCode"])

    @staticmethod
    def source(item):
        return item["ConfigSource"], item["Value"]

    @staticmethod
    def synonym(item):
        return item["Name"], item["Value"], item["Source"]

    def test_c83_describe_configs_of_the_broker(self):
        node = str(self.metadata([])["Brokers"][0]["NodeId"])
        every = self.configs(BROKER, node)
        self.assertEqual((STATIC, "99"), self.source(every["log.retention.hours"]))
        self.assertEqual((STATIC, "2097152"), self.source(every["log.segment.bytes"]))
        self.assertEqual((DEFAULT, "10485760"), self.source(every["log.index.size.max.bytes"]))
        self.assertIn("listeners", every)
        self.assertEqual({"log.segment.bytes"},
                         set(self.configs(BROKER, node, ["log.segment.bytes", "nope"])))
        self.assertEqual(0, self.describe(BROKER, "")["ErrorCode"])
        self.assertEqual(INVALID_REQUEST, self.describe(BROKER, "77")["ErrorCode"])
        for item in every.values():
            self.assertFalse(item["IsSensitive"] and item["Value"] is not None, item)

    # ---- C85

    def full_request(self, api, version, name):
        """A request with something in it, valid in every version that has the fields."""
        partition = {"Produce": {"Index": 0, "Records": raw.batch([b"sweep"])},
                     "Fetch": {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000},
                     "ListOffsets": {"PartitionIndex": 0, "Timestamp": -1},
                     "DeleteRecords": {"PartitionIndex": 0, "Offset": 0},
                     "OffsetForLeaderEpoch": {"Partition": 0, "LeaderEpoch": 0}}.get(api)
        one = {"Name": name, "Partitions": [partition]}
        return {
            "Produce": {"Acks": 1, "TimeoutMs": 1000, "TopicData": [
                {"Name": name, "TopicId": self.ids[name], "PartitionData": [partition]}]},
            "Fetch": {"MaxWaitMs": 0, "MinBytes": 1, "Topics": [
                {"Topic": name, "TopicId": self.ids[name], "Partitions": [partition]}]},
            "ListOffsets": {"ReplicaId": -1, "Topics": [one]},
            "Metadata": {"Topics": [{"Name": name}]},
            "FindCoordinator": {"Key": "g", "CoordinatorKeys": ["g"]},
            "ApiVersions": {"ClientSoftwareName": "raw", "ClientSoftwareVersion": "1"},
            "CreateTopics": {"Topics": [topic(fixture.unique(), segment_ms="900000")]},
            "DeleteTopics": {"TopicNames": [fixture.unique()], "TimeoutMs": 1000,
                             "Topics": [{"Name": fixture.unique()}]},
            "DeleteRecords": {"Topics": [one], "TimeoutMs": 1000},
            "InitProducerId": {"TransactionalId": None, "TransactionTimeoutMs": 1000},
            "OffsetForLeaderEpoch": {"ReplicaId": -1, "Topics": [
                {"Topic": name, "Partitions": [partition]}]},
            "DescribeConfigs": {"Resources": [{"ResourceType": TOPIC, "ResourceName": name,
                                               "ConfigurationKeys": None}],
                                "IncludeSynonyms": True, "IncludeDocumentation": True},
            "AlterConfigs": {"Resources": [{"ResourceType": TOPIC, "ResourceName": name,
                                            "Configs": []}]},
            "CreatePartitions": {"Topics": [{"Name": name, "Count": 1, "Assignments": None}],
                                 "TimeoutMs": 1000},
            "IncrementalAlterConfigs": {"Resources": [
                {"ResourceType": TOPIC, "ResourceName": name, "Configs": [
                    {"Name": "segment.ms", "ConfigOperation": SET, "Value": "900000"}]}]},
            "DescribeCluster": {},
        }[api]

    def empty_request(self, api):
        if api == "Fetch":
            return {"MaxWaitMs": 0, "MinBytes": 0}
        if api == "Produce":
            return {"Acks": 1, "TimeoutMs": 1000}
        return {}

    def test_c85_every_advertised_version_answers(self):
        name = self.create()
        self.ids = {name: self.topic_id(name)}
        ranges = {item["ApiKey"]: (item["MinVersion"], item["MaxVersion"])
                  for item in self.link.call("ApiVersions", 0)["ApiKeys"]}
        swept = 0
        for key, (low, high) in ranges.items():
            api = raw.NAMES.get(key)
            if api is None:
                continue
            low = max(low, raw.MESSAGES[api, "request"].versions.low)
            for version in range(low, high + 1):
                for body in (self.empty_request(api), self.full_request(api, version, name)):
                    with self.subTest(api=api, version=version, body=body):
                        with raw.Connection(self.broker.port) as link:
                            answer = link.call(api, version, body)
                        self.check_no_error(api, body, answer)
                        swept += 1
        self.assertGreater(swept, 100)
        advertised = {raw.NAMES[key] for key in ranges if key in raw.NAMES}
        wanted = set(raw.KEYS) - {"AlterConfigs"}
        self.assertEqual(set(), wanted - advertised)

    def check_no_error(self, api, body, answer):
        if api in ("Produce", "Fetch", "ListOffsets", "OffsetForLeaderEpoch", "DeleteRecords"):
            for item in answer.get("Responses") or answer.get("Topics") or ():
                for part in item.get("Partitions") or item["PartitionResponses"]:
                    self.assertEqual(0, part["ErrorCode"])
            if any(isinstance(value, list) and value for value in body.values()):
                self.assertTrue(answer.get("Responses") or answer.get("Topics"))
        elif api in ("CreateTopics", "DescribeConfigs", "IncrementalAlterConfigs"):
            for item in next(answer[name] for name in ("Topics", "Results", "Responses")
                             if name in answer):
                self.assertEqual(0, item["ErrorCode"], item["ErrorMessage"])

    # ---- topics

    def test_deleted_topics_are_gone_and_their_name_is_free(self):
        for _ in range(3):
            name = self.create(3)
            first = self.topic_id(name)
            self.store(name, raw.batch([b"old"]), partition=1)
            self.delete_topic(name)
            fixture.wait_until(lambda: self.metadata([name])["Topics"][0]["ErrorCode"] == 3)
            fixture.wait_until(
                lambda: not os.path.isdir(self.broker.partition_dir(name, 1)))
            self.create(3, name=name)
            self.assertNotEqual(first, self.topic_id(name))
            self.assertEqual(0, self.offset_of(name, -1, partition=1))

    def test_topics_survive_restarts(self):
        name = self.create(3, {"segment.ms": "900000"})
        gone = self.create()
        self.delete_topic(gone)
        wanted = self.topic_id(name)
        for how in self.restarts():
            with self.subTest(how):
                self.wait_served(name, 3)
                self.assertEqual(wanted, self.topic_id(name))
                self.assertNotIn(gone, self.topic_names())

    def test_a_timeout_of_0_does_nothing(self):
        name = fixture.unique()
        answer = self.create_raw([topic(name)], timeout_ms=0)
        self.assertEqual(TIMED_OUT, answer[0]["ErrorCode"])

    def test_metadata_creates_topics_only_when_allowed(self):
        name = fixture.unique()
        self.assertEqual(3, self.metadata([name])["Topics"][0]["ErrorCode"])
        self.assertNotIn(name, self.topic_names())
        self.link.call("Metadata", 9, {"Topics": [{"Name": name}], "AllowAutoTopicCreation": True})
        self.wait_served(name)
        answer = self.link.call("Metadata", 9, {"Topics": [{"Name": "a b"}],
                                                "AllowAutoTopicCreation": True})
        self.assertEqual(INVALID_TOPIC, answer["Topics"][0]["ErrorCode"])


if __name__ == "__main__":
    unittest.main()
