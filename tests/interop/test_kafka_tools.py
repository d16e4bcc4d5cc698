"""Apache Kafka's own command line tools 4.4 against the broker and against its files.

TopicCommand, ConfigCommand, GetOffsetShell, DeleteRecordsCommand, ProducerPerformance talk to it; DumpLogSegments reads
what it left on the disk, with deep iteration and index sanity checks."""

import glob
import json
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import fixture  # noqa: E402

TOOLS = "org.apache.kafka.tools."


class KafkaTools(fixture.BrokerTest):
    OVERRIDES = {"log.segment.bytes": "1048576", "log.index.interval.bytes": "512"}

    def tool(self, name, *args):
        code, output = fixture.tool(TOOLS + name, "--bootstrap-server", self.broker.bootstrap,
                                    *args)
        self.assertEqual(0, code, output)
        return output

    def test_topic_command(self):
        topic = fixture.unique()
        self.tool("TopicCommand", "--create", "--topic", topic, "--partitions", "3",
                  "--config", "retention.ms=1000000")
        self.assertIn(topic, self.tool("TopicCommand", "--list").split())
        described = self.tool("TopicCommand", "--describe", "--topic", topic)
        self.assertIn("PartitionCount: 3", described)
        self.assertIn("retention.ms=1000000", described)
        self.assertEqual(3, len(re.findall(r"Leader: \d+", described)))
        self.tool("TopicCommand", "--alter", "--topic", topic, "--partitions", "4")
        self.assertIn("PartitionCount: 4",
                      self.tool("TopicCommand", "--describe", "--topic", topic))
        self.tool("TopicCommand", "--delete", "--topic", topic)
        self.assertNotIn(topic, self.tool("TopicCommand", "--list").split())

    def test_config_command(self):
        topic = fixture.unique()
        self.tool("TopicCommand", "--create", "--topic", topic)
        self.tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", topic,
                  "--add-config", "max.message.bytes=77777,cleanup.policy=[compact,delete]")
        shown = self.tool("ConfigCommand", "--describe", "--entity-type", "topics",
                          "--entity-name", topic)
        self.assertIn("max.message.bytes=77777", shown)
        self.assertIn("cleanup.policy=compact,delete", shown)
        self.tool("ConfigCommand", "--alter", "--entity-type", "topics", "--entity-name", topic,
                  "--delete-config", "max.message.bytes")
        self.assertNotIn("77777", self.tool("ConfigCommand", "--describe", "--entity-type",
                                            "topics", "--entity-name", topic))
        self.tool("ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-default")

    def perf(self, topic, records, size=100, *props):
        # ProducerPerformance takes no --bootstrap-server before 4.x renamed it: the property works in all.
        code, output = fixture.tool(
            TOOLS + "ProducerPerformance", "--topic", topic, "--num-records", str(records),
            "--record-size", str(size), "--throughput", "-1", "--producer-props",
            f"bootstrap.servers={self.broker.bootstrap}", *props)
        self.assertEqual(0, code, output)
        return output

    def test_perf_offsets_and_delete_records(self):
        topic = fixture.unique()
        self.tool("TopicCommand", "--create", "--topic", topic, "--partitions", "2")
        self.assertIn("5000 records sent", self.perf(topic, 5000))
        ends = dict(re.findall(re.escape(topic) + r":(\d):(\d+)",
                               self.tool("GetOffsetShell", "--topic", topic)))
        self.assertEqual(5000, sum(map(int, ends.values())))
        plan = os.path.join(self.broker.directory, "delete.json")
        with open(plan, "w", encoding="ascii") as out:
            json.dump({"version": 1, "partitions": [{"topic": topic, "partition": 0,
                                                     "offset": 1}]}, out)
        self.assertIn("low_watermark: 1",
                      self.tool("DeleteRecordsCommand", "--offset-json-file", plan))
        starts = dict(re.findall(re.escape(topic) + r":(\d):(\d+)",
                                 self.tool("GetOffsetShell", "--topic", topic, "--time", "-2")))
        self.assertEqual({"0": "1", "1": "0"}, starts)

    def test_dump_log_segments_reads_what_we_wrote(self):
        topic = fixture.unique()
        self.tool("TopicCommand", "--create", "--topic", topic)
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            self.perf(topic, 6000, 100, f"compression.type={codec}", "enable.idempotence=true")
        self.broker.stop()
        files = sorted(glob.glob(os.path.join(self.broker.partition_dir(topic), "0*")))
        logs = [name for name in files if name.endswith(".log")]
        self.assertGreater(len(logs), 1, "several segments")
        code, output = fixture.tool(TOOLS + "DumpLogSegments", "--deep-iteration", "--files",
                                    ",".join(logs))
        self.assertEqual(0, code, output[-2000:])
        self.assertEqual(30000, len(re.findall(r"^\| offset: ", output, re.M)))
        self.assertNotIn("isvalid: false", output)
        others = [name for name in files if name.endswith((".index", ".timeindex", ".snapshot"))]
        self.assertTrue(others)
        for name in others:
            check = [] if name.endswith(".snapshot") else ["--index-sanity-check"]
            code, output = fixture.tool(TOOLS + "DumpLogSegments", *check, "--files", name)
            self.assertEqual(0, code, output[-2000:])
            self.assertNotRegex(output, "(?i)mismatch|corrupt|invalid|out of order", name)
            if check:
                self.assertIn("passed sanity check", output)
        self.broker.start()


if __name__ == "__main__":
    unittest.main()
