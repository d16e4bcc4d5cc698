"""The built program as its user meets it: arguments in; exit code, output and messages out.

Place:   tests/integration/cli. Brokers come from tests/interop/fixture.py; PORTS, TEST_TMP and
         BARNABAS_BIN as there.
Limits:  every call has one."""

import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "tests", "interop"))
import fixture  # noqa: E402

PROGRAM = os.environ.get("BARNABAS_BIN") or os.path.join(ROOT, "build/release/barnabas")


class Done:
    def __init__(self, process):
        self.code = process.returncode
        self.out = process.stdout.decode()
        self.err = process.stderr.decode()

    def __repr__(self):
        return f"exit code {self.code}\n{self.out}\n{self.err}"

    def json(self):
        return json.loads(self.out)

    def lines(self):
        """One object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def barnabas(*arguments, text=None, limit_s=60):
    command = [PROGRAM, *[str(argument) for argument in arguments]]
    stdin = {"input": text if isinstance(text, bytes) else (text or "").encode()}
    return Done(subprocess.run(command, capture_output=True, timeout=limit_s, check=False, **stdin))


class ClientTest(fixture.BrokerTest):
    """Client commands against one broker."""

    def call(self, *arguments, text=None, code=0):
        """Runs a client command, checks its exit code."""
        done = barnabas(*arguments, "-b", self.broker.bootstrap, text=text)
        self.assertEqual(code, done.code, done)
        return done

    def topic(self, *options):
        name = fixture.unique()
        self.call("topic", "create", name, *options)
        return name

    def consume(self, topic, *options):
        return self.call("consume", topic, "--from-beginning", "-e", "--format", "json",
                         *options).lines()
