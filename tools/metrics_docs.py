#!/usr/bin/env python3
"""Writes docs/METRICS.md from the table in src/broker/metrics.c.

    metrics_docs.py           write it
    metrics_docs.py --check   exit 1 if it is not what would be written
    metrics_docs.py --list    names and types, for tests"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "src" / "broker" / "metrics.c"
TARGET = ROOT / "docs" / "METRICS.md"
LABELS = {
    "read_process": "", "read_refused": "", "read_sessions": "", "read_replicas": "", "read_cluster": "",
    "read_flushes": "", "read_topic": "none, or `topic`", "read_log": "`topic` `partition`",
    "read_produce_expired": "none, or `topic` `partition`", "read_requests": "`request` `version`",
    "read_times": "`request`", "read_processors": "`listener` `networkProcessor`",
}
LABELS_OF = {
    "barnabas_connections_closed_total": "`reason`",
    "kafka_log_logmanager_logdirectoryoffline": "`logDirectory`",
    "kafka_server_delayedfetchmetrics_expires_total": "`fetcherType`",
}

INTRO = """# Metrics

The table is written by `tools/metrics_docs.py` from `src/broker/metrics.c`; do not edit.

`http.listener=127.0.0.1:9404` (any `host:port`; see `docs/CONFIGURATION.md`) serves, without any check of who asks:

| path | |
|---|---|
| `/metrics` | Prometheus text, format 0.0.4 |
| `/healthz` | 200 while every network thread finishes its turns, 503 when one has not for 5 s |
| `/readyz` | 200 while requests are answered; 503 while the broker starts or stops, and when every data directory has failed |

It needs libmicrohttpd (Debian: `libmicrohttpd12`), which is loaded only when the key is set. Without the key nothing
listens and nothing is started.

Names are those that Prometheus' JMX exporter gives Kafka's MBeans by its example rules for Kafka (so `BytesInPerSec`
becomes `..._bytesin_total`), so dashboards made for those find them. What Kafka does not have begins with `barnabas_`. A
metric of Kafka's that would always be zero on one broker is left out. Counters begin at zero when the broker starts.

- Times are summaries over everything since the start, not over a sliding window as in Kafka; quantiles are at most 1/16
  too high. `_sum` and `_count` give averages over any window.
- `sum()` over a topic metric counts twice: the sample without label is the sum over all topics, deleted ones included.
- The purgatory `Controller` holds requests that wait for a change of metadata.
- A scrape of 10,000 partitions is 2.3 MB (55 ms on two cores) and is made while it is sent; the data plane waits for none of it.

| name | type | labels | |
|---|---|---|---|
"""


def rows():
    text = TABLE.read_text()
    body = re.search(r"static const struct metric rows\[\] = \{\n(.*?)\n\};", text, re.S).group(1)
    found = re.findall(r'\{"(\w+)",\s*"([^"]*)",\s*METRIC_(\w+),\s*\w+,\s*(\w+)\}', body)
    if len(found) != body.count("METRIC_"):
        raise SystemExit(f"{TABLE.name}: {body.count('METRIC_')} rows, {len(found)} understood")
    for name, text, kind, read in found:
        labels = LABELS_OF.get(name)
        if labels is None:
            labels = LABELS.get(read, "`delayedOperation`" if read == "read_purgatories" else "")
        yield name, kind.lower(), labels, text


def document():
    return INTRO + "".join("| `%s` | %s | %s | %s |\n" % row for row in rows())


def main():
    text = document()
    if sys.argv[1:] == ["--check"]:
        if not TARGET.exists() or TARGET.read_text() != text:
            raise SystemExit("docs/METRICS.md is not fresh: run tools/metrics_docs.py")
    elif sys.argv[1:] == ["--list"]:
        for name, kind, _, _ in rows():
            print(name, kind)
    elif sys.argv[1:]:
        raise SystemExit("metrics_docs.py: expected nothing, --check or --list")
    else:
        TARGET.write_text(text)


if __name__ == "__main__":
    main()
