"""franz-go and its kadm, through the program in tests/interop/franz_go. Part of ./test --full."""

import os
import shutil
import unittest

import fixture

SOURCE = os.path.join(fixture.HERE, "franz_go")


def go_program():
    return shutil.which("go") or shutil.which("/usr/local/go/bin/go")


@unittest.skipIf(go_program() is None, "needs Go")
class FranzGoTest(fixture.BrokerTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.program = os.path.join(cls.broker.directory, "franz_go")
        try:
            fixture.run([go_program(), "build", "-o", cls.program, "."], 300, cwd=SOURCE,
                        env={**os.environ, "GOFLAGS": "-mod=readonly"})
        except BaseException as error:
            cls.tearDownClass()
            if "requires go >=" in str(error):
                raise unittest.SkipTest("this Go is too old for franz-go") from error
            raise

    def franz_go(self, what):
        fixture.run([self.program, self.broker.bootstrap, fixture.unique(), what], 90)

    def test_every_codec_is_written_and_read_back(self):
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            with self.subTest(codec):
                self.franz_go(codec)

    def test_many_partitions_are_written_and_read_back(self):
        self.franz_go("partitions")

    def test_a_topic_is_administered_from_creation_to_deletion(self):
        self.franz_go("admin")


if __name__ == "__main__":
    unittest.main()
