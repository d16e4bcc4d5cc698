"""What the broker asks of the kernel, seen by strace: syncs before answers, calls a produce, sendfile.

Only Barnabas is traced: these are promises of its design (DESIGN: durability, run to completion)."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import fixture

sys.path.insert(0, os.path.join(fixture.ROOT, "tests", "cases"))
import case  # noqa: E402
import raw  # noqa: E402

SENDS = ("sendmsg", "sendto", "write", "writev")
SYNCS = ("fdatasync", "fsync")
LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)")
FILE = re.compile(r"\d+<([^>]*)>")


class Call:
    def __init__(self, pid, name, text, start):
        self.pid, self.name, self.text, self.start, self.end = pid, name, text, start, None
        first = FILE.search(text)
        self.file = first.group(1) if first else ""

    def __repr__(self):
        return f"{self.pid} {self.text}"


def parse(path):
    """Calls in the order of their starts; start and end are line numbers of the trace."""
    calls, open_calls = [], {}
    with open(path, encoding="utf-8", errors="replace") as source:
        for number, line in enumerate(source):
            found = LINE.match(line)
            if not found:
                continue
            pid, text = found.group(1), found.group(3)
            resumed = RESUMED.match(text)
            if resumed:
                call = open_calls.pop(pid, None)
                if call is not None:
                    call.end, call.text = number, call.text + resumed.group(2)
            elif "(" in text:
                call = Call(pid, text.split("(")[0], text, number)
                calls.append(call)
                if text.rstrip().endswith("<unfinished ...>"):
                    open_calls[pid] = call
                else:
                    call.end = number
    return calls


@unittest.skipIf(fixture.is_kafka() or shutil.which("strace") is None, "needs Barnabas and strace")
class TraceCase(case.CaseTest):
    def setUp(self):
        super().setUp()
        self.trace_path = os.path.join(self.broker.directory, fixture.unique("trace"))
        self.tracer = None
        self.addCleanup(self.end_trace)

    def start_trace(self):
        self.tracer = subprocess.Popen(
            ["strace", "-f", "-ttt", "-y", "-s", "0", "-o", self.trace_path, "-p",
             str(self.broker.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)
        fixture.RUNNING.append(self.tracer)
        line = self.tracer.stderr.readline()
        if b"attached" not in line:
            self.skipTest("strace may not attach: " + line.decode(errors="replace"))
        time.sleep(0.3)  # until every thread is in the trace

    def end_trace(self):
        if self.tracer is not None and self.tracer.poll() is None:
            self.tracer.send_signal(signal.SIGINT)
            self.tracer.wait(20)
        if self.tracer is not None:
            self.tracer.stderr.close()

    def traced(self):
        time.sleep(0.3)
        self.end_trace()
        return parse(self.trace_path)

    @staticmethod
    def is_client(call):
        return "socket:" in call.file or "TCP:" in call.file

    def answers(self, calls):
        return [call for call in calls if call.name in SENDS and self.is_client(call)]

    @staticmethod
    def appends(calls, topic):
        return [call for call in calls if call.name in ("pwritev", "pwrite64", "pwritev2")
                and f"/{topic}-" in call.file and call.file.endswith(".log")]


class GroupTrace(TraceCase):
    OVERRIDES = {"log.flush.policy": "group"}

    def sync_between(self, calls, append, answer, path):
        """A finished sync of 'path' that began after the append and ended before the answer."""
        return any(call.end is not None and append.end < call.start and call.end < answer.start
                   and (call.name == "syncfs" or call.name in SYNCS and call.file == path)
                   for call in calls)

    def test_each_acknowledgement_follows_a_sync_that_covers_it(self):
        topic = self.create()
        self.start_trace()
        for number in range(10):
            self.store(topic, raw.batch([b"%d" % number]))
        calls = self.traced()
        appends, answers = self.appends(calls, topic), self.answers(calls)
        self.assertEqual(10, len(appends))
        for append in appends:
            answer = next(call for call in answers if call.start > append.start)
            self.assertTrue(self.sync_between(calls, append, answer, append.file),
                            f"answered before a sync: {append}")

    def test_the_first_acknowledgement_follows_a_sync_of_the_files_name(self):
        self.start_trace()
        topic = self.create()
        self.store(topic, raw.batch([b"first"]))
        calls = self.traced()
        append = self.appends(calls, topic)[0]
        answer = next(call for call in self.answers(calls) if call.start > append.start)
        folder = self.broker.partition_dir(topic)
        for path in (append.file, folder, self.broker.logs):
            made = next(call for call in calls if call.name in ("openat", "mkdir", "mkdirat")
                        and os.path.basename(folder) in call.text)
            since = append if path == append.file else made
            self.assertTrue(self.sync_between(calls, since, answer, path), f"{path} not synced")

    def test_a_rolled_segments_name_is_synced_before_its_first_acknowledgement(self):
        topic = self.create(configs={"segment.bytes": "1048576"})
        self.store(topic, raw.batch([os.urandom(900000)]))
        self.start_trace()
        for _ in range(3):
            self.store(topic, raw.batch([os.urandom(900000)]))
        calls = self.traced()
        appends, answers = self.appends(calls, topic), self.answers(calls)
        self.assertEqual([f"{offset:020}.log" for offset in (1, 2, 3)],
                         [os.path.basename(call.file) for call in appends])
        for append in appends:
            answer = next(call for call in answers if call.start > append.start)
            made = next(call for call in calls if call.name == "openat" and "O_CREAT" in call.text
                        and os.path.basename(append.file) in call.text)
            self.assertTrue(self.sync_between(calls, append, answer, append.file))
            self.assertTrue(self.sync_between(calls, made, answer, os.path.dirname(append.file)),
                            f"the name of {append.file} was not synced")

    def test_an_acknowledgement_of_many_partitions_follows_a_sync_of_each(self):
        for count in (3, 60):
            with self.subTest(partitions=count):
                topic = self.create(count)
                self.trace_path += str(count)
                self.start_trace()
                answer = self.link.call("Produce", 9, {
                    "Acks": -1, "TimeoutMs": 30000, "TopicData": [{"Name": topic, "PartitionData": [
                        {"Index": part, "Records": raw.batch([b"x"])} for part in range(count)]}]})
                self.assertEqual({0}, {part["ErrorCode"] for part
                                       in answer["Responses"][0]["PartitionResponses"]})
                calls = self.traced()
                appends = self.appends(calls, topic)
                self.assertEqual(count, len({append.file for append in appends}))
                sent = next(call for call in self.answers(calls)
                            if call.start > max(append.start for append in appends))
                for append in appends:
                    self.assertTrue(self.sync_between(calls, append, sent, append.file),
                                    f"answered before a sync: {append}")

    def test_records_are_readable_only_after_a_sync(self):
        topic = self.create()
        self.start_trace()
        waiter = self.connect()
        waiter.send("Fetch", 12, self.fetch_body(topic, {0: 0}, max_wait_ms=10000))
        time.sleep(0.3)
        self.assertEqual(0, self.produce(topic, raw.batch([b"x"]), acks=1)["ErrorCode"])
        part = waiter.receive()["Responses"][0]["Partitions"][0]
        self.assertEqual(1, part["HighWatermark"])
        calls = self.traced()
        append = self.appends(calls, topic)[0]
        answers = [call for call in self.answers(calls) if call.start > append.start]
        files = list(dict.fromkeys(call.file for call in answers))
        self.assertEqual(2, len(files))
        # acks=1 is answered at once, so the last of the two to be answered is the fetch.
        fetched = next(call for call in answers if call.file == files[1])
        self.assertTrue(self.sync_between(calls, append, fetched, append.file))


class OsTrace(TraceCase):
    OVERRIDES = {"log.flush.policy": "os"}

    def test_an_unpipelined_produce_is_one_receive_one_write_one_send(self):
        topic = self.create()
        data = raw.batch([b"x" * 100])
        for _ in range(20):
            self.store(topic, data, acks=1)
        self.start_trace()
        rounds = 20
        for _ in range(rounds):
            self.store(topic, data, acks=1)
            time.sleep(0.01)
        calls = self.traced()
        appends = self.appends(calls, topic)
        self.assertEqual(rounds, len(appends))
        processor = {call.pid for call in appends}
        self.assertEqual(1, len(processor))
        first = next(call for call in calls if self.is_client(call)
                     and call.pid in processor and call.name == "recvfrom")
        last = [call for call in self.answers(calls) if call.pid in processor][-1]
        between = [call.name for call in calls if call.pid in processor
                   and first.start <= call.start <= last.start
                   and not call.name.startswith("epoll_")]
        receives = [name for name in between if name in ("recvfrom", "recvmsg", "read")]
        sends = [name for name in between if name in SENDS]
        self.assertEqual((rounds, rounds), (len(receives), len(sends)))
        self.assertEqual(3 * rounds, len(between), f"more than three calls each: {set(between)}")

    def test_a_large_fetch_leaves_by_sendfile(self):
        topic = self.create()
        for _ in range(3):
            self.store(topic, raw.batch([os.urandom(400000)]))
        self.start_trace()
        found = self.fetch(topic, 0)["Records"]
        self.assertEqual([0, 1, 2], [batch.base_offset for batch in found])
        self.assertTrue(all(batch.is_sound() for batch in found))
        calls = self.traced()
        sent = [int(call.text.rsplit("=", 1)[1]) for call in calls
                if call.name == "sendfile" and call.end is not None]
        self.assertGreaterEqual(sum(size for size in sent if size > 0), 1200000)
        copied = [call for call in calls if call.name in ("pread64", "preadv", "preadv2", "read")
                  and f"/{topic}-" in call.file and not call.text.rstrip().endswith("= 1")]
        self.assertEqual([], [call for call in copied if int(call.text.rsplit("=", 1)[1]) > 4096])


@unittest.skipIf(fixture.is_kafka() or shutil.which("strace") is None, "needs Barnabas and strace")
class StartTrace(unittest.TestCase):
    """A start with a directory that is not there yet: names count, and each sync costs a millisecond."""

    SYNCS_MAX = 10
    MADE = re.compile(r'(?:mkdir\("([^"]*)"|openat\([^"]*"([^"]*)", [A-Z_|]*O_CREAT|rename\("[^"]*", "([^"]*)")')

    def trace(self):
        folder = fixture.scratch("start-")
        self.addCleanup(shutil.rmtree, folder, True)
        trace_path, self.logs = f"{folder}/trace", f"{folder}/new/logs"
        program = os.environ.get("BARNABAS_BIN") or os.path.join(fixture.ROOT, "build/release/barnabas")
        calls = "trace=mkdir,openat,rename,fsync,fdatasync,syncfs,write"
        command = ["strace", "-D", "-f", "-ttt", "-y", "-s", "4096", "-o", trace_path, "-e", calls, program, "serve",
                   "--override", f"listeners=PLAINTEXT://127.0.0.1:{fixture.free_port()}",
                   "--override", f"log.dirs={self.logs}"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            fixture.RUNNING.append(process)
            for line in process.stdout:
                if b"Kafka Server started" in line:
                    break
            process.terminate()
            process.wait(20)
        for _ in range(500):  # strace ends after it
            with open(trace_path, encoding="utf-8", errors="replace") as source:
                if re.search(rf"(?m)^{process.pid} .*exited with", source.read()):
                    break
            time.sleep(0.01)
        calls = parse(trace_path)
        started = next((i for i, call in enumerate(calls) if "Kafka Server started" in call.text), None)
        if started is None:
            self.skipTest("strace may not trace")
        return calls[:started]

    def test_every_name_is_synced_before_it_has_started(self):
        calls = self.trace()
        made = {}
        for call in calls:
            found = self.MADE.search(call.text)
            path = found and next(filter(None, found.groups()))
            if path and call.text.rstrip().rsplit("= ", 1)[-1][0] != "-" and not path.endswith((".tmp", ".lock")):
                if path.startswith(os.path.dirname(self.logs)):
                    made[path] = call  # the last time
        for name in ("", "/meta.properties", "/synced-marks", "/__cluster_metadata-0",
                     "/__cluster_metadata-0/00000000000000000000.log"):
            self.assertIn(self.logs + name, made)
        self.assertIn(os.path.dirname(self.logs), made)
        for path, call in made.items():
            self.assertTrue(any(sync.name == "fsync" and sync.file == os.path.dirname(path) and sync.start > call.end
                                for sync in calls), f"the name {path} was not synced")
            if call.name == "rename":
                self.assertTrue(any(sync.name == "fdatasync" and sync.file == f"{path}.tmp" and sync.end < call.start
                                    for sync in calls), f"{path} was not synced before it got its name")

    def test_it_costs_few_syncs(self):
        syncs = [call for call in self.trace() if call.name in (*SYNCS, "syncfs")]
        self.assertLessEqual(len(syncs), self.SYNCS_MAX, syncs)  # one of them for new/


if __name__ == "__main__":
    unittest.main()
