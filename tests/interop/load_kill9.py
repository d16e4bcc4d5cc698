#!/usr/bin/env python3
"""A real load with kill -9 in the middle: nothing acknowledged is lost, doubled or out of order.

    load_kill9.py [--records 10000000] [--kills 3] [--load build/release/bench/bench_load]
                  [--start 'build/release/barnabas serve --override ...'] [--peer]

bench_load (librdkafka) writes with four idempotent producers, one a codec, acks=all, to 3 topics of
12 partitions and afterwards reads everything back; see bench/load/load.c for what it checks. This
script starts the broker, kills it with SIGKILL when another share of the records is acknowledged,
starts it again on the same directory and port, and goes on. --start is the broker's command line;
{port} and {data} in it are replaced. --peer runs Apache Kafka 4.4.0 instead (tools/peer).

Exit: 0 when every acknowledged record was read back once and in order, else 1."""

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "peer"))

import kafka  # noqa: E402  (the peer's helper, not a client library)

DEFAULT_START = (os.path.join(ROOT, "build/release/barnabas") + " serve"
                 " --override listeners=PLAINTEXT://127.0.0.1:{port}"
                 " --override log.dirs={data}")


class Broker:
    """A broker given by its command line."""

    def __init__(self, command, port, data):
        self.command = shlex.split(command.format(port=port, data=os.path.join(data, "logs")))
        self.port = port
        self.data = data
        self.process = None

    def start(self):
        os.makedirs(os.path.join(self.data, "logs"), exist_ok=True)
        began = time.monotonic()
        with open(os.path.join(self.data, "broker.out"), "ab") as out:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=subprocess.STDOUT, start_new_session=True)
        kafka.wait_answers(self.port, self.process, 60.0, pause_s=0.001)
        return time.monotonic() - began

    def kill9(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Peer(Broker):
    """Apache Kafka, with the same face."""

    def __init__(self, port, data):
        super().__init__("true", port, data)
        self.node = kafka.Kafka(port, data)

    def start(self):
        self.node.start()
        return self.node.start_s

    def kill9(self):
        self.node.kill9()

    def stop(self):
        self.node.stop()


def run_load(args, broker):
    """Feeds the load, kills at each share of it; returns the result and the restarts' seconds."""
    marks = [args.records * (i + 1) // (args.kills + 1) for i in range(args.kills)]
    restarts = []
    command = [args.load, "--brokers", f"127.0.0.1:{args.port}", "--records", str(args.records),
               "--topics", str(args.topics), "--partitions", str(args.partitions),
               "--record", str(args.record)]
    result = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as load:
        try:
            for line in load.stdout:
                if line.startswith("{"):
                    result = json.loads(line)
                    continue
                acked = int(line.split()[1])
                if marks and acked >= marks[0]:
                    marks.pop(0)
                    broker.kill9()
                    time.sleep(args.pause)
                    restarts.append(broker.start())
                    print(f"killed after {acked:,} acknowledged; answers again after "
                          f"{restarts[-1]:.3f} s", flush=True)
        except BaseException:
            load.kill()
            raise
    return result, restarts


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--topics", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=12)
    parser.add_argument("--record", type=int, default=100, help="bytes of a record's value")
    parser.add_argument("--pause", type=float, default=0.2, help="seconds between kill and start")
    parser.add_argument("--load", default=os.path.join(ROOT, "build/release/bench/bench_load"))
    parser.add_argument("--start", default=DEFAULT_START)
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--port", type=int, default=21400)
    parser.add_argument("--data", help="folder, kept; default: a temporary one")
    return parser.parse_args(argv)


def main(argv):
    args = parse(argv)
    data = args.data or tempfile.mkdtemp(prefix="load-kill9-", dir=os.environ.get("TEST_TMP"))
    broker = Peer(args.port, data) if args.peer else Broker(args.start, args.port, data)
    result = None
    try:
        broker.start()
        result, restarts = run_load(args, broker)
    finally:
        broker.stop()
        if not args.data and result and result["good"]:
            shutil.rmtree(data, ignore_errors=True)
    if result is None:
        print(f"the load did not finish; data and the broker's output are in {data}")
        return 1
    rate = result["acked"] / result["produce_s"]
    print(json.dumps(result))
    print(f"{result['acked']:,} of {result['records']:,} records acknowledged, {len(restarts)} times"
          f" kill -9, {rate:,.0f} records/s over all; read back {result['found']:,} in"
          f" {result['read_s']:.1f} s: {result['missing']} missing, {result['twice']} twice or late,"
          f" {result['disorder']} offsets out of line, {result['damaged']} damaged")
    complete = result["acked"] == result["records"] and len(restarts) == args.kills
    if not complete:
        print(f"not every record was acknowledged, or only {len(restarts)} of {args.kills} kills"
              " happened")
    if not (result["good"] and complete):
        print(f"data and the broker's output are in {data}" if not result["good"] else "")
    return 0 if result["good"] and complete else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
