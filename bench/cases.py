"""The cases that bench/run.py measures: what bench_wire is told, and what must come out.

A check is (key of bench_wire's result, label, unit, kind of target, target). Targets are ratios of
medians, Barnabas to Kafka: '>=' at least, '<=' at most, None: shown without a target."""

from dataclasses import dataclass, field

GB = 1e9
LEG_BYTES_MAX = 1_500_000_000  # beyond about 2 GB of dirty pages the disk is measured, not a broker


@dataclass
class Case:
    name: str
    title: str
    args: list
    checks: list = field(default_factory=list)
    seconds: float = 3.0  # at least; the leg may end earlier at LEG_BYTES_MAX


def produce(connections, depth, partitions, batch, record, acks=1, rate=0):
    args = ["produce", "--connections", connections, "--depth", depth, "--partitions", partitions,
            "--batch", batch, "--record", record, "--acks", acks, "--bytes-max", LEG_BYTES_MAX]
    if rate:
        args += ["--rate", rate]
    return [str(arg) for arg in args]


def fetch(connections, load_bytes=400_000_000):
    args = ["fetch", "--connections", connections, "--partitions", 8, "--batch", 65536, "--record",
            1024, "--load-bytes", load_bytes, "--fetch-bytes", 1024 * 1024]
    return [str(arg) for arg in args]


# Kafka as it comes against log.flush.policy=os: both answer from the page cache.
CACHE_CASES = [
    Case("produce-64k", "64 KiB batches of 1 KiB records, 8 connections x 5 in flight, acks=1",
         produce(8, 5, 8, 65536, 1024),
         [("mb_s", "throughput", "MB/s", ">=", 2.0),
          ("cpu_s_per_gb", "broker CPU", "s/GB", "<=", 0.3)]),
    Case("produce-16k", "16 KiB batches of 100-byte records, 8 connections x 5, acks=1",
         produce(8, 5, 8, 16384, 100),
         [("records_s", "records", "1/s", ">=", 2.2),
          ("cpu_s_per_gb", "broker CPU", "s/GB", None, None)]),
    Case("tiny-1x1", "one 100-byte record at a time on one connection, acks=1",
         produce(1, 1, 1, 1, 100),
         [("p50_us", "latency p50", "us", "<=", 0.5),
          ("p99_us", "latency p99", "us", "<=", 0.5),
          ("req_s", "requests", "1/s", None, None),
          ("cpu_us_each", "broker CPU each", "us", None, None)]),
    Case("tiny-64x1", "one 100-byte record at a time on each of 64 connections, acks=1",
         produce(64, 1, 8, 1, 100),
         [("req_s", "requests", "1/s", ">=", 1.6),
          ("p99_us", "latency p99", "us", None, None)]),
    Case("tiny-64x5", "five 100-byte records in flight on each of 64 connections, acks=1",
         produce(64, 5, 8, 1, 100),
         [("req_s", "requests", "1/s", ">=", 2.4),
          ("p99_us", "latency p99", "us", None, None)]),
    Case("fetch-8", "8 connections fetch up to 1 MiB at a time, all in the page cache",
         fetch(8),
         [("mb_s", "throughput", "MB/s", ">=", 1.0),
          ("cpu_s_per_gb", "broker CPU", "s/GB", "<=", 0.85)]),
    Case("parked", "from publishing one record to its arrival at a parked fetch",
         ["parked", "--connections", "2"],
         [("p50_us", "latency p50", "us", "<=", 0.25),
          ("p99_us", "latency p99", "us", None, None),
          ("cpu_us_each", "broker CPU each", "us", None, None)]),
    Case("open-10k", "open loop, 10,000 records/s over 64 connections, from the intended time",
         produce(64, 5, 8, 1, 100, rate=10000),
         [("p50_us", "latency p50", "us", None, None),
          ("p99_us", "latency p99", "us", None, None),
          ("p999_us", "latency p99.9", "us", None, None)]),
    Case("polls-10k", "10,000 fetches parked for 500 ms each, no data",
         ["longpoll", "--connections", "10000", "--partitions", "8", "--warm", "1.5"],
         [("broker_cores", "broker CPU", "cores", None, None),
          ("p99_us", "lateness p99", "us", None, None),
          ("rss_kib", "memory", "KiB", None, None)]),
]

# flush.messages=1 against log.flush.policy=group: both answer acks=all after the disk has it.
SYNC_CASES = [
    Case("sync-64x1", "one 100-byte record at a time on each of 64 connections, acks=all, synced",
         produce(64, 1, 8, 1, 100, acks=-1),
         [("req_s", "requests", "1/s", ">=", 3.0),
          ("p50_us", "latency p50", "us", None, None),
          ("p99_us", "latency p99", "us", None, None)]),
    Case("sync-1x1", "one 100-byte record at a time on one connection, acks=all, synced",
         produce(1, 1, 1, 1, 100, acks=-1),
         [("p50_us", "latency p50", "us", "<=", 0.6),
          ("p99_us", "latency p99", "us", None, None),
          ("req_s", "requests", "1/s", None, None)]),
]

# Of the process itself. These targets are absolute, for Barnabas alone.
PROCESS_CASE = Case(
    "process", "start on an empty directory, memory, stop", [],
    [("start_ms", "start to first answer", "ms", "<=", 20.0),
     ("idle_mb", "memory, idle", "MB", "<=", 8.0),
     ("loaded_mb", "memory after 1 GB in and out", "MB", "<=", 48.0),
     ("stop_ms", "stop", "ms", None, None)])

# What a JVM needs to reach its pace: every kind of leg for a while (seconds; 32 s in all).
WARM_UP = [
    (produce(64, 5, 8, 1, 100), 8),
    (produce(8, 5, 8, 16384, 100), 4),
    (produce(8, 5, 8, 65536, 1024), 4),
    (fetch(8), 5),
    (["parked", "--connections", "2"], 5),
    (produce(1, 1, 1, 1, 100, acks=-1), 6),
]
