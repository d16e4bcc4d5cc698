"""Area H: damaged and torn files, producer state and trims across restarts.

Each test stops its broker, changes a copy of its files, and starts it on them. Kafka needs seconds
for a start, so it gets few of the steps; what differs between the two is said where it does."""

import os
import random
import shutil
import unittest

import case
import fixture
import raw

OUT_OF_RANGE, POLICY_VIOLATION, CORRUPT = 1, 44, 2
FOREVER = {"retention.ms": "-1"}
ACTIVE = "0" * 20 + ".log"


def flip(path, at):
    with open(path, "r+b") as target:
        target.seek(at)
        byte = target.read(1)[0]
        target.seek(at)
        target.write(bytes([byte ^ 4]))


class RecoveryCase(case.OwnBrokerTest):
    """A broker of its own for each test, whose files can be saved and put back."""

    OVERRIDES = {}

    def setUp(self):
        self.own(fixture.new_broker(self.OVERRIDES))

    def save(self):
        self.saved = os.path.join(self.broker.directory, "saved")
        shutil.copytree(self.broker.logs, self.saved)

    def put_back(self):
        if self.broker.is_alive():
            self.broker.kill9()
        self.broker.process = None
        shutil.rmtree(self.broker.logs)
        shutil.copytree(self.saved, self.broker.logs)

    def start_again(self, topic=None):
        self.broker.start()
        self.reconnect()
        if topic:
            self.wait_served(topic)

    def read_around(self, topic, bad, end):
        """Reads every offset but those of the batch 'bad', which may fail."""
        found, at = [], 0
        while at < end:
            part = self.fetch(topic, at)
            if part["ErrorCode"]:
                self.assertEqual((bad.base_offset, CORRUPT), (at, part["ErrorCode"]))
                at = bad.last_offset + 1
                continue
            self.assertTrue(part["Records"], f"nothing at {at}")
            for batch in part["Records"]:
                if batch.base_offset != bad.base_offset:
                    self.assertTrue(batch.is_sound())
                    found.append(batch.base_offset)
                at = batch.last_offset + 1
        self.assertEqual(end, at)
        return found


class RotCases(RecoveryCase):
    OVERRIDES = {"log.segment.bytes": "1048576"}

    def rolled_topic(self):
        topic = self.create(configs=FOREVER)
        source = random.Random(7)
        for _ in range(30):
            self.store(topic, raw.batch([source.randbytes(50000), source.randbytes(50000)]))
        return topic

    def segments(self, topic):
        folder = self.broker.partition_dir(topic)
        return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                      if name.endswith(".log"))

    def flip_in(self, path, number):
        """Flips a bit in the payload of one batch of a segment; returns that batch."""
        with open(path, "rb") as source:
            found = raw.batches(source.read())
        number %= len(found)
        at = sum(len(batch.data) for batch in found[:number]) + 5000
        flip(path, at)
        return found[number]

    def test_c70_a_flipped_bit_in_a_closed_segment_costs_one_batch(self):
        topic = self.rolled_topic()
        self.assertGreaterEqual(len(self.segments(topic)), 3)
        self.broker.stop()
        bad = self.flip_in(self.segments(topic)[0], 4)
        for crash in (False, True):
            self.start_again(topic)
            self.assertEqual(60, self.offset_of(topic, -1))
            self.assertEqual(29, len(self.read_around(topic, bad, 60)))
            if crash:
                self.assertEqual(60, self.store(topic, raw.batch([b"next"])))
            self.broker.kill9()

    def test_c70_a_flipped_bit_in_the_last_batch(self):
        topic = self.rolled_topic()
        self.broker.stop()
        bad = self.flip_in(self.segments(topic)[-1], -1)
        self.assertEqual(58, bad.base_offset)
        self.start_again(topic)
        self.assertEqual(29, len(self.read_around(topic, bad, 60)))

    def test_c70_a_flipped_bit_in_the_last_batch_after_a_crash(self):
        topic = self.rolled_topic()
        self.broker.kill9()
        self.flip_in(self.segments(topic)[-1], -1)
        self.start_again(topic)
        at = 0
        while at < 58:
            part = self.fetch(topic, at)
            self.assertEqual(0, part["ErrorCode"])
            for batch in part["Records"]:
                if batch.base_offset < 58:
                    self.assertTrue(batch.is_sound())
                at = batch.last_offset + 1
        self.assertIn(self.offset_of(topic, -1), (58, 60))

    @unittest.skipIf(fixture.is_kafka(), "Kafka refuses to start or goes on, file by file")
    def test_c70_no_data_is_lost_because_a_side_file_is_bad(self):
        topic = self.rolled_topic()
        producer = self.producer_id()
        self.store(topic, raw.batch([b"last"], producer_id=producer[0],
                                    producer_epoch=producer[1], sequence=0))
        self.broker.stop()
        self.save()
        names = [os.path.relpath(os.path.join(folder, name), self.broker.logs)
                 for folder, _, files in os.walk(self.broker.logs) for name in files]
        sides = [name for name in sorted(names) if not name.endswith(".log")
                 or os.sep not in name or topic not in name]
        self.assertGreater(len(sides), 5)
        sizes = {name: os.path.getsize(name) for name in self.segments(topic)}
        for name in sides:
            path = os.path.join(self.broker.logs, name)
            for what in ("flipped", "emptied"):
                size = os.path.getsize(path)
                if size == 0:
                    continue
                with self.subTest(name, what=what):
                    if what == "flipped":
                        flip(path, size // 2)
                    else:
                        os.truncate(path, 0)
                    self.check_after_damage(topic, sizes, name)
                self.put_back()

    def check_after_damage(self, topic, sizes, name):
        try:
            self.broker.start()
        except RuntimeError as refusal:
            self.assertIn(os.path.basename(name), str(refusal), "a refusal that names no file")
            self.assertEqual(sizes, {path: os.path.getsize(path) for path in sizes})
            return
        self.reconnect()
        self.wait_served(topic)
        self.assertEqual(61, self.offset_of(topic, -1))
        self.assertEqual(31, len([batch for batch in self.read_all(topic) if batch.is_sound()]))
        self.assertEqual(61, self.store(topic, raw.batch([b"next"])))


class TornTailCases(RecoveryCase):
    OVERRIDES = {"log.flush.policy": "os"}  # under "group" an acknowledged byte is never a tail
    COUNT = 20

    def torn_topic(self):
        """COUNT batches of one size, then a crash; saves the files. Returns (topic, size)."""
        topic = self.create(configs=FOREVER)
        size = len(raw.batch([(1000, b"v" * 20)]))
        for number in range(self.COUNT):
            self.store(topic, raw.batch([(1000 + number, b"v" * 20)]))
        path = os.path.join(self.broker.partition_dir(topic), ACTIVE)
        self.assertEqual(self.COUNT * size, os.path.getsize(path))
        self.broker.kill9()
        self.save()
        return topic, size, path

    def check_end(self, topic, end):
        self.start_again(topic)
        self.assertEqual(end, self.offset_of(topic, -1))
        found = self.read_all(topic)
        self.assertEqual(list(range(end)), [batch.base_offset for batch in found])
        self.assertTrue(all(batch.is_sound() for batch in found))
        self.assertEqual(end, self.store(topic, raw.batch([(5000, b"next")])))
        self.assertEqual((3, 1003), self.offset_and_time(topic, 1003))
        self.assertEqual((end, 5000), self.offset_and_time(topic, 4000))
        self.assertEqual((end, 5000), self.offset_and_time(topic, -3))

    def steps(self):
        return (1, 75) if fixture.is_kafka() else range(1, 81)

    def test_c71_a_cut_tail_ends_at_the_last_whole_batch(self):
        topic, size, path = self.torn_topic()
        for cut in self.steps():
            with self.subTest(cut=cut):
                os.truncate(path, self.COUNT * size - cut)
                self.check_end(topic, (self.COUNT * size - cut) // size)
            self.put_back()

    def test_c71_bytes_after_the_last_batch_are_cut(self):
        topic, size, path = self.torn_topic()
        source = random.Random(1)
        for count in self.steps():
            for tail in (bytes(count), source.randbytes(count)):
                with self.subTest(count=count, zero=tail[0] == 0):
                    with open(path, "ab") as target:
                        target.write(tail)
                    self.check_end(topic, self.COUNT)
                self.put_back()

    def test_c71_a_checkpoint_beyond_the_end_and_an_empty_segment(self):
        topic, _, path = self.torn_topic()
        with open(os.path.join(self.broker.logs, "recovery-point-offset-checkpoint"), "w",
                  encoding="ascii") as target:
            target.write(f"0\n1\n{topic} 0 1000\n")
        self.check_end(topic, self.COUNT)
        self.put_back()
        with open(os.path.join(os.path.dirname(path), f"{self.COUNT:020}.log"), "wb"):
            pass
        self.check_end(topic, self.COUNT)


class StateCases(RecoveryCase):
    def damages(self, paths):
        """Yields each way to damage the files, with the files put back before the next."""
        def write(path, data):
            with open(path, "wb") as target:
                target.write(data)
        ways = {"intact": None, "emptied": lambda path: write(path, b""),
                "noise": lambda path: write(path, os.urandom(100)), "deleted": os.unlink}
        for name, way in ways.items():
            self.put_back()
            for path in paths if way else ():
                way(path)
            yield name

    def test_c73_producer_state_survives_a_crash_and_bad_snapshots(self):
        topic, producer = self.create(), self.producer_id()

        def send(sequence):
            answer = self.produce(topic, raw.batch([b"s%d" % sequence], producer_id=producer[0],
                                                   producer_epoch=producer[1], sequence=sequence))
            return answer["ErrorCode"], answer["BaseOffset"]

        for sequence in range(50):
            self.assertEqual((0, sequence), send(sequence))
        self.broker.restart()
        self.reconnect()
        self.wait_served(topic)
        for sequence in range(50, 100):
            self.assertEqual((0, sequence), send(sequence))
        self.broker.kill9()
        folder = self.broker.partition_dir(topic)
        snapshots = [os.path.join(folder, name) for name in os.listdir(folder)
                     if name.endswith(".snapshot")]
        self.assertTrue(snapshots, "a clean stop left no snapshot")
        self.save()
        for how in self.damages(snapshots):
            with self.subTest(how):
                self.start_again(topic)
                self.assertEqual((0, 99), send(99))
                self.assertEqual((0, 100), send(100))
                self.assertEqual(101, self.offset_of(topic, -1))

    def test_c74_a_damaged_epoch_file_is_rebuilt(self):
        topic = self.create()
        self.store(topic, raw.batch([b"a", b"b"]))
        self.broker.restart()
        self.reconnect()
        self.wait_served(topic)
        self.store(topic, raw.batch([b"c"]))
        epoch = self.leader_epoch(topic)
        batches = {batch.base_offset: batch.leader_epoch for batch in self.read_all(topic)}
        self.broker.stop()
        path = os.path.join(self.broker.partition_dir(topic), "leader-epoch-checkpoint")
        self.assertTrue(os.path.exists(path))
        self.save()
        for how in self.damages([path]):
            if fixture.is_kafka() and how != "intact":
                continue  # a bad file takes its whole directory offline
            with self.subTest(how):
                self.start_again(topic)
                self.assertEqual(batches, {batch.base_offset: batch.leader_epoch
                                           for batch in self.read_all(topic)})
                if batches[0] != epoch:
                    self.assertEqual((0, batches[0], 2), self.end_of_epoch(topic, batches[0]))
                now = self.leader_epoch(topic)
                self.assertEqual((0, now, 3), self.end_of_epoch(topic, now))
                self.assertEqual((0, -1, -1), self.end_of_epoch(topic, now + 1))

    def test_c76_trims_follow_the_rules_and_persist(self):
        topic = self.create()
        for start in range(0, 100, 10):
            self.store(topic, raw.batch([b"%d" % number for number in range(start, start + 10)]))
        for asked, answer in ((0, (0, 0)), (35, (0, 35)), (20, (0, 35)), (35, (0, 35)),
                              (150, (OUT_OF_RANGE, -1)), (-2, (OUT_OF_RANGE, -1))):
            with self.subTest(asked=asked):
                self.assertEqual(answer, self.delete_records(topic, asked))
        compact = self.create(configs={"cleanup.policy": "compact"})
        self.assertEqual(POLICY_VIOLATION, self.delete_records(compact, 0)[0])
        for how in self.restarts():
            with self.subTest(how):
                self.wait_served(topic)
                self.assertEqual(35, self.offset_of(topic, -2))
                self.assertEqual(30, self.fetch(topic, 35)["Records"][0].base_offset)
                self.assertEqual(OUT_OF_RANGE, self.fetch(topic, 30)["ErrorCode"])
        self.assertEqual((0, 100), self.delete_records(topic, -1))
        self.assertEqual(100, self.store(topic, raw.batch([b"next"])))
        for how in self.restarts():
            with self.subTest(how):
                self.wait_served(topic)
                self.assertEqual((100, 101), (self.offset_of(topic, -2), self.offset_of(topic, -1)))
                self.assertEqual([100], [batch.base_offset
                                         for batch in self.read_all(topic, start=100)])


if __name__ == "__main__":
    unittest.main()
