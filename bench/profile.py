#!/usr/bin/env python3
"""Where Barnabas spends its CPU in one case of bench/run.py: perf's samples, by function.

    bench/profile.py tiny-64x1 [--seconds 5] [--top 40] [--graph] [--kafka]

Needs Linux perf. Prints one line a function with its share of the broker's samples, then the leg's
own result. --graph prints perf's call graph instead. The page of a measurement quotes it where a
target is missed. --kafka: the same for Apache Kafka (Java code is shown as one)."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import cases
import run


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", choices=[case.name for case in
                                         [*cases.CACHE_CASES, *cases.SYNC_CASES]])
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--top", type=int, default=40)
    parser.add_argument("--graph", action="store_true")
    parser.add_argument("--kafka", action="store_true")
    parser.add_argument("--barnabas", default=os.path.join(run.ROOT, "build/release/barnabas"))
    parser.add_argument("--wire", default=os.path.join(run.ROOT, "build/release/bench/bench_wire"))
    parser.add_argument("--port", type=int, default=21500)
    parser.add_argument("--data")
    return parser.parse_args(argv)


def perf_report(samples, options):
    command = ["perf", "report", "--stdio", "-i", samples, "--no-children", "--percent-limit", "0.3"]
    command += ["-g", "caller"] if options.graph else ["-g", "none", "--sort",
                                                         "dso" if options.kafka else "symbol,dso"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    lines = [line for line in done.stdout.decode().split("\n") if line.strip()
             and not line.startswith("#")]
    if options.graph:
        return lines
    return ["  ".join(line.replace("  -      -", "").split()) for line in lines[:options.top]]


def main(argv):
    options = parse(argv)
    case = next(case for case in [*cases.CACHE_CASES, *cases.SYNC_CASES]
                if case.name == options.case)
    sync = case in cases.SYNC_CASES
    data = options.data or tempfile.mkdtemp(prefix="bench-profile-")
    if options.kafka:
        overrides = ["log.flush.interval.messages=1"] if sync else []
        broker = run.kafka.Kafka(options.port, data, overrides)
    else:
        broker = run.Barnabas(options.barnabas, options.port, data, "group" if sync else "os")
    samples = os.path.join(data, "perf.data")
    try:
        broker.start()
        wire = [options.wire, *case.args, "--port", str(broker.port), "--pid", str(broker.pid),
                "--seconds", str(options.seconds)]
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "1999", "-o", samples,
                  *(["-g"] if options.graph else []), "-p", str(broker.pid), "--", *wire]
        done = subprocess.run(record, stdout=subprocess.PIPE, check=False)
        if done.returncode != 0:
            print(done.stdout.decode(), file=sys.stderr)
            return 1
        result = json.loads(done.stdout.decode().strip().split("\n")[-1])
        print("\n".join(perf_report(samples, options)))
        print(json.dumps(result))
    finally:
        broker.stop()
        shutil.rmtree(data, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
