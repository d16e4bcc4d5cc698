"""load_kill9.py, as the tests of crashes and loads call it."""

import json
import os
import subprocess
import sys
import unittest

import fixture


def run_load(records, limit_s):
    """Runs load_kill9.py on the program under test; returns the result line of bench_load."""
    program = os.environ.get("BARNABAS_BIN") or os.path.join(fixture.ROOT, "build/release/barnabas")
    load = os.path.join(os.path.dirname(program), "bench", "bench_load")
    if fixture.is_kafka() or not os.path.exists(load):
        raise unittest.SkipTest("no bench_load beside the program")
    out = fixture.run([sys.executable, os.path.join(fixture.HERE, "load_kill9.py"),
                       "--records", str(records), "--load", load, "--port",
                       str(fixture.free_port()), "--start",
                       f"{program} serve --override listeners=PLAINTEXT://127.0.0.1:{{port}}"
                       " --override log.dirs={data}"], limit_s, stdin=subprocess.DEVNULL).stdout
    return next(json.loads(line) for line in out.splitlines() if line.startswith(b"{"))
