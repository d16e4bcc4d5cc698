"""barnabas topic create, list, describe, alter, delete against a broker."""

import unittest

from cli import ClientTest, fixture


class Topics(ClientTest):
    def test_created_topics_are_listed_and_described(self):
        name = self.topic("--partitions", 3, "-c", "retention.ms=86400000", "-c", "compression.type=lz4")
        row = next(line for line in self.call("topic", "list").out.splitlines() if name in line)
        self.assertEqual([name, "3", "1"], row.split())
        listed = self.call("topic", "list", "--format", "json").json()
        self.assertIn({"name": name, "partitions": 3, "replication_factor": 1}, listed)
        self.assertEqual(sorted(t["name"] for t in listed), [t["name"] for t in listed])
        described = self.call("topic", "describe", name, "--format", "json").json()
        self.assertEqual({"retention.ms": "86400000", "compression.type": "lz4"}, described["configs"])
        self.assertEqual([0, 1, 2], [p["partition"] for p in described["partitions"]])
        for partition in described["partitions"]:
            self.assertEqual(([1], [1], 1, 0, 0),
                             tuple(partition[key] for key in ("replicas", "isr", "leader", "earliest",
                                                              "latest")))

    def test_the_table_has_titles_offsets_and_overrides(self):
        name = self.topic("-p", 2, "-c", "retention.bytes=1000000")
        self.call("produce", name, "-p", 1, text="a\nb\n")
        lines = self.call("topic", "describe", name).out.splitlines()
        self.assertEqual(f"{name}: 2 partitions, replication factor 1", lines[0])
        self.assertEqual("  retention.bytes=1000000", lines[1])
        self.assertEqual("PARTITION LEADER REPLICAS ISR EARLIEST LATEST".split(), lines[2].split())
        self.assertEqual(["0 1 1 1 0 0", "1 1 1 1 0 2"], [" ".join(line.split()) for line in lines[3:]])

    def test_all_topics_are_described_without_a_name(self):
        names = [self.topic(), self.topic("-c", "cleanup.policy=compact")]
        # Kafka answers before every broker knows the topic.
        fixture.wait_until(lambda: names[1] in self.call("topic", "list").out, what="the topic")
        described = {t["name"]: t for t in self.call("topic", "describe", "--format", "json").json()}
        self.assertEqual({}, described[names[0]]["configs"])
        self.assertEqual({"cleanup.policy": "compact"}, described[names[1]]["configs"])
        out = self.call("topic", "describe").out
        for name in names:
            self.assertIn(f"{name}: 1 partition, replication factor 1\n", out)

    def test_what_the_broker_refuses_is_a_failure_with_its_words(self):
        name = self.topic()
        self.assertIn("already exists", self.call("topic", "create", name, code=1).err)
        self.assertEqual(f"{name} exists already\n",
                         self.call("topic", "create", name, "--if-not-exists").out)
        self.assertIn("retention.ms", self.call("topic", "create", fixture.unique(), "-c",
                                                "retention.ms=soon", code=1).err)
        self.assertIn("bad name", self.call("topic", "create", "bad name", code=1).err)
        self.call("topic", "create", fixture.unique(), "--replication-factor", 3, code=1)

    def test_validate_only_creates_nothing(self):
        name = fixture.unique()
        self.assertEqual(f"could create {name}\n", self.call("topic", "create", name, "--validate-only").out)
        self.assertIn(f"no topic '{name}'", self.call("topic", "describe", name, code=1).err)
        self.assertNotIn(name, self.call("topic", "list").out, "a question must not create a topic")

    def test_alter_keeps_other_overrides(self):
        name = self.topic("-c", "retention.ms=1000000", "-c", "segment.ms=500000")
        self.call("topic", "alter", name, "-c", "compression.type=zstd", "-d", "segment.ms", "-p", 4)
        described = self.call("topic", "describe", name, "--format", "json").json()
        self.assertEqual({"retention.ms": "1000000", "compression.type": "zstd"}, described["configs"])
        self.assertEqual(4, len(described["partitions"]))
        self.call("topic", "alter", name, "-d", "retention.ms", "-d", "compression.type")
        self.assertEqual({}, self.call("topic", "describe", name, "--format", "json").json()["configs"])

    def test_alter_that_is_refused_changes_nothing(self):
        name = self.topic("-c", "retention.ms=1000000", "-p", 2)
        before = self.call("topic", "describe", name).out
        self.assertIn("retention.ms", self.call("topic", "alter", name, "-c", "retention.ms=x", "-p", 5,
                                                code=1).err)
        self.assertIn("no configuration 'retention'",
                      self.call("topic", "alter", name, "-d", "retention", "-p", 5, code=1).err)
        self.assertEqual(before, self.call("topic", "describe", name).out)
        self.assertIn("no topic 'nowhere'", self.call("topic", "alter", "nowhere", "-p", 2, code=1).err)
        self.call("topic", "alter", name, "-p", 1, code=1)

    def test_deleted_topics_are_gone_and_missing_ones_a_failure(self):
        first, second = self.topic(), self.topic()
        done = self.call("topic", "delete", first, "nowhere", second, code=1)
        self.assertEqual({f"deleted {first}", f"deleted {second}"}, set(done.out.splitlines()))
        self.assertIn("nowhere: ", done.err)
        listed = self.call("topic", "list").out
        self.assertNotIn(first, listed)
        self.assertNotIn(second, listed)


if __name__ == "__main__":
    unittest.main()
