#!/usr/bin/env python3
"""Measures Barnabas beside Apache Kafka 4.4.0, leg by leg in one run, and writes docs/benchmarks/.

    bench/run.py [--name NAME] [--quick] [--only REGEX] [--pairs N] [--out docs/benchmarks]

All run all the time; legs alternate (Kafka, Barnabas, the limit program, Kafka, ...), at least 5 times
a case, with the same generator, the same bytes and a fresh topic that is deleted, and the disk synced, after
each. Kafka is warmed up for 30 seconds first. A leg in which other processes took more than a tenth
of the machine is thrown away and repeated, twice at most. --quick: 2 pairs of 2-second legs, to see
that everything runs. --against kafka puts Kafka on both sides: what the noise alone looks like.

Needs bench_wire and barnabas (build/release), Java 17 and Maven (tools/peer fetches Kafka)."""

import argparse
import contextlib
import datetime
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tools", "peer"))
sys.path.insert(0, HERE)

import cases  # noqa: E402
import kafka  # noqa: E402
import report  # noqa: E402

FOREIGN_SHARE_MAX = 0.10
LEG_TRIES_MAX = 3
QUIET_WAIT_S_MAX = 10.0


class Barnabas:
    """One running Barnabas; the same face as kafka.Kafka."""

    def __init__(self, binary, port, data, policy):
        self.command = [
            binary, "serve",
            "--override", f"listeners=PLAINTEXT://127.0.0.1:{port}",
            "--override", f"log.dirs={os.path.join(data, 'logs')}",
            "--override", f"log.flush.policy={policy}",
            "--override", "log.segment.delete.delay.ms=1000",
        ]
        self.port = port
        self.data = data
        self.process = None
        self.pid = None
        self.start_s = None

    def start(self):
        os.makedirs(os.path.join(self.data, "logs"), exist_ok=True)
        with open(os.path.join(self.data, "barnabas.out"), "ab") as out:
            began = time.monotonic()
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        self.pid = self.process.pid
        kafka.wait_answers(self.port, self.process, 30.0, pause_s=0.0002)
        self.start_s = time.monotonic() - began
        return self

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


class Limit(Barnabas):
    """The limit program: what receiving, summing, writing and answering alone can do."""

    def __init__(self, binary, port, data, sync):
        super().__init__(binary, port, data, "os")
        self.command = [binary, str(port), os.path.join(data, "logs")] + ["--sync"] * sync


def busy_ticks():
    with open("/proc/stat", encoding="ascii") as source:
        ticks = [int(word) for word in source.readline().split()[1:]]
    return ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]


def wait_quiet():
    """Waits for a moment in which the machine is not busy with something else; True if it came."""
    cores = os.cpu_count()
    began = time.monotonic()
    while time.monotonic() - began < QUIET_WAIT_S_MAX:
        before = busy_ticks()
        time.sleep(0.3)
        share = (busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / 0.3 / cores
        if share < FOREIGN_SHARE_MAX:
            return True
    return False


def rss_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as source:
        return int(re.search(r"VmRSS:\s+(\d+)", source.read()).group(1)) * 1024 / 1e6


def wait_topics_gone(broker, limit_s=15.0):
    """Deleted logs go away a second later; their pages must not be written during the next leg."""
    began = time.monotonic()
    while time.monotonic() - began < limit_s:
        if not glob.glob(os.path.join(broker.data, "logs", "bench-*")):
            break
        time.sleep(0.05)
    os.sync()


class Bench:
    def __init__(self, options):
        self.options = options
        self.legs = []  # one dictionary a leg, in the order they ran
        self.failures = {}  # (system, case) -> message
        self.discarded = 0

    def broker(self, system, port, data, sync):
        """A broker that is not started yet; 'sync' asks for answers after the disk has it."""
        shutil.rmtree(data, ignore_errors=True)
        os.makedirs(data)
        if system == "limit":
            return Limit(self.options.limit, port, data, sync)
        if system == "kafka" or self.options.against == "kafka":
            overrides = ["log.flush.interval.messages=1"] if sync else []
            return kafka.Kafka(port, data, overrides)
        policy = "group" if sync else "os"
        return Barnabas(self.options.barnabas, port, data, policy)

    def wire(self, broker, args, seconds):
        command = [self.options.wire, *args, "--port", str(broker.port), "--pid", str(broker.pid),
                   "--seconds", str(seconds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False,
                              timeout=120 + 10 * seconds)
        if done.returncode != 0:
            text = (done.stderr.decode() or done.stdout.decode()).strip()
            raise RuntimeError(text or f"bench_wire ended with {done.returncode}")
        return json.loads(done.stdout)

    def leg(self, system, broker, case, pair):
        seconds = 2.0 if self.options.quick else max(case.seconds, self.options.seconds)
        for attempt in range(LEG_TRIES_MAX):
            quiet = wait_quiet()
            try:
                result = self.wire(broker, case.args, seconds)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                self.failures[system, case.name] = str(error)
                self.say(f"{case.name:12} {system:9} FAILED: {error}")
                return
            finally:
                wait_topics_gone(broker)
            noisy = result["foreign_share"] > FOREIGN_SHARE_MAX
            if not noisy or attempt == LEG_TRIES_MAX - 1:
                break
            self.discarded += 1
        result.update(case=case.name, system=system, pair=pair, quiet=quiet and not noisy)
        self.legs.append(result)
        first = case.checks[0]
        self.say(f"{case.name:12} {system:9} {first[1]} {result[first[0]]:,.1f} {first[2]}, "
                 f"p50 {result['p50_us']:.0f} p99 {result['p99_us']:.0f} us, "
                 f"others {result['foreign_share']:.0%}, steal {result['steal_share']:.0%}")

    def warm_up(self, broker):
        # Barnabas has no compiler to wait for; it gets a fifth, for its caches and files.
        share = 0.2 if self.options.quick or not isinstance(broker, kafka.Kafka) else 1.0
        for args, seconds in cases.WARM_UP:
            with contextlib.suppress(RuntimeError):  # a leg will show it
                self.wire(broker, args, seconds * share)
            wait_topics_gone(broker)

    def systems(self):
        has_limit = not self.options.quick and os.access(self.options.limit, os.X_OK)
        return ["kafka", "barnabas"] + ["limit"] * has_limit

    def pairs_of(self, wanted, sync):
        """Runs both brokers and all these cases, legs alternating."""
        wanted = [case for case in wanted if re.search(self.options.only, case.name)]
        if not wanted:
            return
        with contextlib.ExitStack() as stack:
            brokers = {}
            for index, system in enumerate(self.systems()):
                data = os.path.join(self.options.data, f"{system}-{'sync' if sync else 'cache'}")
                broker = self.broker(system, self.options.port + 10 * index, data, sync)
                stack.callback(shutil.rmtree, data, ignore_errors=True)
                stack.callback(broker.stop)
                brokers[system] = broker.start()
                self.say(f"{system} answers on {broker.port}; warming up")
                self.warm_up(broker)
            for case in wanted:
                for pair in range(self.options.pairs):
                    for system, broker in brokers.items():
                        if (system, case.name) not in self.failures:
                            self.leg(system, broker, case, pair)

    def process_leg(self, system, pair):
        data = os.path.join(self.options.data, f"{system}-process")
        broker = self.broker(system, self.options.port + 20, data, False)
        if isinstance(broker, kafka.Kafka):
            broker.format()
        try:
            wait_quiet()
            broker.start()
            time.sleep(1.0)
            leg = {"case": "process", "system": system, "pair": pair, "quiet": True,
                   "start_ms": broker.start_s * 1e3, "idle_mb": rss_mb(broker.pid)}
            if pair < 3:  # a gigabyte each time: three are enough for a figure that hardly moves
                self.wire(broker, cases.fetch(8, load_bytes=1_000_000_000), 2.0)
                leg["loaded_mb"] = rss_mb(broker.pid)
            began = time.monotonic()
            broker.stop()
            leg["stop_ms"] = (time.monotonic() - began) * 1e3
            self.legs.append(leg)
            self.say(f"process      {system:9} start {leg['start_ms']:.1f} ms, "
                     f"idle {leg['idle_mb']:.1f} MB, loaded {leg.get('loaded_mb', 0):.1f} MB")
        except (RuntimeError, TimeoutError, subprocess.TimeoutExpired) as error:
            self.failures[system, "process"] = str(error)
            self.say(f"process {system} FAILED: {error}")
        finally:
            broker.stop()
            shutil.rmtree(data, ignore_errors=True)
            os.sync()

    def process_pairs(self):
        if not re.search(self.options.only, "process"):
            return
        for pair in range(self.options.pairs):
            for system in ("kafka", "barnabas"):
                if (system, "process") not in self.failures:
                    self.process_leg(system, pair)

    def say(self, text):
        print(f"{datetime.datetime.now():%H:%M:%S} {text}", flush=True)


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="kafka-4.4")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "benchmarks"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="regular expression over case names")
    parser.add_argument("--against", choices=["barnabas", "kafka"], default="barnabas")
    parser.add_argument("--barnabas", default=os.path.join(ROOT, "build/release/barnabas"))
    parser.add_argument("--wire", default=os.path.join(ROOT, "build/release/bench/bench_wire"))
    parser.add_argument("--limit", default=os.path.join(ROOT, "build/release/bench/bench_limit"),
                        help="measured too when it is there, except with --quick")
    parser.add_argument("--port", type=int, default=21100)
    parser.add_argument("--data", default=os.path.join(ROOT, "build/bench-data"))
    options = parser.parse_args(argv)
    options.data = os.path.abspath(options.data)
    if options.quick:
        options.pairs = 2
    for path in [options.wire] + ([options.barnabas] if options.against == "barnabas" else []):
        if not os.access(path, os.X_OK):
            parser.error(f"{path} is missing: build first (cmake --preset release, ninja)")
    return options


def end_in_order(*_):
    raise SystemExit("ended by a signal; brokers are stopped")


def main(argv):
    options = parse(argv)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end_in_order)
    bench = Bench(options)
    began = time.monotonic()
    bench.process_pairs()
    bench.pairs_of(cases.CACHE_CASES, sync=False)
    bench.pairs_of(cases.SYNC_CASES, sync=True)
    if not bench.legs:
        print("no case is named so, or every one failed", file=sys.stderr)
        return 1
    path = report.write(bench, options, time.monotonic() - began)
    print(path)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
