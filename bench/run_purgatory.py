#!/usr/bin/env python3
"""Measures libpurgatory beside Kafka's own purgatory and timer, libuv and a heap; writes the page.

    bench/run_purgatory.py [--quick] [--pairs N] [--only REGEX] [--out docs/benchmarks]

Legs alternate (Kafka's classes, ours, Kafka's, ...), at least 5 times a case, in one run, with the
same keys, delays and orders (bench/purgatory/common.h and java/Common.java). Kafka's side is one
Java process that is warmed up first. A leg in which other processes took more than a tenth of the
machine is repeated once. --quick: 2 pairs of short legs, to see that everything runs.

Needs bench_purgatory and bench_timer (build/release; libuv1-dev), Java 17 and Maven (tools/peer
fetches Kafka)."""

import argparse
import datetime
import json
import os
import re
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)

import report_purgatory  # noqa: E402

FOREIGN_SHARE_MAX = 0.10
REPEAT_UNTIL_S = 480  # afterwards noisy legs are not repeated, so that a run ends
KEYS = (1, 3)
OUTSTANDING = (128, 10_000, 100_000, 1_000_000)
THREADS = (1, 2)
TURNS = {"": 16, "-single": 1}  # events that a loop has read when it starts to treat them
TIMERS = (10_000, 100_000, 1_000_000)
# The redesign's two cases: p50 and p75 of the completion times in ms.
ARRIVALS = {"low": (20, 60), "high": (200, 400)}
JAVA_OPTIONS = ["-Xms4G", "-Xmx4G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20",
                "-XX:InitiatingHeapOccupancyPercent=35",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


class Java:
    """Kafka's side: legs go in by lines, results come out by lines."""

    def __init__(self, work):
        jars = subprocess.run([os.path.join(ROOT, "tools/peer/fetch.sh")], check=True,
                              stdout=subprocess.PIPE).stdout.decode().strip()
        classes = os.path.join(work, "purgatory-java")
        os.makedirs(classes, exist_ok=True)
        source = os.path.join(HERE, "purgatory/java")
        files = [os.path.join(source, name) for name in sorted(os.listdir(source))
                 if name.endswith(".java")]
        subprocess.run(["javac", "-cp", f"{jars}/*", "-d", classes, *files], check=True)
        command = ["java", *JAVA_OPTIONS, "-cp", f"{classes}:{jars}/*", "Main"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def leg(self, args):
        self.process.stdin.write((" ".join(args) + "\n").encode())
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"Kafka's side ended in {' '.join(args)}")
        return json.loads(line)

    def cpu_s(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as source:
            fields = source.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.stdin.close()
        self.process.wait(60)


class Native:
    """Our side and the other peers: a process a leg."""

    def __init__(self, program):
        self.program = program

    def leg(self, args):
        done = subprocess.run([self.program, *args], stdout=subprocess.PIPE, check=False,
                              timeout=120)
        if done.returncode != 0:
            raise RuntimeError(f"{os.path.basename(self.program)} {' '.join(args)} ended with "
                               f"{done.returncode}")
        return json.loads(done.stdout)

    @staticmethod
    def cpu_s():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime


def machine_busy_s():
    with open("/proc/stat", encoding="ascii") as source:
        ticks = [int(word) for word in source.readline().split()[1:]]
    return (sum(ticks[:3]) + ticks[5] + ticks[6] + ticks[7]) / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, options):
        self.options = options
        self.legs = []
        self.began = time.monotonic()
        self.repeated = 0
        self.guess = {}  # (system, case) -> the last highest sustained rate
        self.java = Java(options.work)
        self.systems = {"kafka": self.java, "purgatory": Native(options.purgatory),
                        "timer": Native(options.timer)}

    def say(self, words):
        print(f"{datetime.datetime.now():%H:%M:%S} {words}", flush=True)

    def measure(self, runner, args):
        """One leg; its result with the share of the machine that others took meanwhile."""
        for attempt in range(2):
            busy, own, at = machine_busy_s(), runner.cpu_s(), time.monotonic()
            result = runner.leg([str(arg) for arg in args])
            span = time.monotonic() - at
            foreign = (machine_busy_s() - busy - (runner.cpu_s() - own)) / span / os.cpu_count()
            result["foreign_share"] = round(min(1.0, max(0.0, foreign)), 3)
            late = time.monotonic() - self.began > REPEAT_UNTIL_S
            if foreign <= FOREIGN_SHARE_MAX or late or self.options.quick or attempt == 1:
                return result
            self.repeated += 1
        raise AssertionError("unreachable")

    def leg(self, runner, system, case, pair, args):
        result = self.measure(self.systems[runner], args)
        result.update(case=case, system=system, pair=pair)
        self.legs.append(result)
        numbers = ", ".join(f"{key} {value}" for key, value in result.items()
                            if key not in ("case", "system", "pair"))
        self.say(f"{case:24} {system:8} {numbers}")

    def wanted(self, case):
        return re.search(self.options.only, case)

    def windows(self, pair):
        span_ms = 100 if self.options.quick else 450
        for keys in KEYS:
            for outstanding in OUTSTANDING:
                for threads, name in [*((count, "") for count in THREADS), (1, "-single")]:
                    case = f"window-{keys}k-{outstanding}-{threads}t{name}"
                    if self.wanted(case):
                        args = ["window", keys, outstanding, threads, span_ms, TURNS[name]]
                        self.leg("kafka", "kafka", case, pair, args)
                        self.leg("purgatory", "ours", case, pair, args)

    def arrivals_args(self, name, rate, span_s, keys=3, space=100, timeout_ms=200):
        return ["arrivals", *ARRIVALS[name], int(rate), int(rate * span_s), timeout_ms, keys, space]

    def is_sustained(self, runner, name, rate):
        """Twice before it counts as a no: one hiccup of the machine is no limit."""
        span_s = 0.3 if self.options.quick else 0.8
        for _ in range(2):
            result = self.systems[runner].leg(
                [str(arg) for arg in self.arrivals_args(name, rate, span_s)])
            if result["sustained"]:
                return True
        return False

    def highest_rate(self, runner, name):
        """The highest sustained rate, to a tenth: steps up or down from the last one, then halves."""
        known = self.guess.get((runner, name))
        step = 1.25 if known else 2.0
        rate = known or 100_000.0
        if self.is_sustained(runner, name, rate):
            low, high = rate, rate * step
            while high < 30e6 and self.is_sustained(runner, name, high):
                low, high = high, high * step
        else:
            low, high = rate / step, rate
            while low > 1000 and not self.is_sustained(runner, name, low):
                low, high = low / step, low
        while high / low > 1.1:
            middle = (low * high) ** 0.5
            if self.is_sustained(runner, name, middle):
                low = middle
            else:
                high = middle
        self.guess[runner, name] = low
        return low

    def arrivals(self, pair):
        span_s = 0.3 if self.options.quick else 1.0
        for name in ARRIVALS:
            for runner, system in (("kafka", "kafka"), ("purgatory", "ours")):
                case = f"redesign-{name}-rate"
                if self.wanted(case):
                    leg = {"case": case, "system": system, "pair": pair,
                           "rate": round(self.highest_rate(runner, name))}
                    self.legs.append(leg)
                    self.say(f"{case:24} {system:8} {leg['rate']:,}/s")
                case = f"redesign-{name}-cpu"
                if self.wanted(case):
                    self.leg(runner, system, case, pair, self.arrivals_args(name, 100_000, span_s))
        for runner, system in (("kafka", "kafka"), ("purgatory", "ours")):
            if self.wanted("keys-100"):
                self.leg(runner, system, "keys-100", pair,
                         self.arrivals_args("low", 10_000, span_s, 100, 1000, 100))

    def timers(self, pair):
        span_ms = 50 if self.options.quick else 250
        for kind in ("hot", "fifo"):
            for outstanding in TIMERS:
                case = f"{kind}-{outstanding}"
                if not self.wanted(case):
                    continue
                self.leg("kafka", "kafka", case, pair, [kind, "kafka", outstanding, span_ms])
                for which in ("wheel", "heap", "libuv"):
                    self.leg("timer", which, case, pair, [kind, which, outstanding, span_ms])
        for outstanding in TIMERS:
            case = f"expire-{outstanding}"
            if self.wanted(case):
                for which in ("wheel", "heap"):
                    self.leg("timer", which, case, pair, ["expire", which, outstanding])
        late_ms = 300 if self.options.quick else 1500
        if self.wanted("late"):
            self.leg("kafka", "kafka", "late", pair, ["late", "kafka", 100_000, late_ms])
            self.leg("timer", "wheel", "late", pair, ["late", "wheel", 100_000, late_ms])
        if self.wanted("idle"):
            self.leg("timer", "wheel", "idle", pair, ["idle"])

    def warm_up(self):
        """Every kind of leg on Kafka's side, until its compiler has nothing left to do."""
        rounds, span_ms = (1, 200) if self.options.quick else (3, 900)
        self.say("warming up Kafka's side")
        for _ in range(rounds):
            for keys in KEYS:
                for threads in THREADS:
                    for turn in TURNS.values():
                        self.java.leg(["window", str(keys), "1000", str(threads), str(span_ms // 2),
                                       str(turn)])
            for args in (self.arrivals_args("low", 100_000, span_ms / 1000),
                         ["hot", "kafka", 1000, span_ms], ["fifo", "kafka", 1000, span_ms],
                         ["late", "kafka", 100_000, span_ms]):
                self.java.leg([str(arg) for arg in args])


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="purgatory")
    parser.add_argument("--out", default=os.path.join(ROOT, "docs", "benchmarks"))
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="regular expression over case names")
    parser.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    options = parser.parse_args(argv)
    if options.quick:
        options.pairs = 2
    options.work = os.path.join(options.build, "bench")
    options.purgatory = os.path.join(options.work, "purgatory/bench_purgatory")
    options.timer = os.path.join(options.work, "timer/bench_timer")
    for path in (options.purgatory, options.timer):
        if not os.access(path, os.X_OK):
            parser.error(f"{path} is missing: build first (cmake --preset release, ninja)")
    return options


def main(argv):
    options = parse(argv)
    bench = Bench(options)
    try:
        bench.warm_up()
        for pair in range(options.pairs):
            bench.windows(pair)
            bench.arrivals(pair)
            bench.timers(pair)
    finally:
        bench.java.stop()
    if not bench.legs:
        print("no case is named so", file=sys.stderr)
        return 1
    print(report_purgatory.write(bench, options, time.monotonic() - bench.began))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
