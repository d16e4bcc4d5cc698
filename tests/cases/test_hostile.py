"""Hostile clients and poor conditions against a whole broker: half frames, large well-formed
requests, few descriptors, a full disk, a start that cannot be."""

import os
import signal
import socket
import struct
import subprocess
import time
import unittest

import case
import fixture
import raw

STORAGE, INVALID_REQUEST = 56, 42


@unittest.skipIf(fixture.is_kafka(), "limits of our own")
class HalfFrames(case.CaseTest):
    OVERRIDES = {"queued.max.request.bytes": str(8 << 20), "socket.request.max.bytes": str(4 << 20)}

    def test_half_frames_lock_nobody_out(self):
        topic = self.create()
        silent = []
        for _ in range(200):
            link = socket.create_connection(("127.0.0.1", self.broker.port))
            self.addCleanup(link.close)
            link.sendall(struct.pack(">ihhi", 4 << 20, 0, 9, 1))
            silent.append(link)
        began = time.monotonic()
        with self.connect() as link:
            link.call("Metadata", 12, {"Topics": None, "AllowAutoTopicCreation": False})
        self.store(topic, raw.batch([b"small"]), link=self.connect())
        self.assert_at_once(began, 2)
        self.assertLess(self.broker.rss_kib(), 300 << 10)


@unittest.skipIf(fixture.is_kafka(), "limits of our own")
class LargeRequests(case.CaseTest):
    OVERRIDES = {"auto.create.topics.enable": "false"}

    def test_names_that_stand_often_cost_no_square(self):
        names = [f"n{number}" for number in range(10000)] * 2
        began = time.monotonic()
        answer = self.create_raw([{"Name": name, "NumPartitions": 1, "ReplicationFactor": 1}
                                  for name in names])
        self.assertEqual({INVALID_REQUEST}, {topic["ErrorCode"] for topic in answer})
        self.assertEqual(10000, len(answer))
        self.assertEqual(10000, len(self.metadata(names)["Topics"]))
        self.assert_at_once(began, 15)  # most of it this test's own encoding

    def test_a_session_of_many_partitions_goes_on_with_small_requests(self):
        topic = self.create(1500)
        body = self.fetch_body(topic, {number: 0 for number in range(1500)})
        first = self.link.call("Fetch", 12, {**body, "SessionId": 0, "SessionEpoch": 0})
        self.assertEqual(1500, len(first["Responses"][0]["Partitions"]))
        self.assertNotEqual(0, first["SessionId"])
        self.store(topic, raw.batch([b"x"]), partition=700, link=self.connect())
        second = self.link.call("Fetch", 12, {**body, "Topics": [], "MaxWaitMs": 5000,
                                              "SessionId": first["SessionId"], "SessionEpoch": 1})
        self.assertEqual([700], [part["PartitionIndex"]
                                 for part in second["Responses"][0]["Partitions"]])

    def test_many_coordinator_keys_are_answered(self):
        answer = self.link.call("FindCoordinator", 4, {"KeyType": 0, "CoordinatorKeys": [
            f"g{number}" for number in range(5000)]})
        self.assertEqual(5000, len(answer["Coordinators"]))


@unittest.skipIf(fixture.is_kafka(), "limits of our own")
class FewDescriptors(case.OwnBrokerTest):
    def test_out_of_descriptors_is_a_pause(self):
        self.own(fixture.Barnabas(wrap=["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]))
        topic = self.create()
        self.store(topic, raw.batch([b"opens its files"]))
        links = []
        for _ in range(100):
            link = socket.socket()
            self.addCleanup(link.close)
            link.setblocking(False)
            link.connect_ex(("127.0.0.1", self.broker.port))
            links.append(link)
        fixture.wait_until(lambda: fixture.log_lines(self.broker, "out of file descriptors"))
        self.store(topic, raw.batch([b"open links go on"]))
        many = {"Name": fixture.unique(), "NumPartitions": 40, "ReplicationFactor": 1}
        self.assertEqual(STORAGE, self.create_raw([many])[0]["ErrorCode"])
        for link in links:
            link.close()
        with self.connect() as link:
            link.call("Metadata", 12, {"Topics": [], "AllowAutoTopicCreation": False})
        fixture.wait_until(lambda: self.create_raw([many])[0]["ErrorCode"] == 0)
        self.assertLess(len(fixture.log_lines(self.broker, "out of file descriptors")), 10)


@unittest.skipIf(fixture.is_kafka(), "limits of our own")
class Signals(case.OwnBrokerTest):
    def test_each_signal_of_a_stop_stops_in_order(self):
        self.own(fixture.Barnabas())
        topic = self.create()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            self.store(topic, raw.batch([b"kept"]))
            self.broker.process.send_signal(number)
            self.broker.process.send_signal(number)  # an impatient operator
            self.assertEqual(0, self.broker.process.wait(fixture.STOP_LIMIT_S))
            self.broker.start()
            self.reconnect()
            self.wait_served(topic)
        self.assertEqual([b"kept"] * 3, self.values(topic))
        self.assertEqual([], fixture.log_lines(self.broker, "recovered:"))


@unittest.skipIf(fixture.is_kafka(), "limits of our own")
class FullDisk(case.OwnBrokerTest):
    def test_a_full_disk_refuses_goes_on_reading_and_recovers(self):
        broker = fixture.Barnabas({"log.segment.bytes": "1048576",
                                   "log.segment.delete.delay.ms": "0"})
        os.makedirs(broker.logs)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "full", broker.logs],
                                 stderr=subprocess.DEVNULL, check=False)
        if mounted.returncode:
            broker.remove()
            self.broker = None
            self.skipTest("a file system cannot be mounted here")
        self.addCleanup(broker.remove)
        self.addCleanup(subprocess.run, ["umount", broker.logs], check=True)
        self.own(broker)
        topic = self.create()
        filler = os.path.join(broker.logs, "filler")
        stored, error = self.fill(topic, filler)
        self.assertEqual(STORAGE, error)
        self.assertEqual(stored, self.values(topic))
        broker.crash()  # with no page left
        self.reconnect()
        self.wait_served(topic)
        self.assertEqual(stored, self.values(topic))
        os.unlink(filler)
        self.assertEqual((0, 20), self.delete_records(topic, 20))
        fixture.wait_until(lambda: self.produce(topic, raw.batch([b"fits"]))["ErrorCode"] == 0)
        self.assertEqual(0, broker.stop())
        broker.start()

    def fill(self, topic, filler):
        """Until a produce fails, then the last page too; what was acknowledged, and the error."""
        stored = []
        with open(filler, "wb", 0) as target:
            while True:
                value = os.urandom(100000)
                answer = self.produce(topic, raw.batch([value]))
                if answer["ErrorCode"]:
                    break
                stored.append(value)
            try:
                while target.write(bytes(4096)):
                    pass
            except OSError:
                pass
        return stored, answer["ErrorCode"]


@unittest.skipIf(fixture.is_kafka(), "messages of our own")
class WrongStarts(unittest.TestCase):
    """What a start refuses: a sentence that says where and what was expected, never a crash."""

    def refused(self, *overrides, file=None, code=2):
        program = (os.environ.get("BARNABAS_BIN")
                   or os.path.join(fixture.ROOT, "build/release/barnabas"))
        folder = fixture.scratch("start-")
        self.addCleanup(subprocess.run, ["rm", "-rf", folder], check=True)
        command = [program, "serve"]
        if file is not None:
            path = os.path.join(folder, "server.properties")
            with open(path, "wb") as target:
                target.write(file)
            command.append(path)
        settings = [f"log.dirs={folder}/data", "listeners=PLAINTEXT://127.0.0.1:0", *overrides]
        for setting in settings:
            command += ["--override", setting.replace("DIR", folder)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60, check=False)
        text = done.stdout.decode(errors="replace")
        self.assertEqual(code, done.returncode, text)
        return text

    def test_each_says_where_and_what(self):
        for said, overrides, fields in (
                ("--override: Invalid value x", ["num.partitions=x"], {}),
                ("at most 65536 bytes", ["broker.rack=" + "x" * 70000], {}),
                ("expected the name of one of listeners", ["control.plane.listener.name=NOPE"], {}),
                ("not a directory", ["log.dirs=/dev/null"], {"code": 1}),
                ("metadata log in /dev/null: not a directory", ["metadata.log.dir=/dev/null"],
                 {"code": 1}),
                ("line 3: Invalid value", [], {"file": b"# x\n\nnum.partitions=many\n"}),
                ("found a zero byte", [], {"file": b"node.id=1\0\n"}),
                ("larger than 1 MiB", [], {"file": b"#" * (2 << 20), "code": 1}),
                ("EXTRA", ["listeners=EXTRA://127.0.0.1:0"], {}),
                ("port 0 to 65535", ["listeners=PLAINTEXT://127.0.0.1: 5"], {})):
            with self.subTest(said):
                self.assertIn(said, self.refused(*overrides, **fields))

    def test_missing_parents_are_made_and_unused_keys_are_named(self):
        broker = fixture.Barnabas({"controller.quorum.voters": "1@localhost:9093",
                                   "socket.send.buffer.bytes": "65536",
                                   "socket.receive.buffer.bytes": "65536",
                                   "socket.listen.backlog.size": "5"})
        self.addCleanup(broker.remove)
        broker.overrides["log.dirs"] = os.path.join(broker.directory, "a", "b", "c")
        broker.start()
        self.assertIn("controller.quorum.voters is accepted and has no effect", broker.output())
        self.assertTrue(os.path.isdir(broker.overrides["log.dirs"]))
        self.assertEqual(0, broker.stop())


if __name__ == "__main__":
    unittest.main()
