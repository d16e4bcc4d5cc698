"""Writes what bench/run.py measured: a Markdown page, plots in SVG, and every leg as a JSON line."""

import datetime
import json
import os
import platform
import re
import statistics
import subprocess

import cases
import plot


def values_of(legs, system, case, key):
    return [leg[key] for leg in legs
            if leg["system"] == system and leg["case"] == case and key in leg]


def number(value):
    """Three significant digits, thousands separated."""
    if value == 0:
        return "0"
    digits = 0
    size = abs(value)
    while size < 100 and digits < 4:
        size *= 10
        digits += 1
    return f"{value:,.{digits}f}"


def spread(values, unit):
    if not values:
        return "-"
    if len(values) == 1:
        return f"{number(values[0])} {unit}"
    return f"**{number(statistics.median(values))}** {unit} ({number(min(values))} to " \
           f"{number(max(values))})"


def do_overlap(one, other):
    return min(one) <= max(other) and min(other) <= max(one)


class Row:
    """One check of one case with its verdict."""

    def __init__(self, legs, case, check, is_absolute):
        self.case = case
        self.key, self.label, self.unit, self.kind, self.target = check
        self.kafka = values_of(legs, "kafka", case.name, self.key)
        self.barnabas = values_of(legs, "barnabas", case.name, self.key)
        self.limit = values_of(legs, "limit", case.name, self.key)
        self.ratio = None
        self.is_absolute = is_absolute
        if self.kafka and self.barnabas and statistics.median(self.kafka) > 0:
            self.ratio = statistics.median(self.barnabas) / statistics.median(self.kafka)

    def measured(self):
        if not self.is_absolute:
            return self.ratio
        return statistics.median(self.barnabas) if self.barnabas else None

    def verdict(self):
        got = self.measured()
        if self.target is None or got is None:
            return ""
        if (got >= self.target) if self.kind == ">=" else (got <= self.target):
            return "reached"
        factor = self.target / got if self.kind == ">=" else got / self.target
        return f"**missed** by a factor of {factor:.2f}"

    def target_text(self):
        if self.target is None:
            return "-"
        sign = "at least" if self.kind == ">=" else "at most"
        unit = f" {self.unit}" if self.is_absolute else " K"
        return f"{sign} {self.target:g}{unit}"

    def ratio_text(self):
        if self.ratio is None:
            return "-"
        blur = ""
        if len(self.kafka) > 1 and len(self.barnabas) > 1 and do_overlap(self.kafka, self.barnabas):
            blur = " (ranges overlap)"
        return f"{self.ratio:.3g}{blur}"


def rows_of(legs, wanted, is_absolute=False):
    measured = {leg["case"] for leg in legs}
    return [Row(legs, case, check, is_absolute) for case in wanted if case.name in measured
            for check in case.checks]


def table(rows):
    has_limit = any(row.limit for row in rows)
    lines = ["| case | what | Kafka 4.4.0 (K) | Barnabas | ratio | target | |",
             "|---|---|---|---|---|---|---|"]
    if has_limit:
        lines = [lines[0] + " limit |", lines[1] + "---|"]
    for row in rows:
        lines.append(f"| {row.case.name} | {row.label} | {spread(row.kafka, row.unit)} "
                     f"| {spread(row.barnabas, row.unit)} | {row.ratio_text()} "
                     f"| {row.target_text()} | {row.verdict()} |"
                     + (f" {spread(row.limit, row.unit)} |" if has_limit else ""))
    return lines


def first_match(path, pattern, fallback="unknown"):
    try:
        with open(path, encoding="utf-8") as source:
            found = re.search(pattern, source.read(), re.MULTILINE)
        return found.group(1) if found else fallback
    except OSError:
        return fallback


def output_of(command):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.stdout.decode().strip()
    except OSError:
        return "unknown"


def machine(options):
    memory = int(first_match("/proc/meminfo", r"MemTotal:\s+(\d+)", "0")) / 1024 / 1024
    disk = output_of(["findmnt", "-n", "-o", "FSTYPE", "-T", os.path.dirname(options.data)])
    java = output_of(["java", "-version"]).split("\n")[0]
    return [
        f"- Machine: {os.cpu_count()} cores of {first_match('/proc/cpuinfo', r'model name.*: (.*)')}"
        f", {memory:.0f} GB, Linux {platform.release()}, data on {disk}; brokers and generator share"
        " it.",
        f"- Kafka: 4.4.0 in KRaft mode, one node, 1 GB heap, G1 as its own scripts set it; {java}.",
    ]


def method(bench, options, seconds):
    legs = [leg for leg in bench.legs if leg["case"] != "process"]
    foreign = max((leg["foreign_share"] for leg in legs), default=0)
    steal = max((leg["steal_share"] for leg in legs), default=0)
    noisy = sum(1 for leg in legs if not leg["quiet"])
    leg_s = 2 if options.quick else options.seconds
    return [
        f"- Legs: {options.pairs} pairs a case, Kafka and Barnabas in turn, {leg_s:g} s each (less"
        f" where {cases.LEG_BYTES_MAX / 1e9:g} GB were written first), a fresh topic each, deleted"
        f" and synced after; Kafka was warmed up for {6 if options.quick else 32} s.",
        "- Generator: `bench/wire`, one thread, epoll, prebuilt batches, every answer's error code"
        " checked; fetched bytes are dropped in the kernel. Latency in the open loop counts from the"
        " intended time. CPU is the process's own clock, of all its threads.",
        f"- Noise: other processes took at most {foreign:.0%} of the machine in a leg that counts,"
        f" the hypervisor {steal:.0%}; {bench.discarded} legs were thrown away and repeated,"
        f" {noisy} counted although the machine was not quiet. The run took {seconds / 60:.0f} min.",
        "- The limit is `bench_limit`, a program of one thread that only receives, checks the CRC,"
        " writes and answers (fetch: sendfile; long polls: all that expire in a millisecond at once):"
        " it bounds what any broker can do here.",
        "- Cells: median (least to greatest) over the legs; the ratio is Barnabas' median to Kafka's"
        f"; every leg is in `{options.name}.jsonl`.",
    ]


def failures(bench):
    if not bench.failures:
        return []
    lines = ["", "## Cases that did not run", ""]
    for (system, case), message in bench.failures.items():
        lines.append(f"- {case}, {system}: {message}")
    return lines


def section(title, text, rows, picture, options):
    if not rows:
        return []
    lines = ["", f"## {title}", "", text, "", *table(rows)]
    ratios = [row for row in rows if row.ratio is not None and not row.is_absolute]
    if picture and ratios:
        with open(os.path.join(options.out, picture), "w", encoding="utf-8") as out:
            out.write(plot.ratios(title, ratios))
        lines += ["", f"![ratios]({picture})"]
    return lines


def write(bench, options, seconds):
    """Writes everything; returns the page's path."""
    os.makedirs(options.out, exist_ok=True)
    legs = bench.legs
    every = [*cases.CACHE_CASES, *cases.SYNC_CASES]
    lines = ["# Barnabas beside Apache Kafka 4.4.0", ""]
    if options.against == "kafka":
        lines += ["**Kafka is on both sides of this page: it shows the noise of the method.**", ""]
    lines += [f"Measured on {datetime.date.today():%d %B %Y} by `bench/run.py"
              f"{' --quick' if options.quick else ''}`. \"K\" is Kafka's median in the same run.", ""]
    lines += machine(options) + method(bench, options, seconds)
    lines += section("Kafka's defaults against `log.flush.policy=os`",
                     "Both answer from the page cache and leave writing to the kernel.",
                     rows_of(legs, cases.CACHE_CASES), f"{options.name}-cache.svg", options)
    lines += section("Kafka's `flush.messages=1` against `log.flush.policy=group`",
                     "Both answer acks=all only when the disk has the record.",
                     rows_of(legs, cases.SYNC_CASES), f"{options.name}-sync.svg", options)
    lines += section("The process", "Targets here are absolute and for Barnabas alone.",
                     rows_of(legs, [cases.PROCESS_CASE], is_absolute=True), None, options)
    picture = f"{options.name}-legs.svg"
    with open(os.path.join(options.out, picture), "w", encoding="utf-8") as out:
        out.write(plot.legs(rows_of(legs, every)))
    lines += ["", "## Every leg", "", f"![every leg]({picture})", "", "The cases:", ""]
    lines += [f"- `{case.name}`: {case.title}. `bench_wire {' '.join(case.args)}`" for case in every
              if any(leg["case"] == case.name for leg in legs)]
    lines += failures(bench)
    with open(os.path.join(options.out, f"{options.name}.jsonl"), "w", encoding="utf-8") as out:
        out.writelines(json.dumps(leg) + "\n" for leg in legs)
    path = os.path.join(options.out, f"{options.name}.md")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    return path
