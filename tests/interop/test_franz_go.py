"""franz-go: every codec written and read back by tests/interop/franz_go. Part of ./test --full."""

import os
import shutil
import unittest

import fixture

SOURCE = os.path.join(fixture.HERE, "franz_go")


def go_program():
    return shutil.which("go") or shutil.which("/usr/local/go/bin/go")


@unittest.skipIf(go_program() is None, "needs Go")
class FranzGoTest(fixture.BrokerTest):
    def test_every_codec_is_written_and_read_back(self):
        program = os.path.join(self.broker.directory, "franz_go")
        environment = {**os.environ, "GOFLAGS": "-mod=readonly"}
        try:
            fixture.run([go_program(), "build", "-o", program, "."], 300, cwd=SOURCE,
                        env=environment)
        except AssertionError as error:
            if "requires go >=" in str(error):
                self.skipTest("this Go is too old for franz-go")
            raise
        out = fixture.run([program, self.broker.bootstrap, fixture.unique()], 120).stdout
        self.assertEqual(["gzip 2000", "lz4 2000", "none 2000", "snappy 2000", "zstd 2000"],
                         sorted(out.decode().split("\n")[:-1]))


if __name__ == "__main__":
    unittest.main()
