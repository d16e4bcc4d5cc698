"""Area D: offsets by time, the highest time, leader epochs."""

import os
import unittest

import case
import fixture
import raw

FOREVER = {"retention.ms": "-1"}  # times of 1970 must survive
NONE_FOUND = (-1, -1)


class OffsetCases(case.CaseTest):
    def trimmed_topic(self, batch_size):
        topic = self.create(configs=FOREVER)
        times = list(range(1000, 1010))
        for at in range(0, 10, batch_size):
            self.store(topic, raw.batch([(stamp, b"v") for stamp in times[at:at + batch_size]]))
        return topic

    def test_c31_time_queries_never_go_below_the_trimmed_start(self):
        topics = [self.trimmed_topic(10), self.trimmed_topic(1)]
        for topic in topics:
            self.assertEqual((0, 5), self.delete_records(topic, 5))
        for how in self.restarts():
            for topic in topics:
                with self.subTest(how, topic=topic):
                    self.wait_served(topic)
                    for asked, offset in ((1000, 5), (1004, 5), (1005, 5), (1009, 9)):
                        self.assertEqual((offset, 1000 + offset),
                                         self.offset_and_time(topic, asked))
                    self.assertEqual(NONE_FOUND, self.offset_and_time(topic, 1010))
        for topic in topics:
            self.assertEqual((0, 10), self.delete_records(topic, 10))
        for how in self.restarts():
            for topic in topics:
                with self.subTest(how, topic=topic):
                    self.wait_served(topic)
                    self.assertEqual(NONE_FOUND, self.offset_and_time(topic, 1000))
                    self.assertEqual((10, -1), self.offset_and_time(topic, -1))
                    self.assertEqual((10, -1), self.offset_and_time(topic, -2))

    def test_c32_the_highest_time_is_found_inside_compressed_batches(self):
        topics = []
        for codec in raw.CODECS.values():
            topic = self.create(configs=FOREVER)
            self.store(topic, raw.batch([(5, b"a"), (9, b"b"), (7, b"c")], codec))
            self.assertEqual((1, 9), self.offset_and_time(topic, -3))
            self.store(topic, raw.batch([(9, b"d"), (3, b"e")], codec))
            topics.append(topic)
        empty = self.create()
        for how in self.restarts():
            for topic in topics:
                with self.subTest(how, topic=topic):
                    self.wait_served(topic)
                    self.assertEqual((1, 9), self.offset_and_time(topic, -3))
            self.wait_served(empty)
            self.assertEqual(NONE_FOUND, self.offset_and_time(empty, -3))
        if fixture.is_kafka():
            return  # after a clean stop it trusts its indexes and answers "none" without one
        self.broker.stop()
        for topic in topics:
            os.unlink(os.path.join(self.broker.partition_dir(topic), "0" * 20 + ".timeindex"))
        self.broker.start()
        self.reconnect()
        for topic in topics:
            with self.subTest("time index removed", topic=topic):
                self.wait_served(topic)
                self.assertEqual((1, 9), self.offset_and_time(topic, -3))

    def test_c32_log_append_time_gives_the_brokers_time(self):
        topic = self.create(configs={"message.timestamp.type": "LogAppendTime"})
        answer = self.produce(topic, raw.batch([(5, b"a"), (9, b"b")]))
        self.assertEqual(0, answer["ErrorCode"])
        stamp = answer["LogAppendTimeMs"]
        self.assertGreater(stamp, 1600000000000)
        found = self.fetch(topic, 0)["Records"][0]
        self.assertEqual((stamp, 8), (found.max_timestamp, found.attributes & 8))
        self.assertTrue(found.is_sound())
        self.assertEqual(stamp, self.list_offset(topic, -3)["Timestamp"])
        self.assertEqual((0, stamp), self.offset_and_time(topic, stamp))

    def test_c34_times_out_of_order(self):
        topic = self.create(configs=FOREVER)
        self.store(topic, raw.batch([(2000, b"a"), (1000, b"b"), (1500, b"c")]))
        self.store(topic, raw.batch([(500, b"d")]))
        for how in self.restarts():
            with self.subTest(how):
                self.wait_served(topic)
                for asked in (400, 600, 1200, 1800, 2000):
                    self.assertEqual((0, 2000), self.offset_and_time(topic, asked))
                self.assertEqual(NONE_FOUND, self.offset_and_time(topic, 2001))

    def test_c34_large_deltas_and_records_without_a_time(self):
        topic = self.create(configs=FOREVER)
        middle = 1 << 33
        times = [middle, middle + (1 << 31), middle - (1 << 31), middle - (1 << 31) - 1]
        self.store(topic, raw.batch([(stamp, b"v") for stamp in times]))
        self.assertEqual((1, times[1]), self.offset_and_time(topic, middle + 1))
        self.assertEqual((1, times[1]), self.offset_and_time(topic, -3))
        timeless = self.create(configs=FOREVER)
        self.store(timeless, raw.batch([(-1, b"none")]))
        self.assertEqual(-1, self.fetch(timeless, 0)["Records"][0].max_timestamp)
        self.assertEqual(NONE_FOUND, self.offset_and_time(timeless, 0))

    def test_c35_ends_of_leader_epochs(self):
        topic = self.create()
        starts = []  # (epoch, first offset written in it)
        for how in self.restarts():
            self.wait_served(topic)
            for _ in range(3):
                self.store(topic, raw.batch([how.encode()]))
            starts.append((self.leader_epoch(topic), len(starts) * 3))
        self.check_epochs(topic, starts)
        self.assertEqual((0, 7), self.delete_records(topic, 7))
        now = self.leader_epoch(topic)
        self.assertEqual((0, now, 9), self.end_of_epoch(topic, now))

    def check_epochs(self, topic, starts):
        now = self.leader_epoch(topic)
        for batch in self.read_all(topic):
            self.assertEqual(starts[batch.base_offset // 3][0], batch.leader_epoch)
        self.assertEqual((0, now, 9), self.end_of_epoch(topic, now))
        self.assertEqual((0, -1, -1), self.end_of_epoch(topic, now + 1))
        for (epoch, _), (following, start) in zip(starts, starts[1:]):
            if following != epoch:  # a restart need not raise the epoch
                self.assertEqual((0, epoch, start), self.end_of_epoch(topic, epoch))
        self.assertEqual((0, now, 9), self.end_of_epoch(topic, now, current=now))
        self.assertEqual(75, self.end_of_epoch(topic, now, current=now + 1)[0])
        if now > 0:
            self.assertEqual(74, self.end_of_epoch(topic, now, current=now - 1)[0])
        self.assertEqual(75, self.list_offset(topic, -1, CurrentLeaderEpoch=now + 1)["ErrorCode"])

    def test_special_times_by_version(self):
        topic = self.create()
        for version, stamp, error in ((6, -3, 35), (7, -3, 0), (7, -4, 35), (8, -4, 0),
                                      (8, -5, 35), (10, -6, 35), (11, -7, 35)):
            with self.subTest(version=version, time=stamp):
                self.assertEqual(error, self.list_offset(topic, stamp, version=version)["ErrorCode"])


if __name__ == "__main__":
    unittest.main()
