#!/usr/bin/env python3
"""Starts and stops one node of Apache Kafka 4.4.0 (broker and controller in one process) as a peer.

    kafka.py start --port 21000 --data DIR [--override key=value ...] [--java-opt -X...]
    kafka.py stop  --data DIR
    kafka.py run   --port 21000 --data DIR -- CMD ...      start, run CMD, stop; CMD's exit code
    kafka.py tool  org.apache.kafka.tools.DumpLogSegments ARGS ...    one of Kafka's own main classes

start formats DIR on its first use, waits until the broker answers Metadata with itself in it, prints
the process id and writes it to DIR/kafka.pid. The log goes to DIR/kafka.out. The port after --port
is the controller's unless --controller-port says otherwise. Both listen on 127.0.0.1 only.

As a module: Kafka(port, data).start() / .stop() / .kill9() / .pid, run_tool(), wait_answers().
Jars come from fetch.sh (KAFKA_JARS names a folder that has them already)."""

import argparse
import os
import signal
import socket
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CLUSTER_ID = "YmFybmFiYXMtcGVlci0wMA"  # 16 bytes in base64url; one cluster, always the same
JAVA_OPTS = [
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
TOOL_OPTS = ["-Xmx256M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
LOG_OPTS = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def jars():
    """The folder of Kafka's jars, fetched on first use."""
    if os.environ.get("KAFKA_JARS"):
        return os.environ["KAFKA_JARS"]
    out = subprocess.run([os.path.join(HERE, "fetch.sh")], check=True, stdout=subprocess.PIPE)
    return out.stdout.decode().split("\n")[-2]


def classpath():
    return os.path.join(jars(), "*")


def run_tool(main_class, args, **kwargs):
    """Runs one of Kafka's own tools; keyword arguments go to subprocess.run."""
    cmd = ["java", *TOOL_OPTS, *LOG_OPTS, "-cp", classpath(), main_class, *args]
    return subprocess.run(cmd, **kwargs)


def read_exactly(sock, size):
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return data


def ask_metadata(port, timeout_s=1.0):
    """Sends Metadata v1 for no topics and returns the number of brokers in the answer."""
    header = struct.pack(">hhih", 3, 1, 7, 4) + b"peer"
    body = header + struct.pack(">i", 0)
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as sock:
        sock.sendall(struct.pack(">i", len(body)) + body)
        size = struct.unpack(">i", read_exactly(sock, 4))[0]
        answer = read_exactly(sock, size)
    return struct.unpack(">i", answer[4:8])[0]


def wait_answers(port, process=None, limit_s=60.0, pause_s=0.05):
    """Waits until a broker on the port answers; returns the seconds that took."""
    start = time.monotonic()
    while True:
        try:
            if ask_metadata(port) > 0:
                return time.monotonic() - start
        except (OSError, struct.error):
            pass
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the broker ended with {process.returncode}")
        if time.monotonic() - start > limit_s:
            raise TimeoutError(f"no answer on port {port} in {limit_s} s")
        time.sleep(pause_s)


class Kafka:
    """One node. Data directory and settings live under 'data'; stop() leaves them for a restart."""

    def __init__(self, port, data, overrides=None, controller_port=None, java_opts=()):
        self.port = port
        self.data = os.path.abspath(data)
        self.controller_port = controller_port or port + 1
        self.java_opts = list(java_opts)
        self.process = None
        self.pid = None
        self.start_s = None  # seconds from fork to the first answer
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},"
                         f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": os.path.join(self.data, "logs"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.segment.delete.delay.ms": "1000",
            "auto.create.topics.enable": "true",
        }
        for item in overrides or []:
            key, _, value = item.partition("=")
            self.settings[key.strip()] = value.strip()

    def format(self):
        os.makedirs(self.data, exist_ok=True)
        path = os.path.join(self.data, "server.properties")
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(f"{key}={value}\n" for key, value in self.settings.items())
        first = self.settings["log.dirs"].split(",")[0]
        if os.path.exists(os.path.join(first, "meta.properties")):
            return path
        done = run_tool("kafka.tools.StorageTool",
                        ["format", "-t", CLUSTER_ID, "-c", path, "--ignore-formatted"],
                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise RuntimeError("format failed: " + done.stdout.decode(errors="replace"))
        return path

    def start(self, limit_s=90.0):
        path = self.format()
        with open(os.path.join(self.data, "kafka.out"), "ab") as out:
            began = time.monotonic()
            self.process = subprocess.Popen(
                ["java", *JAVA_OPTS, *LOG_OPTS, *self.java_opts, "-cp", classpath(),
                 "kafka.Kafka", path],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True)
        self.pid = self.process.pid
        with open(os.path.join(self.data, "kafka.pid"), "w", encoding="ascii") as out:
            out.write(f"{self.pid}\n")
        wait_answers(self.port, self.process, limit_s)
        self.start_s = time.monotonic() - began
        return self

    def stop(self, limit_s=60.0):
        """Controlled stop; kill -9 when it takes too long."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None

    def kill9(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def is_our_kafka(pid):
    """True when the process is a Kafka node: a stale pid file must not end a stranger."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as source:
            return b"kafka.Kafka" in source.read().split(b"\0")
    except OSError:
        return False


def stop_by_pid_file(data, limit_s=60.0):
    path = os.path.join(data, "kafka.pid")
    with open(path, encoding="ascii") as source:
        pid = int(source.read())
    began = time.monotonic()
    if is_our_kafka(pid):
        os.kill(pid, signal.SIGTERM)
    while is_our_kafka(pid):
        if time.monotonic() - began > limit_s:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    os.unlink(path)


def add_node_options(parser):
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--controller-port", type=int)
    parser.add_argument("--data", required=True)
    parser.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--java-opt", action="append", default=[])


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    add_node_options(commands.add_parser("start"))
    run = commands.add_parser("run")
    add_node_options(run)
    run.add_argument("cmd", nargs=argparse.REMAINDER)
    commands.add_parser("stop").add_argument("--data", required=True)
    tool = commands.add_parser("tool")
    tool.add_argument("main_class")
    tool.add_argument("args", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    if args.command == "stop":
        stop_by_pid_file(args.data)
        return 0
    if args.command == "tool":
        return run_tool(args.main_class, args.args, check=False).returncode
    node = Kafka(args.port, args.data, args.override, args.controller_port, args.java_opt)
    try:
        node.start()
    except BaseException:
        node.stop()
        raise
    if args.command == "start":
        print(node.pid)
        return 0
    try:
        return subprocess.run([word for word in args.cmd if word != "--"], check=False).returncode
    finally:
        node.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
