"""Brokers for the interop and case tests: start, stop, kill, restart, each on a fresh directory.

Place:   tests/interop and tests/cases use it; nothing in it knows a test.
Broker:  Barnabas (BARNABAS_BIN, else build/release/barnabas) or, with BROKER=kafka, one node of
         Apache Kafka 4.4 through tools/peer/kafka.py. The same tests run against both: what they
         expect is what Kafka does.
Ports:   free ones of 127.0.0.1, inside PORTS=low-high when that is set.
Limits:  every wait has one; a process that does not end in time is killed, by its process id.
Logs:    a directory under TEST_TMP (else the system's); removed at the end unless a test of the
         class failed, then kept and named."""

import atexit
import fcntl
import json
import os
import random
import re
import shutil
import signal
import socket
import string
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CACHE = os.environ.get("BARNABAS_CACHE") or os.path.expanduser("~/.cache/barnabas")
START_LIMIT_S = 90
STOP_LIMIT_S = 60

sys.path.insert(0, os.path.join(ROOT, "tools", "peer"))
sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
import kafka  # noqa: E402  the peer's start and stop, not a client library

# A client library may be called kafka too (kafka-python): give the name back.
peer = sys.modules.pop("kafka")
sys.path.remove(os.path.join(ROOT, "tools", "peer"))


def is_kafka():
    return os.environ.get("BROKER", "barnabas") == "kafka"


def python_packages():
    """The folder that pip installs client libraries into, one for each Python version."""
    return os.path.join(CACHE, "py%d.%d" % sys.version_info[:2])


def need_packages():
    """Client libraries from PyPI: setup.sh has them or fetches them; makes them importable."""
    run([os.path.join(HERE, "setup.sh")], 300)
    folder = python_packages()
    if folder not in sys.path:
        sys.path.insert(0, folder)


def scratch(prefix):
    return tempfile.mkdtemp(prefix=prefix, dir=os.environ.get("TEST_TMP"))


def free_port():
    """A port of 127.0.0.1 on which nobody listens now."""
    low, _, high = os.environ.get("PORTS", "").partition("-")
    for _ in range(200):
        port = random.randint(int(low), int(high)) if low else 0
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return probe.getsockname()[1]
    raise RuntimeError("no free port")


def unique(prefix="t"):
    return prefix + "-" + "".join(random.choices(string.ascii_lowercase, k=8))


RUNNING = []  # processes that a test started; none outlives this one


@atexit.register
def kill_the_rest():
    if Java.shared is not None:
        Java.shared.close()
    for process in RUNNING:
        if process.poll() is None:
            process.kill()


class Broker:
    """What tests see of either broker."""

    def __init__(self, overrides=None, directory=None):
        self.overrides = dict(overrides or {})
        self.directory = directory or scratch("broker-")
        self.logs = os.path.join(self.directory, "logs")  # log.dirs
        self.port = free_port()
        self.process = None

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def partition_dir(self, topic, partition=0):
        return os.path.join(self.logs, f"{topic}-{partition}")

    def is_alive(self):
        return self.process is not None and self.process.poll() is None

    def restart(self):
        self.stop()
        self.start()

    def crash(self):
        self.kill9()
        self.start()

    def kill9(self):
        self.process.kill()
        self.process.wait(STOP_LIMIT_S)
        self.process = None

    def rss_kib(self):
        return int(self.status_line("VmRSS").split()[1])

    def status_line(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as source:
            return next(line for line in source if line.startswith(name + ":"))

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def output(self):
        with open(self.output_path, encoding="utf-8", errors="replace") as source:
            return source.read()

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)


class Barnabas(Broker):
    name = "barnabas"

    def __init__(self, overrides=None, directory=None, wrap=()):
        super().__init__(overrides, directory)
        self.output_path = os.path.join(self.directory, "barnabas.out")
        self.wrap = list(wrap)  # a command to run it under
        self.exit_code = None

    def start(self):
        program = os.environ.get("BARNABAS_BIN") or os.path.join(ROOT, "build/release/barnabas")
        settings = {"listeners": f"PLAINTEXT://127.0.0.1:{self.port}", "log.dirs": self.logs,
                    **self.overrides}
        command = [*self.wrap, program, "serve"]
        for key, value in settings.items():
            command += ["--override", f"{key}={value}"]
        with open(self.output_path, "ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        RUNNING.append(self.process)
        self.wait_started()
        return self

    def wait_started(self):
        """Waits until it answers, then until its log says that it is started."""
        try:
            peer.wait_answers(self.port, self.process, START_LIMIT_S, 0.01)
        except Exception as error:
            tail = self.output()[-3000:]
            self.stop()
            raise RuntimeError(f"{error}; its output ends:\n{tail}") from error

    def stop(self):
        """SIGTERM; kill -9 if that takes too long. Returns the exit code."""
        if self.process is None:
            return None
        self.process.send_signal(signal.SIGTERM)
        try:
            self.exit_code = self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill9()
            raise
        self.process = None
        return self.exit_code


class Kafka(Broker):
    name = "kafka"

    def __init__(self, overrides=None, directory=None):
        super().__init__(overrides, directory)
        items = {"controlled.shutdown.enable": "false", **self.overrides}
        for key in [key for key in items if key.startswith("log.flush.policy")]:
            del items[key]
        self.node = peer.Kafka(self.port, self.directory, [f"{k}={v}" for k, v in items.items()],
                               controller_port=free_port(), java_opts=["-Xmx512M", "-Xms256M"])
        self.output_path = os.path.join(self.directory, "kafka.out")

    def start(self):
        try:
            self.node.start(START_LIMIT_S)
        finally:
            if self.node.process is not None:
                RUNNING.append(self.node.process)
        self.process = self.node.process
        return self

    def stop(self):
        self.node.stop(STOP_LIMIT_S)
        self.process = None

    def kill9(self):
        super().kill9()
        self.node.process = None


def new_broker(overrides=None, directory=None):
    return (Kafka if is_kafka() else Barnabas)(overrides, directory)


class BrokerTest(unittest.TestCase):
    """A broker for each class, started before its first test. OVERRIDES sets it up."""

    OVERRIDES = {}
    broker = None
    failed = False

    @classmethod
    def setUpClass(cls):
        cls.failed = False
        cls.broker = new_broker(cls.OVERRIDES)
        try:
            cls.broker.start()
        except BaseException:
            print(f"\nkept: {cls.broker.directory}", file=sys.stderr)
            raise

    @classmethod
    def tearDownClass(cls):
        cls.broker.stop()
        if cls.failed:
            print(f"\nkept: {cls.broker.directory}", file=sys.stderr)
        else:
            cls.broker.remove()

    def run(self, result=None):
        before = result_faults(result)
        super().run(result)
        if result_faults(result) != before:
            type(self).failed = True
        return result

    def setUp(self):
        if not self.broker.is_alive():
            self.broker.start()  # the last test killed it

    def tearDown(self):
        """Every test ends with this check: alive, and a second connection works."""
        if self.broker.process is not None:
            self.assertTrue(self.broker.is_alive(), "the broker died")
            self.assertEqual(1, peer.ask_metadata(self.broker.port, 20))


def result_faults(result):
    return len(result.failures) + len(result.errors) if result else 0


def run(command, limit_s=120, **kwargs):
    """Runs a client; its output is in the exception when it fails."""
    done = subprocess.run(command, timeout=limit_s, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, **kwargs)
    if done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}:\n"
                             f"{done.stdout[-2000:].decode(errors='replace')}\n"
                             f"{done.stderr[-2000:].decode(errors='replace')}")
    return done


def wait_until(check, limit_s=20, pause_s=0.02, what="condition"):
    """Calls check() until its value is true; returns that value."""
    end = time.monotonic() + limit_s
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {limit_s} s")
        time.sleep(pause_s)


def numbered_values(count, seed):
    """Values of many sizes, some compressible and some not, the same for the same seed."""
    source = random.Random(seed)
    sizes = [0, 1, 10, 100, 1000, 5000]
    out = []
    for number in range(count):
        size = sizes[number % len(sizes)]
        text = f"{seed}:{number}:" + ("abcdefgh" * (size // 8 + 1))[:size]
        if number % 7 == 3:
            text += "".join(source.choices(string.printable[:62], k=200))
        out.append(text)
    return out


class Java:
    """The Java program of tests/java: one JVM that takes a command a line and answers a line.

    A command is a JSON object with "cmd"; the answer has "ok". call() raises JavaError otherwise."""

    shared = None

    def __init__(self):
        classes = java_classes()
        self.errors = open(os.path.join(scratch("java-"), "stderr"), "w+b")
        command = ["java", "-Xmx512M", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                   "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                   "-cp", classes + ":" + peer.classpath(), "barnabas.interop.Driver"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=self.errors, text=True, start_new_session=True)
        RUNNING.append(self.process)

    @classmethod
    def get(cls):
        """The JVM that all test files share; it starts at the first use."""
        if cls.shared is None or cls.shared.process.poll() is not None:
            cls.shared = cls()
        return cls.shared

    def call(self, cmd, limit_s=90, **fields):
        killer = threading.Timer(limit_s, self.process.kill)
        killer.start()
        try:
            self.process.stdin.write(json.dumps({"cmd": cmd, **fields}) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        finally:
            killer.cancel()
        if not line:
            self.errors.seek(0)
            tail = self.errors.read()[-3000:].decode(errors="replace")
            raise AssertionError(f"the Java program ended in {cmd} {fields}: {tail}")
        answer = json.loads(line)
        if not answer.pop("ok"):
            raise JavaError(answer["class"], answer["message"], answer.get("trace", ""))
        return answer

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        shutil.rmtree(os.path.dirname(self.errors.name), ignore_errors=True)
        self.errors.close()
        if Java.shared is self:
            Java.shared = None


class JavaError(Exception):
    def __init__(self, kind, message, trace):
        super().__init__(f"{kind}: {message}")
        self.kind, self.trace = kind, trace


def java_classes():
    """Compiles tests/java into the cache when its sources are newer; returns the class folder."""
    source = os.path.join(ROOT, "tests", "java", "src", "main", "java")
    files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(source)
                   for name in names if name.endswith(".java"))
    target = os.path.join(CACHE, "interop-java")
    with open(target + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        compile_java(files, target)
    return target


def compile_java(files, target):
    stamp = os.path.join(target, ".stamp")
    newest = max(os.path.getmtime(name) for name in files)
    if not os.path.exists(stamp) or os.path.getmtime(stamp) < newest:
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(target)
        run(["javac", "-nowarn", "-d", target, "-cp", peer.classpath(), *files], 300)
        with open(stamp, "w", encoding="ascii"):
            pass


def tool(main_class, *args, limit_s=90):
    """Runs one of Kafka's tools inside the shared JVM; returns (exit code, output)."""
    answer = Java.get().call("tool", **{"class": main_class}, args=list(args), limit_s=limit_s)
    return answer["exit"], answer["output"]


def log_lines(broker, pattern):
    return [line for line in broker.output().splitlines() if re.search(pattern, line)]
