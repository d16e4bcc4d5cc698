"""Area B: fetches inside batches, limits, sessions, the log's two ends, waiting."""

import os
import threading
import time
import unittest

import case
import fixture
import raw

SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH = 70, 71
RACE_S = 4


def parts_of(answer):
    """{partition: its part} of an answer about one topic."""
    return {part["PartitionIndex"]: part
            for topic in answer["Responses"] for part in topic["Partitions"]}


class FetchCases(case.CaseTest):
    def test_c16_a_fetch_inside_a_batch_returns_it_whole(self):
        for name, codec in raw.CODECS.items():
            with self.subTest(name):
                topic = self.create()
                self.store(topic, raw.batch([b"0", b"1"], codec))
                self.store(topic, raw.batch([b"2", b"3"], codec))
                for offset, base in ((0, 0), (1, 0), (2, 2), (3, 2)):
                    found = self.fetch(topic, offset)["Records"]
                    self.assertEqual(base, found[0].base_offset)
                    self.assertEqual(codec, found[0].codec)
                    self.assertTrue(found[0].is_sound())
                    self.assertEqual(3, found[-1].last_offset)

    def test_c16_every_offset_of_a_large_batch_is_reachable(self):
        topic = self.create()
        self.store(topic, raw.batch([b"%d" % number for number in range(500)]))
        for offset in range(500):
            found = self.fetch(topic, offset)["Records"]
            self.assertEqual([0], [batch.base_offset for batch in found])
            self.assertEqual(500, found[0].count)

    def limits_topic(self):
        topic = self.create(2)
        big = raw.batch([os.urandom(900 * 1024)])
        for partition in (0, 1):
            self.store(topic, big, partition=partition)
            for _ in range(10):
                self.store(topic, raw.batch([bytes(1024 - 70)]), partition=partition)
        return topic, len(big)

    def limited(self, topic, offsets, partition_max, total, version):
        answer = self.link.call("Fetch", version, self.fetch_body(
            topic, offsets, max_bytes=total, partition_max_bytes=partition_max))
        return {index: part["Records"] for index, part in parts_of(answer).items()}

    def test_c17_only_the_first_partition_may_exceed_its_limit(self):
        topic, big = self.limits_topic()
        for version in (4, 12):
            for order in ((0, 1), (1, 0)):
                with self.subTest(version=version, order=order):
                    start = dict.fromkeys(order, 0)
                    for limit in (1, 2000):
                        found = self.limited(topic, start, limit, limit, version)
                        self.assertEqual((big, 0), (len(found[order[0]]), len(found[order[1]])))
                    found = self.limited(topic, dict.fromkeys(order, 3), 2500, 1 << 20, version)
                    for part in found.values():
                        self.assertLessEqual(len(part), 2500)
                        whole = raw.batches(part)
                        self.assertEqual([3, 4], [batch.base_offset for batch in whole])

    # ---- sessions

    def session(self, topic, offsets, link=None):
        """Opens a session; returns its id and the first answer."""
        answer = (link or self.link).call("Fetch", 12, self.fetch_body(
            topic, offsets, min_bytes=0, SessionId=0, SessionEpoch=0))
        self.assertEqual(0, answer["ErrorCode"])
        return answer["SessionId"], answer

    def next_fetch(self, session, epoch, wait_ms, link=None, **fields):
        return (link or self.link).call("Fetch", 12, {
            "MaxWaitMs": wait_ms, "MinBytes": 1, "MaxBytes": 1 << 20, "SessionId": session,
            "SessionEpoch": epoch, "Topics": [], **fields})

    def store_later(self, topic, partition, delay_s):
        link = self.connect()
        body = self.produce_body(topic, raw.batch([b"late"]), partition)
        timer = threading.Timer(delay_s, lambda: link.call("Produce", 9, body))
        timer.start()
        self.addCleanup(timer.join)

    def test_c19_an_empty_incremental_fetch_waits_for_its_session(self):
        topic = self.create(3)
        session, first = self.session(topic, {0: 0, 1: 0, 2: 0})
        self.assertNotEqual(0, session)
        self.assertEqual({0, 1, 2}, set(parts_of(first)))
        began = time.monotonic()
        answer = self.next_fetch(session, 1, 1000)
        self.assertGreaterEqual(time.monotonic() - began, 0.99)
        self.assertEqual((0, session, []), (answer["ErrorCode"], answer["SessionId"],
                                            answer["Responses"]))
        self.store_later(topic, 1, 0.3)
        began = time.monotonic()
        answer = self.next_fetch(session, 2, 10000)
        self.assertTrue(0.29 <= time.monotonic() - began < 2)
        self.assertEqual({1}, set(parts_of(answer)))
        self.store_later(topic, 2, 0.1)
        answer = self.next_fetch(
            session, 3, 600, ForgottenTopicsData=[{"Topic": topic, "Partitions": [2]}],
            Topics=[{"Topic": topic, "Partitions": [{"Partition": 1, "FetchOffset": 1,
                                                     "PartitionMaxBytes": 1000}]}])
        self.assertNotIn(2, parts_of(answer))

    def test_c20_session_errors(self):
        topic = self.create()
        self.assertEqual(SESSION_ID_NOT_FOUND, self.next_fetch(12345, 1, 0)["ErrorCode"])
        session, _ = self.session(topic, {0: 0})
        self.assertEqual(INVALID_SESSION_EPOCH, self.next_fetch(session, 6, 0)["ErrorCode"])
        self.assertEqual(0, self.next_fetch(session, 1, 0)["ErrorCode"])
        closed = self.next_fetch(session, -1, 0)
        self.assertEqual((0, 0), (closed["ErrorCode"], closed["SessionId"]))
        self.assertEqual(SESSION_ID_NOT_FOUND, self.next_fetch(session, 1, 0)["ErrorCode"])

    # ---- the two ends

    def test_c22_at_the_end_beyond_it_and_in_a_log_trimmed_to_nothing(self):
        topic = self.create()
        self.store(topic, raw.batch([b"%d" % number for number in range(10)]))
        at_end = self.fetch(topic, 10)
        self.assertEqual((0, [], 10), (at_end["ErrorCode"], at_end["Records"],
                                       at_end["HighWatermark"]))
        self.assertEqual(1, self.fetch(topic, 11)["ErrorCode"])
        self.assertEqual(1, self.fetch(topic, -1)["ErrorCode"])
        self.assertEqual((0, 10), self.delete_records(topic, 10))
        for how in self.restarts():
            with self.subTest(how):
                self.wait_served(topic)
                at_end = self.fetch(topic, 10)
                self.assertEqual((0, []), (at_end["ErrorCode"], at_end["Records"]))
                self.assertEqual(1, self.fetch(topic, 9)["ErrorCode"])
                self.assertEqual(10, self.offset_of(topic, -1))
                self.assertEqual(10, self.offset_of(topic, -2))
        self.assertEqual(10, self.store(topic, raw.batch([b"next"])))

    def test_c22_a_fetch_at_the_last_known_end_is_never_out_of_range(self):
        topic = self.create()
        stop, faults, rounds = time.monotonic() + RACE_S, [], [0] * 8
        data = raw.batch([b"race"])

        def writer(number):
            link = self.connect()
            while time.monotonic() < stop:
                answer = self.produce(topic, data, acks=1 if number % 2 else -1, link=link)
                if answer["ErrorCode"]:
                    faults.append(answer)
                rounds[number] += 1

        def reader(number):
            link, end = self.connect(), 0
            while time.monotonic() < stop:
                part = self.fetch(topic, end, link=link, max_wait_ms=50)
                if part["ErrorCode"] or part["HighWatermark"] < end:
                    faults.append(part)
                    return
                end = part["HighWatermark"]
                rounds[number] += 1

        run_all([threading.Thread(target=writer, args=(number,)) for number in range(4)]
                + [threading.Thread(target=reader, args=(number,)) for number in range(4, 8)])
        self.assertEqual([], faults)
        self.assertGreater(min(rounds), 0)

    def test_c23_a_waiting_fetch_does_not_sleep_while_data_is_there(self):
        topic = self.create()
        rounds, wait_ms = 400, 10000
        gate = threading.Barrier(2)
        data = raw.batch([b"x"])

        def writer():
            link = self.connect()
            for _ in range(rounds):
                gate.wait(30)
                self.produce(topic, data, link=link)

        writers = [threading.Thread(target=writer) for _ in range(2)]
        for thread in writers:
            thread.start()
        link, at, worst = self.connect(), 0, 0.0
        while at < 2 * rounds:
            began = time.monotonic()
            part = self.fetch(topic, at, link=link, max_wait_ms=wait_ms)
            worst = max(worst, time.monotonic() - began)
            self.assertTrue(part["Records"], "an empty answer although records came")
            at = part["Records"][-1].last_offset + 1
        for thread in writers:
            thread.join(30)
        self.assertLess(worst, 2, "a fetch slept while records were there")


def run_all(threads):
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)


class FetchSessionFloodCases(case.CaseTest):
    def test_c20_a_flood_of_new_sessions_does_not_evict_one_in_use(self):
        topic = self.create()
        body = self.fetch_body(topic, {0: 0}, min_bytes=0, SessionId=0, SessionEpoch=0)
        first = self.link.call("Fetch", 12, body)["SessionId"]
        self.assertNotEqual(0, first)
        flood, ids, epoch = self.connect(), [], 0
        for number in range(1500):
            ids.append(flood.call("Fetch", 12, body)["SessionId"])
            if number % 100 == 0:
                epoch += 1
                answer = self.link.call("Fetch", 12, {
                    "MaxWaitMs": 0, "MinBytes": 0, "MaxBytes": 1000, "SessionId": first,
                    "SessionEpoch": epoch, "Topics": []})
                self.assertEqual((0, first), (answer["ErrorCode"], answer["SessionId"]))
        self.assertEqual(0, ids[-1], "the cache has no bound")
        kept = [number for number in ids if number]
        self.assertEqual(len(kept), len(set(kept)))


@unittest.skipIf(fixture.is_kafka(), "queued.max.request.bytes counts frames only")
class FetchMemory(case.OwnBrokerTest):
    def test_a_session_that_finds_no_room_is_throttled_and_goes_on(self):
        self.own(fixture.Barnabas({"queued.max.request.bytes": str(1 << 20)}))
        topic = self.create(1000)
        other = self.connect()
        everything = self.fetch_body(topic, dict.fromkeys(range(1000), 0), min_bytes=0,
                                     SessionId=0, SessionEpoch=0)
        parked, session = (link.call("Fetch", 12, everything)["SessionId"]
                           for link in (self.link, other))
        self.assertNotIn(0, (parked, session))
        rest = {"MinBytes": 1, "MaxBytes": 1 << 20, "Topics": []}
        waiting = {**rest, "MaxWaitMs": 20000, "SessionId": parked, "SessionEpoch": 1}
        self.link.send("Fetch", 12, waiting)
        epoch = 0

        def step():
            nonlocal epoch
            epoch += 1
            answer = other.call("Fetch", 12, {**rest, "MaxWaitMs": 0, "SessionId": session,
                                              "SessionEpoch": epoch})
            self.assertEqual((0, session), (answer["ErrorCode"], answer["SessionId"]))
            return answer

        began = time.monotonic()
        fixture.wait_until(lambda: step()["ThrottleTimeMs"] > 0)  # the other one is parked
        self.assertEqual([], step()["Responses"])
        self.assertGreaterEqual(time.monotonic() - began, 0.1)
        full = other.call("Fetch", 12, everything)
        self.assertEqual((0, 0, []), (full["ErrorCode"], full["SessionId"], full["Responses"]))
        self.assertGreater(full["ThrottleTimeMs"], 0)
        self.store(topic, raw.batch([b"x"]), partition=700, link=self.connect())
        self.assertEqual({700}, set(parts_of(self.link.receive())))
        fixture.wait_until(lambda: set(parts_of(step())) == {700})


if __name__ == "__main__":
    unittest.main()
