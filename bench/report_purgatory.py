"""Writes what bench/run_purgatory.py measured: a Markdown page, two plots, every leg as a JSON line."""

import datetime
import json
import os
import statistics
import types

import plot
import report
import run_purgatory as run


class Row:
    """One figure beside its peer's, with a target for their ratio or for the figure itself."""

    def __init__(self, label, unit, ours, peer, kind=None, target=None, is_absolute=False,
                 is_inverse=False):
        self.label, self.unit, self.ours, self.peer = label, unit, ours, peer
        self.kind, self.target, self.is_absolute = kind, target, is_absolute
        self.ratio = None
        if ours and peer and statistics.median(peer) != 0 and statistics.median(ours) != 0:
            self.ratio = statistics.median(ours) / statistics.median(peer)
            if is_inverse:  # how many times faster
                self.ratio = 1 / self.ratio
        # What bench/plot.py wants to see.
        self.kafka, self.barnabas = (ours, peer) if is_inverse else (peer, ours)
        self.case = types.SimpleNamespace(name=label)

    def got(self):
        return statistics.median(self.ours) if self.is_absolute else self.ratio

    def is_met(self):
        if self.target is None or not self.ours or self.got() is None:
            return None
        return self.got() >= self.target if self.kind == ">=" else self.got() <= self.target

    def verdict(self):
        met = self.is_met()
        if met is None:
            return ""
        if met:
            return "met"
        by = self.target / self.got() if self.kind == ">=" else self.got() / self.target
        return f"**missed**, by a factor of {by:.2f}" if self.target and by > 0 else "**missed**"

    def line(self):
        sign = {">=": "at least", "<=": "at most", None: ""}[self.kind]
        unit = f" {self.unit}" if self.is_absolute else " x"
        target = f"{sign} {self.target:g}{unit}" if self.target is not None else "-"
        blur = ""
        if self.ratio is not None and report.do_overlap(self.ours, self.peer):
            blur = " (ranges overlap)"
        ratio = f"{self.ratio:.3g}{blur}" if self.ratio is not None else "-"
        return f"| {self.label} | {spread(self.ours, self.unit)} | {spread(self.peer, self.unit)} " \
               f"| {ratio} | {target} | {self.verdict()} |"


def spread(values, unit):
    """As bench/run.py's pages, but for values below zero too."""
    if not values:
        return "-"
    low, high = min(values), max(values)
    median = statistics.median(values)
    words = [("-" if v < 0 else "") + report.number(abs(v)) for v in (median, low, high)]
    return f"**{words[0]}** {unit} ({words[1]} to {words[2]})"


class Figures:
    def __init__(self, legs):
        self.legs = legs

    def of(self, case, system, key):
        return report.values_of(self.legs, system, case, key)

    def row(self, label, unit, case, key, ours="ours", peer="kafka", **target):
        return Row(label, unit, self.of(case, ours, key), self.of(case, peer, key), **target)


def outstanding_name(count):
    return f"{count:,}"


def window_rows(figures):
    rows = []
    for keys in run.KEYS:
        for count in run.OUTSTANDING:
            for threads in run.THREADS:
                case = f"window-{keys}k-{count}-{threads}t"
                name = f"{keys} key{'s' * (keys > 1)}, {outstanding_name(count)}, " \
                       f"{threads} thread{'s' * (threads > 1)}"
                rows.append(figures.row(name, "op/s", case, "ops_s", kind=">=",
                                        target=4 if count <= 10_000 else 7))
    return rows


def window_cpu_rows(figures):
    return [figures.row(f"{keys} key{'s' * (keys > 1)}, {outstanding_name(count)}, 1 thread", "ns",
                        f"window-{keys}k-{count}-1t", "cpu_ns")
            for keys in run.KEYS for count in run.OUTSTANDING]


def single_rows(figures):
    return [figures.row(f"{keys} key{'s' * (keys > 1)}, {outstanding_name(count)}, 1 thread", "op/s",
                        f"window-{keys}k-{count}-1t-single", "ops_s")
            for keys in run.KEYS for count in run.OUTSTANDING]


def shape_rows(figures):
    """Our side against itself: what a second thread gives, what a hundredfold number costs."""
    rows = []
    for keys in run.KEYS:
        name = f"{keys} key{'s' * (keys > 1)}"
        for count in run.OUTSTANDING:
            one = figures.of(f"window-{keys}k-{count}-1t", "ours", "ops_s")
            two = figures.of(f"window-{keys}k-{count}-2t", "ours", "ops_s")
            rows.append(Row(f"{name}, {outstanding_name(count)}: two threads to one", "op/s", two,
                            one, kind=">=", target=1.6))
        few = figures.of(f"window-{keys}k-10000-1t", "ours", "ns")
        many = figures.of(f"window-{keys}k-1000000-1t", "ours", "ns")
        rows.append(Row(f"{name}: 1,000,000 to 10,000", "ns", many, few, kind="<=", target=5))
    return rows


def arrival_rows(figures):
    rows = []
    for name, (p50, p75) in run.ARRIVALS.items():
        label = f"p50 {p50} / p75 {p75} ms"
        rows.append(figures.row(f"{label}: sustained rate", "1/s", f"redesign-{name}-rate", "rate",
                                kind=">=", target=4))
        rows.append(figures.row(f"{label}: CPU each at 100,000/s", "us", f"redesign-{name}-cpu",
                                "cpu_us", kind="<=", target=0.2))
    rows.append(figures.row("100 keys of 1,000, 10,000/s, timeout 100 ms: CPU each", "us",
                            "keys-100", "cpu_us", kind="<=", target=10, is_absolute=True))
    return rows


def timer_rows(figures):
    rows = []
    for count in run.TIMERS:
        name = outstanding_name(count)
        rows.append(figures.row(f"add and cancel, {name} waiting", "ns", f"hot-{count}", "ns",
                                "wheel", "kafka", kind="<=", target=25, is_absolute=True))
    for count in run.TIMERS:
        limit = {"kind": "<=", "target": 150, "is_absolute": True} if count == 1_000_000 else {}
        rows.append(figures.row(f"first in first out, {outstanding_name(count)}", "ns",
                                f"fifo-{count}", "ns", "wheel", "kafka", **limit))
    return rows


def peer_rows(figures):
    rows = []
    for peer, least in (("heap", 2), ("libuv", 5)):
        for count in run.TIMERS:
            for kind, name in (("fifo", "first in first out"), ("hot", "add and cancel")):
                target = {"kind": ">=", "target": least} if count >= 100_000 else {}
                rows.append(figures.row(f"{name}, {outstanding_name(count)}: {peer}", "ns",
                                        f"{kind}-{count}", "ns", "wheel", peer, is_inverse=True,
                                        **target))
    for count in run.TIMERS:
        rows.append(figures.row(f"expire, {outstanding_name(count)}: heap", "ns",
                                f"expire-{count}", "ns", "wheel", "heap", is_inverse=True))
    return rows


def late_rows(figures):
    def row(label, case, key, kind=None, target=None):
        return figures.row(label, "us", case, key, "wheel", "kafka", kind=kind, target=target,
                           is_absolute=True)
    return [
        row("lateness at 100,000/s: least", "late", "least_us", ">=", 0),
        row("lateness at 100,000/s: p50", "late", "p50_us"),
        row("lateness at 100,000/s: p99", "late", "p99_us", "<=", 1100),
        row("lateness at 100,000/s: most", "late", "most_us"),
        row("step after 3 s of sleep", "idle", "real_us", "<=", 50),
        row("step after a jump of 3 s, median of 1,000", "idle", "jump_us", "<=", 50),
        row("step after a jump of 3 s, most of 1,000", "idle", "jump_most_us"),
        row("the same with 100,000 timers ahead, median of 21", "idle", "many_us"),
        row("the same with 100,000 timers ahead, most of 21", "idle", "many_most_us"),
    ]


def table(rows, ours, peer):
    return [f"| what | {ours} | {peer} | ratio | target | |", "|---|---|---|---|---|---|",
            *(row.line() for row in rows if row.ours)]


def section(title, text, rows, ours="libpurgatory", peer="Kafka 4.4.0"):
    if not any(row.ours for row in rows):
        return []
    return ["", f"## {title}", "", *text, "", *table(rows, ours, peer)]


def verdicts(rows):
    missed = [row for row in rows if row.is_met() is False]
    met = sum(1 for row in rows if row.is_met())
    lines = [f"Of {met + len(missed)} targets {met} were met"
             + (f" and {len(missed)} missed:" if missed else "."), ""]
    for row in missed:
        got = f"{report.number(abs(row.got()))}{' ' + row.unit if row.is_absolute else ' x'}"
        sign = "at least" if row.kind == ">=" else "at most"
        lines.append(f"- {row.label}: {got}, target {sign} {row.target:g}")
    return lines + [""] * bool(missed)


def method(bench, options, seconds):
    shares = [leg["foreign_share"] for leg in bench.legs if "foreign_share" in leg]
    noisy = sum(1 for share in shares if share > run.FOREIGN_SHARE_MAX)
    memory = int(report.first_match("/proc/meminfo", r"MemTotal:\s+(\d+)", "0")) / 1024 / 1024
    java = report.output_of(["java", "-version"]).split("\n")[0]
    cpu = report.first_match("/proc/cpuinfo", r"model name.*: (.*)")
    noise = f"other processes took {statistics.median(shares):.0%} of the machine in the median " \
            f"leg and {max(shares):.0%} in the worst" if shares else "not recorded"
    return [
        f"- Machine: {os.cpu_count()} cores of {cpu}, {memory:.0f} GB, Linux {os.uname().release}.",
        f"- Peer: `DelayedOperationPurgatory` and `SystemTimer` of kafka-server-common 4.4.0, as the"
        f" broker makes them (reaper on, purge interval 1000), in one warm process; {java};"
        f" `{' '.join(run.JAVA_OPTIONS[:5])}`.",
        "- Ours: the static library and the environment (clock, memory, sleep) that the broker"
        " links, built with its flags.",
        f"- Legs: {options.pairs} pairs a case, Kafka's side and ours in turn, the same keys, delays"
        " and orders from one generator. Cells: median (least to greatest).",
        f"- Noise: {noise}; {bench.repeated} legs were repeated for it, {noisy} counted"
        f" nevertheless. The run took {seconds / 60:.0f} min.",
        f"- Every leg is in `{options.name}.jsonl`; the ratio is of medians.",
    ]


def curves(figures, options):
    """Nanoseconds an operation over the number outstanding, a line a side and key count."""
    series = []
    for system, color in (("kafka", plot.KAFKA), ("ours", plot.BARNABAS)):
        for keys in run.KEYS:
            points = [(count, figures.of(f"window-{keys}k-{count}-1t", system, "ns"))
                      for count in run.OUTSTANDING]
            points = [point for point in points if point[1]]
            if points:
                name = "Kafka 4.4.0" if system == "kafka" else "libpurgatory"
                series.append((f"{name}, {keys} key{'s' * (keys > 1)}", color, points))
    if not series:
        return []
    picture = f"{options.name}-curves.svg"
    with open(os.path.join(options.out, picture), "w", encoding="utf-8") as out:
        out.write(plot.curves("Insert, then complete by key, one thread: ns per operation",
                              "operations outstanding", series))
    return ["", f"![ns per operation over the number outstanding]({picture})"]


def ratios(rows, options):
    shown = [row for row in rows if row.ratio is not None and row.ratio > 0]
    if not shown:
        return []
    picture = f"{options.name}-ratios.svg"
    with open(os.path.join(options.out, picture), "w", encoding="utf-8") as out:
        out.write(plot.ratios("libpurgatory beside Kafka's purgatory", shown, left=330,
                              words="libpurgatory divided by Kafka"))
    return ["", f"![ratios]({picture})"]


def write(bench, options, seconds):
    """Writes everything; returns the page's path."""
    os.makedirs(options.out, exist_ok=True)
    figures = Figures(bench.legs)
    window, shape = window_rows(figures), shape_rows(figures)
    arrivals, timers = arrival_rows(figures), timer_rows(figures)
    peers, late = peer_rows(figures), late_rows(figures)
    every = [*window, *shape, *arrivals, *timers, *peers, *late]
    lines = ["# libpurgatory beside Kafka's purgatory", "",
             f"Measured on {datetime.date.today():%d %B %Y} by `bench/run_purgatory.py"
             f"{' --quick' if options.quick else ''}`.", ""]
    lines += verdicts(every) + method(bench, options, seconds)
    lines += section("Insert, then complete by key",
                     ["A number of operations is outstanding; a turn of the loop completes the 16"
                      " oldest, each by an event on one of its keys, and parks 16 new ones. Ours"
                      " tells the library what a loop knows of a turn (`purg_check_many`,"
                      " `purg_prefetch`); the broker does so with the keys of a produce and of a"
                      " fetch. Delays are 30 to 60 s."],
                     window)
    lines += curves(figures, options) + ratios([*window, *arrivals], options)
    lines += section("The same, one after the other",
                     ["A turn of one event and one new operation, by `purg_check` and without"
                      " hints: each miss of a cache is waited for."], single_rows(figures))
    lines += section("In turns of 16: processor time of all threads",
                     ["Kafka's reaper, collector and compiler run beside its caller."],
                     window_cpu_rows(figures))
    lines += section("The shape of ours", ["Our own figures against each other."], shape,
                     "this", "to this")
    lines += section("The test of Kafka's purgatory redesign",
                     ["Exponential arrivals, log-normal completion by a second thread, timeout"
                      " 200 ms, 100 bytes and 3 keys of 100 each. A rate is sustained when both"
                      " threads end less than a twentieth later than their schedule; it is found to"
                      " a tenth."], arrivals)
    lines += section("Timers beside Kafka's", ["One thread; add and cancel is one pair. The ratio is"
                     " ours to Kafka's."], timers)
    lines += section("Timers beside a heap and libuv",
                     ["A keyed binary heap (`bench/timer/heap.c`) and libuv's timers; the ratio says"
                      " how many times faster the wheel is. `expire`: all of them come due, tick by"
                      " tick."], peers, "wheel", "peer")
    lines += section("Lateness and catching up",
                     ["100,000 timers a second in real time; a tick is 1 ms. Below zero is early."],
                     late)
    with open(os.path.join(options.out, f"{options.name}.jsonl"), "w", encoding="utf-8") as out:
        out.writelines(json.dumps(leg) + "\n" for leg in bench.legs)
    path = os.path.join(options.out, f"{options.name}.md")
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(lines) + "\n")
    return path
