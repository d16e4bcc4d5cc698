"""Area C, what one broker shows: waiting operations end when they should and leave nothing."""

import threading
import time
import unittest

import case
import fixture
import raw

WORK_S = 4


class WaitingCases(case.CaseTest):
    def poll(self, link, topic, partitions, until, wait_ms):
        """Fetches all partitions at their ends, again and again."""
        ends = dict.fromkeys(range(partitions), 0)
        while time.monotonic() < until:
            answer = link.call("Fetch", 12, self.fetch_body(topic, ends, max_wait_ms=wait_ms))
            for part in answer["Responses"][0]["Partitions"]:
                self.assertEqual(0, part["ErrorCode"])
                ends[part["PartitionIndex"]] = part["HighWatermark"]

    def test_c25_completed_fetches_do_not_stay_with_quiet_partitions(self):
        partitions = 100
        topic = self.create(partitions)
        links = [self.connect() for _ in range(10)]
        sizes = []
        for _ in range(3):  # the first round fills pools and caches
            until = time.monotonic() + WORK_S / 2
            readers = [threading.Thread(target=self.poll,
                                        args=(link, topic, partitions, until, 500))
                       for link in links]
            for thread in readers:
                thread.start()
            while time.monotonic() < until:
                self.store(topic, raw.batch([b"busy"]), partition=7)
                time.sleep(0.002)
            for thread in readers:
                thread.join(60)
            sizes.append(self.broker.rss_kib())
        if self.is_barnabas():
            self.assertLess(sizes[2] - sizes[1], 2048, f"KiB more after each round: {sizes}")

    def test_c25_fetches_that_wait_on_deleted_topics_end_at_once(self):
        for version, wanted in ((12, 3), (13, 3)):
            topics = [self.create() for _ in range(10)]
            ids = {topic: self.topic_id(topic) for topic in topics}
            links = []
            for topic in topics:
                link = self.connect(30)
                body = self.fetch_body(topic, {0: 0}, max_wait_ms=20000)
                if version >= 13:
                    body["Topics"][0]["TopicId"] = ids[topic]
                link.send("Fetch", version, body)
                links.append(link)
            time.sleep(0.3)
            began = time.monotonic()
            for topic in topics:
                self.delete_topic(topic)
            for link in links:
                part = link.receive()["Responses"][0]["Partitions"][0]
                self.assertEqual((wanted, b""), (part["ErrorCode"], part["Records"]))
            self.assertLess(time.monotonic() - began, 10, "they waited their time out")

    def test_c26_no_acknowledgement_is_late_under_contention(self):
        topic = self.create()
        until, slowest, faults = time.monotonic() + WORK_S, [], []
        data = raw.batch([b"contended"])

        def writer():
            link, worst = self.connect(), 0.0
            while time.monotonic() < until:
                began = time.monotonic()
                answer = self.produce(topic, data, link=link)
                worst = max(worst, time.monotonic() - began)
                if answer["ErrorCode"]:
                    faults.append(answer)
            slowest.append(worst)

        def reader():
            link, at = self.connect(), 0
            while time.monotonic() < until:
                part = self.fetch(topic, at, link=link, max_wait_ms=500)
                if part["Records"]:
                    at = part["Records"][-1].last_offset + 1

        threads = ([threading.Thread(target=writer) for _ in range(24)]
                   + [threading.Thread(target=reader) for _ in range(4)])
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual([], faults)
        self.assertEqual(24, len(slowest))
        self.assertLess(max(slowest), 5, "seconds: it waited for something that was there")

    def test_unknown_names_wait_with_good_partitions_and_not_alone(self):
        topic = self.create()
        ask = {"Partitions": [{"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1000}]}
        for names, least, most in (([{"Topic": "absent", **ask}], 0, 0.9),
                                   ([{"Topic": "absent", **ask}, {"Topic": topic, **ask}], 1, 5)):
            began = time.monotonic()
            answer = self.link.call("Fetch", 12, {"MaxWaitMs": 1000, "MinBytes": 1,
                                                  "MaxBytes": 10000, "Topics": names})
            took = time.monotonic() - began
            self.assertTrue(least <= took + 0.01 and took < most, took)
            self.assertIn(3, [part["ErrorCode"] for item in answer["Responses"]
                              for part in item["Partitions"]])


class IdleCases(case.CaseTest):
    IDLE_S = 4
    OVERRIDES = {"connections.max.idle.ms": str(IDLE_S * 1000)}

    def test_c97_idle_connections_are_closed_and_waiting_ones_answered(self):
        count = 10 if fixture.is_kafka() else 100  # it closes one idle connection a poll
        topic = self.create()
        before = self.broker.fd_count()
        began = time.monotonic()
        waits = [self.connect(60) for _ in range(10)]
        for link in waits:
            link.send("Fetch", 12, self.fetch_body(topic, {0: 0}, max_wait_ms=2000))
        silent = [self.connect(60) for _ in range(count)]
        spoke = []
        for _ in range(count):
            spoke.append(self.connect(60))
            spoke[-1].call("Metadata", 9, {"Topics": []})
        for link in waits:
            self.assertEqual(0, link.receive()["Responses"][0]["Partitions"][0]["ErrorCode"])
        for link in silent + spoke + waits:
            self.assertTrue(link.is_closed(60))
            link.close()
        took = time.monotonic() - began
        self.assertGreater(took, self.IDLE_S - 0.1)
        self.assertLess(took, 3 * self.IDLE_S, "idle connections stayed")
        fixture.wait_until(lambda: self.broker.fd_count() <= before + 2, 20,
                           what="descriptors are back")


if __name__ == "__main__":
    unittest.main()
