#!/usr/bin/env python3
"""Runs the interop and case tests in one process and closes with unittest's own summary.

    run.py [--full] [--only NAME ...] [--broker kafka]

--only takes file names without "test_" (kcat, java, recovery). --broker kafka runs the same tests
against Apache Kafka 4.4: what they expect must be what Kafka does. --full adds kafka-python,
franz-go and the long load. What the clients need is fetched first, once (setup.sh)."""

import argparse
import glob
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = os.path.join(os.path.dirname(HERE), "cases")
FULL_ONLY = ("kafka_python", "franz_go", "load")


def names(only, full):
    for path in sorted(glob.glob(os.path.join(HERE, "test_*.py"))
                       + glob.glob(os.path.join(CASES, "test_*.py"))):
        module = os.path.basename(path)[:-3]
        short = module[len("test_"):]
        if short in only if only else full or short not in FULL_ONLY:
            yield module


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--broker", choices=("barnabas", "kafka"), default="barnabas")
    args = parser.parse_args()
    os.environ["BROKER"] = args.broker
    subprocess.run([os.path.join(HERE, "setup.sh")], check=True,
                   env={**os.environ, "PYTHON": sys.executable})
    sys.path[:0] = [HERE, CASES]
    chosen = list(names(args.only, args.full))
    if not chosen:
        parser.error("no test of that name")
    suite = unittest.defaultTestLoader.loadTestsFromNames(chosen)
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
