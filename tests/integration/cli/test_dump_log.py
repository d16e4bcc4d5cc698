"""barnabas dump-log: every kind of file, sound and damaged. It never crashes and never believes."""

import glob
import os
import random
import shutil
import struct
import subprocess
import unittest

from cli import PROGRAM, ClientTest, barnabas, fixture

SEGMENT = "00000000000000000000"


class DumpLog(ClientTest):
    """One broker fills a directory; each test looks at a copy of it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        b = ("-b", cls.broker.bootstrap)
        barnabas("topic", "create", "plain", "-c", "index.interval.bytes=100", *b)
        barnabas("topic", "create", "zipped", "-p", 2, *b)
        for i in range(10):
            barnabas("produce", "plain", "-K", ":", "-H", "n=1", *b,
                     text="".join(f"k{i}:value {i} {k}\n" for k in range(20)))
        barnabas("produce", "zipped", "-z", "zstd", "-p", 0, *b, text="z\n" * 500)
        barnabas("produce", "zipped", "-z", "gzip", "-p", 0, *b, text=b"\xff\n" * 500)
        cls.broker.stop()
        cls.sound = os.path.join(cls.broker.directory, "sound")
        shutil.copytree(cls.broker.logs, cls.sound)
        cls.broker.start()

    def copy(self):
        target = os.path.join(self.broker.directory, fixture.unique("copy"))
        shutil.copytree(self.sound, target)
        self.addCleanup(shutil.rmtree, target)
        return target

    def dump(self, *arguments, code=0):
        done = barnabas("dump-log", *arguments)
        self.assertEqual(code, done.code, done)
        if code == 0:
            self.assertEqual("", done.err)
        return done

    def test_segments_show_batches_and_records(self):
        path = f"{self.sound}/plain-0/{SEGMENT}.log"
        batches = self.dump(path, "--format", "json").lines()
        self.assertEqual({"batch"}, {b["kind"] for b in batches})
        self.assertEqual(200, sum(b["records"] for b in batches))
        self.assertEqual(os.path.getsize(path), sum(b["bytes"] for b in batches))
        position, offset = 0, 0
        for batch in batches:
            self.assertEqual((position, offset, "ok"), (batch["position"], batch["offset"], batch["crc"]))
            position, offset = position + batch["bytes"], batch["last_offset"] + 1
        records = [r for r in self.dump(path, "--deep", "--format", "json").lines() if r["kind"] == "record"]
        self.assertEqual([(f"k{i}", f"value {i} {k}") for i in range(10) for k in range(20)],
                         [(r["key"], r["value"]) for r in records])
        self.assertEqual([{"key": "n", "value": "1"}], records[0]["headers"])
        text = self.dump(path, "-d").out
        self.assertIn("  batch position=0 offset=0 ", text)
        self.assertIn(' key="k9" value="value 9 19"\n', text)

    def test_compressed_records_are_read(self):
        path = f"{self.sound}/zipped-0/{SEGMENT}.log"
        lines = self.dump(path, "--deep", "--format", "json").lines()
        self.assertEqual({"zstd", "gzip"}, {b["codec"] for b in lines if b["kind"] == "batch"})
        self.assertEqual(500, sum(r.get("value") == "z" for r in lines))
        self.assertEqual(500, sum(r.get("value_base64") == "/w==" for r in lines))

    def test_a_directory_shows_every_kind_of_file(self):
        done = self.dump(self.sound + "/")
        for what in ("plain-0/" + SEGMENT + ".log", ".index: ", ".timeindex: ", "__cluster_metadata-0/",
                     "leader-epoch-checkpoint: ", "partition.metadata: ", "meta.properties: ",
                     "recovery-point-offset-checkpoint: ", ".snapshot: "):
            self.assertIn(what, done.out)
        self.assertRegex(done.out, r"\n  entry offset=\d+ position=\d+\n")
        self.assertRegex(done.out, r"\n  epoch epoch=0 start_offset=0\n")
        self.assertRegex(done.out, r"\n  checkpoint topic=plain partition=0 offset=200\n")
        self.assertRegex(done.out, r"\n  producer producer_id=\d+ epoch=0 .* last_sequence=19 ")
        self.assertRegex(done.out, r"\n  properties .*node.id=1 version=1\n")

    def test_metadata_records_are_named(self):
        folder = f"{self.sound}/__cluster_metadata-0"
        lines = self.dump(folder, "--format", "json").lines()
        records = [r for r in lines if r["kind"] == "record"]
        topics = {r["data"]["name"] for r in records if r["type"] == "TopicRecord"}
        self.assertEqual({"plain", "zipped"}, topics)
        self.assertIn("RegisterBrokerRecord", {r["type"] for r in records})
        hidden = next(r for r in records if r["type"] == "ConfigRecord")
        self.assertEqual("hidden", hidden["data"]["value"])
        lines = self.dump(folder, "--format", "json", "--reveal").lines()
        shown = next(r for r in lines if r.get("type") == "ConfigRecord")
        self.assertEqual("100", shown["data"]["value"])
        elsewhere = os.path.join(self.copy(), "elsewhere")
        shutil.copytree(folder, elsewhere)
        self.assertNotIn("TopicRecord", self.dump(elsewhere, "--deep").out)
        self.assertIn("TopicRecord", self.dump(elsewhere, "--metadata").out)

    def test_control_records_that_kafka_wrote_are_named(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
        lines = self.dump(folder, "--format", "json").lines()
        control = {r["type"]: r["data"] for r in lines if "control" in r and r["kind"] == "record"}
        self.assertEqual({"SnapshotHeaderRecord", "SnapshotFooterRecord", "LeaderChangeMessage"}, set(control))
        self.assertEqual({"version": 0, "lastContainedLogTimestamp": 1796019318459},
                         control["SnapshotHeaderRecord"])
        self.assertEqual(1, control["LeaderChangeMessage"]["leaderId"])
        features = [r["data"]["name"] for r in lines if r.get("type") == "FeatureLevelRecord"]
        self.assertEqual(2, features.count("metadata.version"))

    def test_text_files_that_were_not_written_yet_are_sound(self):
        copy = self.copy()
        for path in (f"{copy}/recovery-point-offset-checkpoint", f"{copy}/plain-0/leader-epoch-checkpoint"):
            os.truncate(path, 0)
        self.assertEqual(2, self.dump(copy).out.count("\n  unwritten\n"))

    def test_a_kafka_file_with_reserved_zeros_is_sound(self):
        copy = self.copy()
        with open(f"{copy}/plain-0/{SEGMENT}.index", "ab") as file:
            file.write(b"\0" * 4096)
        self.assertIn("reserved position=", self.dump(f"{copy}/plain-0").out)

    def damage(self, path, position, content):
        with open(path, "r+b") as file:
            file.seek(position)
            file.write(content)

    def test_a_wrong_crc_is_told_and_stepped_over(self):
        copy = self.copy()
        path = f"{copy}/plain-0/{SEGMENT}.log"
        batches = self.dump(path, "--format", "json").lines()
        second = batches[1]["position"]
        self.damage(path, second + 70, b"\xaa\xaa")
        done = self.dump(path, "--deep", code=1)
        self.assertIn(f"{path}: position {second}: the CRC of the batch at offset "
                      f"{batches[1]['offset']} does not match\n", done.err)
        self.assertEqual(1, len(done.err.splitlines()))
        self.assertIn(f"offset={batches[2]['offset']}", done.out)
        lines = self.dump(path, "--format", "json", code=1).lines()
        problem = next(line for line in lines if line["kind"] == "problem")
        self.assertEqual(second, problem["position"])

    def test_a_torn_tail_is_told_with_its_position(self):
        copy = self.copy()
        path = f"{copy}/plain-0/{SEGMENT}.log"
        batches = self.dump(path, "--format", "json").lines()
        last = batches[-1]["position"]
        for size in (last + 1, last + 30, last + 61, os.path.getsize(path) - 1):
            os.truncate(path, size)
            done = self.dump(path, code=1)
            self.assertIn(f"position {last}: ", done.err)
            shutil.copy(f"{self.sound}/plain-0/{SEGMENT}.log", path)

    def test_offsets_that_go_back_are_told(self):
        copy = self.copy()
        path = f"{copy}/plain-0/{SEGMENT}.log"
        second = self.dump(path, "--format", "json").lines()[1]["position"]
        self.damage(path, second, struct.pack(">q", 3))
        self.assertIn(f"position {second}: offset 3 follows", self.dump(path, code=1).err)
        moved = f"{copy}/plain-0/00000000000000001000.log"
        shutil.copy(f"{self.sound}/plain-0/{SEGMENT}.log", moved)
        self.assertIn("position 0: offset 0 follows where at least 1000", self.dump(moved, code=1).err)

    def test_damaged_side_files_are_told(self):
        copy = self.copy()
        folder = f"{copy}/plain-0"
        index = f"{folder}/{SEGMENT}.index"
        self.assertGreaterEqual(os.path.getsize(index), 16)
        self.damage(index, 4, struct.pack(">i", 7))
        self.assertIn(f"{index}: position 0: no batch", self.dump(index, code=1).err)
        self.damage(index, 8, struct.pack(">ii", 0, 0))
        self.assertIn(f"{index}: position 8: entries do not rise", self.dump(index, code=1).err)
        for path, content, what in [
                (f"{folder}/{SEGMENT}.timeindex", b"\x01" * 13, "1 bytes at the end are no entry"),
                (f"{folder}/{SEGMENT}.txnindex", b"\x01" * 34, "version 0 was expected"),
                (glob.glob(f"{folder}/*.snapshot")[0], b"\0\x01junk", "producers cannot be read"),
                (f"{folder}/leader-epoch-checkpoint", b"0\n2\n0 0\n", "epochs cannot be read"),
                (f"{copy}/recovery-point-offset-checkpoint", b"0\n2\nplain 0 5\n", "2 lines were promised"),
                (f"{copy}/recovery-point-offset-checkpoint", b"0\n1\nplain zero 5\n", "were expected"),
                (f"{copy}/recovery-point-offset-checkpoint", b"1\n", "version 0 was expected"),
                (f"{copy}/meta.properties", b"nonsense\n", "key and value were expected")]:
            with open(path, "wb") as file:
                file.write(content)
            self.assertIn(what, self.dump(path, code=1).err)

    def test_what_is_not_there_or_not_ours(self):
        self.assertIn("no such file", self.dump("/nowhere.log", code=1).err)
        self.assertIn("expected a file that ends in .log", self.dump("/etc/passwd", code=2).err)
        copy = self.copy()
        with open(f"{copy}/plain-0/notes.txt", "w", encoding="ascii") as file:
            file.write("not ours")
        os.mkdir(f"{copy}/empty")
        self.dump(copy)

    def test_random_damage_never_crashes_it(self):
        copy, seed = self.copy(), random.randrange(1 << 32)
        chance = random.Random(seed)
        paths = [path for path in glob.glob(f"{copy}/*/*") + glob.glob(f"{copy}/*")
                 if os.path.isfile(path) and os.path.getsize(path)]
        originals = {}
        for path in paths:
            with open(path, "rb") as file:
                originals[path] = file.read()
        for round_number in range(150):
            for path in paths:
                content = bytearray(originals[path])
                for _ in range(chance.choice([1, 1, 3, 20])):
                    at = chance.randrange(len(content))
                    content[at] = chance.choice([0, 1, 0x7f, 0x80, 0xff, chance.randrange(256)])
                if chance.random() < 0.2:
                    del content[chance.randrange(len(content)):]
                with open(path, "wb") as file:
                    file.write(content)
            for arguments in (["--deep"], ["--metadata", "--format", "json"]):
                done = subprocess.run([PROGRAM, "dump-log", copy, *arguments], capture_output=True,
                                      timeout=60, check=False)
                self.assertIn(done.returncode, (0, 1), (seed, round_number, done.stderr[-2000:]))
                self.assertNotIn(b"Sanitizer", done.stderr, (seed, round_number))


if __name__ == "__main__":
    unittest.main()
