"""/metrics, /healthz and /readyz: what real clients do moves the right values by the right amounts,
read by Prometheus' own parser; hostile HTTP clients; off without the key."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request

import fixture
import raw

fixture.need_packages()
from prometheus_client.parser import text_string_to_metric_families  # noqa: E402

TOPICS = "kafka_server_brokertopicmetrics_"
TIMES = "kafka_network_requestmetrics_"
PURGATORY = "kafka_server_delayedoperationpurgatory_"


def get(port, path, limit_s=30):
    """Status, content type and text."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=limit_s) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as answer:
        with answer:
            return answer.code, answer.headers["Content-Type"], answer.read().decode()


class Scrape:
    def __init__(self, port):
        status, self.content_type, self.text = get(port, "/metrics")
        assert status == 200, status
        self.families = {family.name: family
                         for family in text_string_to_metric_families(self.text)}
        self.samples = {}
        for family in self.families.values():
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                assert key not in self.samples, f"twice: {key}"
                self.samples[key] = sample.value

    def value(self, name, **labels):
        return self.samples.get((name, tuple(sorted(labels.items()))), 0)

    def sum(self, name):
        return sum(value for (found, _), value in self.samples.items() if found == name)


class MetricsTest(fixture.BrokerTest):
    @classmethod
    def setUpClass(cls):
        if fixture.is_kafka():
            raise unittest.SkipTest("Kafka has JMX")
        cls.http_port = fixture.free_port()
        cls.OVERRIDES = {"http.listener": f"127.0.0.1:{cls.http_port}"}
        super().setUpClass()

    def scrape(self):
        return Scrape(self.http_port)

    def kcat(self, *args, data=b""):
        return fixture.run(["kcat", "-b", self.broker.bootstrap, *args], 60, input=data).stdout

    def moved(self, before, name, **labels):
        return self.scrape().value(name, **labels) - before.value(name, **labels)

    def test_the_text_is_what_the_documents_list(self):
        topic = fixture.unique()
        self.kcat("-P", "-t", topic, "-p", "0", data=b"one\n")
        found = self.scrape()
        self.assertEqual("text/plain; version=0.0.4; charset=utf-8", found.content_type)
        listed = fixture.run([sys.executable, os.path.join(fixture.ROOT, "tools/metrics_docs.py"),
                              "--list"]).stdout.decode().split()
        kinds = dict(zip(listed[::2], listed[1::2]))
        # The parser takes _total off the names of counters.
        shown = {family.name + "_total" if family.type == "counter"
                 and family.name + "_total" in kinds else family.name: family.type
                 for family in found.families.values()}
        self.assertEqual(kinds, shown)
        self.assertTrue(all(family.documentation for family in found.families.values()))

    def test_what_kcat_writes_and_reads_is_counted(self):
        topic, count = fixture.unique(), 1000
        before = self.scrape()
        lines = b"".join(b"%099d\n" % number for number in range(count))
        self.kcat("-P", "-t", topic, "-p", "0", data=lines)
        size = os.path.getsize(os.path.join(self.broker.partition_dir(topic),
                                            "0" * 20 + ".log"))
        after = self.scrape()
        for labels in ({}, {"topic": topic}):
            self.assertEqual(count, after.value(TOPICS + "messagesin_total", **labels)
                             - before.value(TOPICS + "messagesin_total", **labels))
            self.assertEqual(size, after.value(TOPICS + "bytesin_total", **labels)
                             - before.value(TOPICS + "bytesin_total", **labels))
        self.assertEqual(0, after.value(TOPICS + "bytesout_total", topic=topic))
        where = {"topic": topic, "partition": "0"}
        self.assertEqual(size, after.value("kafka_log_log_size", **where))
        self.assertEqual(0, after.value("kafka_log_log_logstartoffset", **where))
        self.assertEqual(count, after.value("kafka_log_log_logendoffset", **where))
        self.assertEqual(1, after.value("kafka_log_log_numlogsegments", **where))
        produces = [value for (name, labels), value in after.samples.items()
                    if name == TIMES + "requests_total" and ("request", "Produce") in labels]
        self.assertEqual(after.value(TIMES + "totaltimems_count", request="Produce"),
                         sum(produces))
        self.assertGreater(after.value("kafka_log_logflushstats_logflushrateandtimems_count"),
                           before.value("kafka_log_logflushstats_logflushrateandtimems_count"))
        self.kcat("-C", "-e", "-q", "-t", topic, "-X", "fetch.wait.max.ms=50")
        self.assertEqual(size, self.moved(after, TOPICS + "bytesout_total", topic=topic))
        self.assertEqual(size, self.moved(after, TOPICS + "bytesout_total"))

    def raw_fetch(self, topic, wait_ms):
        link = raw.Connection(self.broker.port)
        self.addCleanup(link.close)
        link.send("Fetch", 4, {
            "ReplicaId": -1, "MaxWaitMs": wait_ms, "MinBytes": 1, "MaxBytes": 1 << 20,
            "Topics": [{"Topic": topic, "Partitions": [
                {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 20}]}]})
        return link

    def make_topic(self, partitions=1):
        topic = fixture.unique()
        with raw.Connection(self.broker.port) as link:
            answer = link.call("CreateTopics", 4, {
                "Topics": [{"Name": topic, "NumPartitions": partitions,
                            "ReplicationFactor": 1}], "timeoutMs": 60000})
        self.assertEqual(0, answer["Topics"][0]["ErrorCode"])
        return topic

    def test_a_parked_fetch_is_seen_until_it_expires_or_is_answered(self):
        topic = self.make_topic()
        before = self.scrape()
        link = self.raw_fetch(topic, 1500)
        fixture.wait_until(lambda: self.scrape().value(
            PURGATORY + "numdelayedoperations", delayedOperation="Fetch") == 1, what="it is parked")
        self.assertEqual(1, self.scrape().value(PURGATORY + "purgatorysize",
                                                delayedOperation="Fetch"))
        link.receive()
        after = self.scrape()
        for name in ("numdelayedoperations", "purgatorysize"):
            self.assertEqual(0, after.value(PURGATORY + name, delayedOperation="Fetch"))
        expired = "kafka_server_delayedfetchmetrics_expires_total"
        self.assertEqual(1, after.value(expired, fetcherType="consumer")
                         - before.value(expired, fetcherType="consumer"))
        self.assertEqual(1, after.value("barnabas_purgatory_expirations_total",
                                        delayedOperation="Fetch")
                         - before.value("barnabas_purgatory_expirations_total",
                                        delayedOperation="Fetch"))
        waited = self.moved(before, TIMES + "remotetimems_sum", request="Fetch")
        self.assertGreaterEqual(waited, 1499)
        self.assertLess(waited, 2500)

        link = self.raw_fetch(topic, 60000)
        fixture.wait_until(lambda: self.scrape().value(
            PURGATORY + "numdelayedoperations", delayedOperation="Fetch") == 1, what="it is parked")
        self.kcat("-P", "-t", topic, "-p", "0", data=b"x\n")
        link.receive()
        self.assertEqual(0, self.moved(after, expired, fetcherType="consumer"))
        self.assertEqual(0, self.scrape().value(PURGATORY + "purgatorysize",
                                                delayedOperation="Fetch"))

    def test_connections_partitions_and_topics_are_gauges(self):
        before = self.scrape()
        topic = self.make_topic(7)
        links = [raw.Connection(self.broker.port) for _ in range(5)]
        for link in links:
            link.call("ApiVersions", 0)
        after = self.scrape()
        count = "kafka_server_socket_server_metrics_connection_count"
        self.assertEqual(5, after.sum(count) - before.sum(count))
        for name, wanted in (("kafka_server_replicamanager_partitioncount", 7),
                             ("kafka_server_replicamanager_leadercount", 7),
                             ("kafka_controller_kafkacontroller_globalpartitioncount", 7),
                             ("kafka_controller_kafkacontroller_globaltopiccount", 1)):
            self.assertEqual(wanted, after.value(name) - before.value(name), name)
        self.assertEqual(5, after.value(TIMES + "requests_total", request="ApiVersions",
                                        version="0")
                         - before.value(TIMES + "requests_total", request="ApiVersions",
                                        version="0"))
        for link in links:
            link.close()
        fixture.wait_until(lambda: self.scrape().sum(count) == before.sum(count), what="closed")
        with raw.Connection(self.broker.port) as link:
            link.call("DeleteTopics", 3, {"TopicNames": [topic], "TimeoutMs": 60000})
        fixture.wait_until(lambda: self.scrape().value(
            "kafka_server_replicamanager_partitioncount")
            == before.value("kafka_server_replicamanager_partitioncount"), what="deleted")

    def test_a_deleted_topic_stays_in_the_sum_over_all(self):
        topic = fixture.unique()
        self.kcat("-P", "-t", topic, "-p", "0", data=b"x\n" * 10)
        before = self.scrape()
        with raw.Connection(self.broker.port) as link:
            link.call("DeleteTopics", 3, {"TopicNames": [topic], "TimeoutMs": 60000})
        fixture.wait_until(lambda: self.scrape().value(
            "kafka_controller_kafkacontroller_globaltopiccount")
            < before.value("kafka_controller_kafkacontroller_globaltopiccount"), what="deleted")
        fixture.wait_until(lambda: not self.scrape().value(TOPICS + "messagesin_total",
                                                           topic=topic), what="not shown")
        self.assertEqual(0, self.moved(before, TOPICS + "messagesin_total"))

    def test_refused_batches_are_counted_by_what_is_wrong(self):
        topic = self.make_topic()
        before = self.scrape()
        good = raw.batch([b"x"])
        bad_crc = good[:-1] + bytes([good[-1] ^ 1])
        with raw.Connection(self.broker.port) as link:
            for records in (bad_crc, good[:16] + b"\1" + good[17:]):
                answer = link.call("Produce", 7, {"Acks": 1, "TimeoutMs": 1000, "TopicData": [
                    {"Name": topic, "PartitionData": [{"Index": 0, "Records": records}]}]})
                error = answer["Responses"][0]["PartitionResponses"][0]["ErrorCode"]
                self.assertNotEqual(0, error)
        self.assertEqual(1, self.moved(before, TOPICS + "invalidmessagecrcrecords_total"))
        self.assertEqual(1, self.moved(before, TOPICS + "invalidmagicnumberrecords_total"))
        self.assertEqual(0, self.moved(before, TOPICS + "messagesin_total"))
        self.assertEqual(2, self.moved(before, TOPICS + "totalproducerequests_total", topic=topic))

    def test_other_paths_and_methods_are_refused(self):
        self.assertEqual(404, get(self.http_port, "/")[0])
        self.assertEqual(404, get(self.http_port, "/metrics/x")[0])
        link = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=20)
        self.addCleanup(link.close)
        link.request("HEAD", "/readyz")
        answer = link.getresponse()
        self.assertEqual((200, b""), (answer.status, answer.read()))
        link.request("GET", "/healthz")  # the connection is kept
        answer = link.getresponse()
        self.assertEqual((200, b"ok\n"), (answer.status, answer.read()))
        link.request("DELETE", "/metrics")
        self.assertEqual(405, link.getresponse().status)

    def http_bytes(self, data, limit_s=30):
        with socket.create_connection(("127.0.0.1", self.http_port), timeout=limit_s) as link:
            try:
                link.sendall(data)
                answer = b""
                while piece := link.recv(65536):
                    answer += piece
            except (ConnectionResetError, BrokenPipeError):
                pass
            return answer

    def test_hostile_clients_are_bounded(self):
        before = self.broker.rss_kib()
        self.assertRegex(self.http_bytes(b"GET /metrics HTTP/1.1\r\nHost: x\r\n" + b"".join(
            b"X-%d: %s\r\n" % (number, b"y" * 1000) for number in range(1000)) + b"\r\n"),
            b"^(HTTP/1.1 4|$)")
        self.assertRegex(self.http_bytes(b"GET /" + b"a" * 1000000 + b" HTTP/1.1\r\n\r\n"),
                         b"^(HTTP/1.1 4|$)")
        self.http_bytes(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
                        + b"z" * 100000)
        self.http_bytes(b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
                        + b"z" * 100000)
        self.http_bytes(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500) + b"\r\n\r\n")
        # More than are served: those that say nothing are closed in time, and one gets through.
        links = [socket.create_connection(("127.0.0.1", self.http_port), timeout=30)
                 for _ in range(100)]
        for link in links:
            self.addCleanup(link.close)
            try:
                link.sendall(b"GET /met")
            except (ConnectionResetError, BrokenPipeError):
                pass

        def answers():
            try:
                return get(self.http_port, "/readyz", 5)[0] == 200
            except OSError:
                return False

        fixture.wait_until(answers, limit_s=60, pause_s=0.2, what="a slot is free again")
        self.assertLess(self.broker.rss_kib() - before, 8192)

    def test_it_listens_again_when_all_its_connections_ended_at_once(self):
        links = [socket.create_connection(("127.0.0.1", self.http_port), timeout=60)
                 for _ in range(64)]  # as many as are served; none says anything
        for link in links:
            self.addCleanup(link.close)
        for link in links:
            self.assertEqual(b"", link.recv(1))  # closed, all in the same moment
        self.assertEqual(200, get(self.http_port, "/readyz", 10)[0])

    def test_a_client_that_does_not_read_holds_up_nobody(self):
        self.make_topic(1000)
        with socket.create_connection(("127.0.0.1", self.http_port)) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            link.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            time.sleep(0.3)
            self.assertGreater(len(self.scrape().text), 250000)
            topic = fixture.unique()
            self.kcat("-P", "-t", topic, "-p", "0", data=b"x\n")

    def test_scrapes_while_clients_write_and_topics_come_and_go(self):
        stop = threading.Event()
        faults = []

        def write():
            while not stop.is_set():
                topic = fixture.unique("w")
                self.kcat("-P", "-t", topic, "-p", "0", data=b"x\n" * 500)
                with raw.Connection(self.broker.port) as link:
                    link.call("DeleteTopics", 3, {"TopicNames": [topic], "TimeoutMs": 60000})

        def guarded():
            try:
                write()
            except Exception as error:  # pylint: disable=broad-except
                faults.append(error)

        threads = [threading.Thread(target=guarded) for _ in range(2)]
        for thread in threads:
            thread.start()
        last = self.scrape()
        until = time.monotonic() + 4
        while time.monotonic() < until:
            now = self.scrape()
            for name in ("messagesin_total", "bytesin_total", "totalproducerequests_total"):
                self.assertGreaterEqual(now.value(TOPICS + name), last.value(TOPICS + name))
            last = now
        stop.set()
        for thread in threads:
            thread.join(60)
        self.assertEqual([], faults)


class LifeTest(unittest.TestCase):
    def setUp(self):
        if fixture.is_kafka():
            self.skipTest("Kafka has JMX")
        self.http_port = fixture.free_port()

    def broker(self, **overrides):
        broker = fixture.Barnabas({key.replace("_", "."): value
                                   for key, value in overrides.items()})
        self.addCleanup(broker.remove)
        self.addCleanup(broker.stop)
        return broker

    def test_without_the_key_nothing_listens_and_no_library_is_loaded(self):
        broker = self.broker().start()
        with open(f"/proc/{broker.pid}/maps", encoding="ascii") as source:
            self.assertNotIn("microhttpd", source.read())
        inodes = {os.readlink(f"/proc/{broker.pid}/fd/{fd}")
                  for fd in os.listdir(f"/proc/{broker.pid}/fd")}
        listening = 0
        for table in ("tcp", "tcp6"):
            with open(f"/proc/{broker.pid}/net/{table}", encoding="ascii") as source:
                for words in map(str.split, list(source)[1:]):
                    listening += words[3] == "0A" and f"socket:[{words[9]}]" in inodes
        self.assertEqual(1, listening)

    def test_not_ready_while_it_drains(self):
        broker = self.broker(http_listener=f"127.0.0.1:{self.http_port}").start()
        self.assertEqual((200, "ok\n"), get(self.http_port, "/readyz")[::2])
        topic = fixture.unique()
        fixture.run(["kcat", "-b", broker.bootstrap, "-P", "-t", topic, "-p", "0"],
                    input=b"y" * 900000 + b"\n" + b"z" * 900000 + b"\n")
        # An answer that is not taken holds the stop up until its deadline.
        link = raw.Connection(broker.port)
        self.addCleanup(link.close)
        link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for _ in range(20):
            link.send("Fetch", 4, {
                "ReplicaId": -1, "MaxWaitMs": 0, "MinBytes": 1, "MaxBytes": 1 << 24,
                "Topics": [{"Topic": topic, "Partitions": [
                    {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1 << 24}]}]})
        time.sleep(0.3)
        broker.process.send_signal(signal.SIGTERM)
        status = fixture.wait_until(lambda: get(self.http_port, "/readyz")[0] == 503,
                                    what="503 while it drains")
        self.assertTrue(status)
        self.assertEqual("the broker is stopping\n", get(self.http_port, "/readyz")[2])
        self.assertEqual(200, get(self.http_port, "/healthz")[0])
        self.assertEqual(7, Scrape(self.http_port).value("kafka_server_kafkaserver_brokerstate"))
        link.close()
        self.assertEqual(0, broker.process.wait(30))
        broker.process = None

    def test_a_wrong_address_is_refused_with_file_and_line(self):
        program = os.environ.get("BARNABAS_BIN") or os.path.join(fixture.ROOT,
                                                                 "build/release/barnabas")
        folder = fixture.scratch("config-")
        path = os.path.join(folder, "server.properties")
        for value in ("localhost", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:x", "::1:9404",
                      "127.0.0.1:", "http://127.0.0.1:9404"):
            with open(path, "w", encoding="ascii") as out:
                out.write(f"# one\nhttp.listener={value}\n")
            done = subprocess.run([program, "serve", path], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=20, cwd=folder, check=False)
            self.assertEqual(2, done.returncode, value)
            text = done.stdout.decode()
            self.assertIn(f"{path} line 2: Invalid value {value} for configuration http.listener: "
                          "must be host:port", text)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            broker = self.broker(http_listener=address)
            with self.assertRaises(Exception):
                broker.start()
            self.assertIn(f"http.listener {address}", broker.output())
            self.assertIn("the port is in use", broker.output())


if __name__ == "__main__":
    unittest.main()
