"""A real load of ten million records with kill -9 in the middle. Part of ./test --full.

LOAD_RECORDS says another count. See load_kill9.py for what is checked; a small one is in
test_crash.py."""

import os
import sys
import unittest

from load import run_load

RECORDS = int(os.environ.get("LOAD_RECORDS", "10000000"))


class LoadTest(unittest.TestCase):
    def test_every_acknowledged_record_of_a_long_load_is_read_back_once(self):
        found = run_load(RECORDS, 580)
        self.assertEqual((RECORDS, RECORDS, True), (found["acked"], found["found"], found["good"]))
        print(f"\n{RECORDS / found['produce_s']:,.0f} records/s", file=sys.stderr)


if __name__ == "__main__":
    unittest.main()
