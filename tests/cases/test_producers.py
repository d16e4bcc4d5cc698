"""Idempotent producers: duplicates, gaps, the wrap of sequence numbers; what Produce refuses."""

import unittest

import case
import fixture
import raw

OUT_OF_ORDER, INVALID_EPOCH, INVALID_RECORD, CORRUPT, TOO_LARGE = 45, 47, 87, 2, 10


class ProducerCases(case.CaseTest):
    def send(self, topic, producer, sequence, count=1):
        """(error, base offset) of a batch."""
        answer = self.produce(topic, raw.batch([b"s%d" % sequence] * count,
                                               producer_id=producer[0], producer_epoch=producer[1],
                                               sequence=sequence))
        return answer["ErrorCode"], answer["BaseOffset"]

    def test_c49_duplicates_are_answered_and_gaps_refused(self):
        topic, producer = self.create(), self.producer_id()
        for sequence in range(7):
            self.assertEqual((0, sequence), self.send(topic, producer, sequence))
        for sequence in (6, 5, 4, 3, 2):
            self.assertEqual((0, sequence), self.send(topic, producer, sequence))
        self.assertEqual(OUT_OF_ORDER, self.send(topic, producer, 0)[0])
        self.assertEqual(OUT_OF_ORDER, self.send(topic, producer, 8)[0])
        self.assertEqual((0, 7), self.send(topic, producer, 7))
        self.broker.crash()
        self.reconnect()
        self.wait_served(topic)
        self.assertEqual((0, 7), self.send(topic, producer, 7))
        self.assertEqual((0, 8), self.send(topic, producer, 8))
        self.assertEqual(9, self.offset_of(topic, -1))
        self.assertEqual([b"s%d" % number for number in range(9)], self.values(topic))

    def test_c50_sequence_numbers_wrap(self):
        topic, producer = self.create(), self.producer_id()
        last = 2147483646
        self.assertEqual((0, 0), self.send(topic, producer, last, 3))
        self.assertEqual((0, 3), self.send(topic, producer, 1, 2))
        self.assertEqual((0, 0), self.send(topic, producer, last, 3))
        self.assertEqual((0, 3), self.send(topic, producer, 1, 2))
        self.assertEqual(OUT_OF_ORDER, self.send(topic, producer, 0)[0])
        self.assertEqual(5, self.offset_of(topic, -1))

    def test_a_new_epoch_starts_at_0_and_fences_the_old_one(self):
        topic, (producer, epoch) = self.create(), self.producer_id()
        self.assertEqual((0, 0), self.send(topic, (producer, epoch), 0))
        self.assertEqual(OUT_OF_ORDER, self.send(topic, (producer, epoch + 1), 1)[0])
        self.assertEqual((0, 1), self.send(topic, (producer, epoch + 1), 0))
        self.assertEqual(INVALID_EPOCH, self.send(topic, (producer, epoch), 1)[0])

    def test_producer_ids_are_never_given_twice(self):
        seen = set()
        for _ in self.restarts():
            for _ in range(3):
                producer, epoch = self.producer_id()
                self.assertEqual(0, epoch)
                self.assertNotIn(producer, seen)
                seen.add(producer)

    def test_produce_refuses_broken_batches(self):
        topic = self.create(configs={"max.message.bytes": "100000"})
        good = raw.batch([b"x"])
        flipped = bytearray(good)
        flipped[-1] ^= 1
        cases = {
            "wrong CRC": (CORRUPT, bytes(flipped)),
            "two batches": (INVALID_RECORD, good + good),
            "a cut batch": (INVALID_RECORD, good[:-3]),
            "base offset not 0": (INVALID_RECORD, raw.batch([b"x"], base_offset=5)),
            "wrong count": (INVALID_RECORD, raw.batch([b"x", b"y"], count=3)),
            "control": (INVALID_RECORD, raw.batch([b"x"], control=True)),
            "magic 1": (INVALID_RECORD, raw.message_set_v1(b"x")),
            "no records": (INVALID_RECORD, b""),
            "too large": (TOO_LARGE, raw.batch([bytes(100001)])),
        }
        for name, (error, data) in cases.items():
            with self.subTest(name):
                self.assertEqual(error, self.produce(topic, data)["ErrorCode"])
        self.assertEqual(0, self.offset_of(topic, -1))
        self.assertEqual(0, self.store(topic, good))

    def test_c62_a_record_without_key_is_refused_on_a_compacted_topic(self):
        for policy in ("compact", "compact,delete"):
            topic = self.create(configs={"cleanup.policy": policy})
            data = raw.batch([raw.Record(b"v", key) for key in (b"a", None, b"c")])
            answer = self.produce(topic, data)
            self.assertEqual(INVALID_RECORD, answer["ErrorCode"])
            self.assertEqual([1], [item["BatchIndex"] for item in answer["RecordErrors"]])
            self.assertEqual(INVALID_RECORD, self.produce(topic, data, version=3)["ErrorCode"])
            self.assertEqual(0, self.offset_of(topic, -1))


if __name__ == "__main__":
    unittest.main()
