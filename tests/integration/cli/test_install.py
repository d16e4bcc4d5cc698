"""What cmake --install puts where, for the program alone."""

import os
import subprocess
import tempfile
import unittest

from cli import PROGRAM

BUILD = os.path.dirname(PROGRAM)


class Install(unittest.TestCase):
    def test_the_program_its_manual_and_its_unit_are_installed(self):
        with tempfile.TemporaryDirectory() as root:
            done = subprocess.run(["cmake", "--install", BUILD, "--component", "barnabas", "--prefix", root],
                                  capture_output=True, timeout=60, check=False)
            self.assertEqual(0, done.returncode, done.stderr)
            installed = subprocess.run([f"{root}/bin/barnabas", "version"], capture_output=True, timeout=20,
                                       check=False)
            self.assertEqual(0, installed.returncode)
            with open(f"{root}/lib/systemd/system/barnabas.service", encoding="utf-8") as file:
                self.assertIn(f"ExecStart={root}/bin/barnabas serve /etc/barnabas/server.properties\n",
                              file.read())
            for path in ("share/man/man1/barnabas.1", "share/doc/barnabas/CONFIGURATION.md",
                         "share/doc/barnabas/examples/server.properties"):
                self.assertTrue(os.path.exists(os.path.join(root, path)), path)

    def test_the_example_configuration_starts_a_broker(self):
        example = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                               "../../../packaging/server.properties")
        with tempfile.TemporaryDirectory() as root:
            process = subprocess.Popen([PROGRAM, "serve", example, "--override", f"log.dirs={root}/data",
                                        "--override", "listeners=PLAINTEXT://127.0.0.1:0"],
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            with process:
                for line in process.stdout:
                    self.assertNotIn(b" WARN ", line, "the example has keys that nobody knows")
                    if b"Kafka Server started" in line:
                        break
                process.terminate()
                process.stdout.read()
                self.assertEqual(0, process.wait(30))


if __name__ == "__main__":
    unittest.main()
