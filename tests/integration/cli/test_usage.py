"""Help teaches, and what is wrong on a command line is said with what was expected."""

import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

from cli import PROGRAM, ROOT, barnabas

COMMANDS = [("serve",), ("topic", "create"), ("topic", "list"), ("topic", "describe"),
            ("topic", "alter"), ("topic", "delete"), ("produce",), ("consume",), ("dump-log",),
            ("version",)]


class Help(unittest.TestCase):
    def test_every_command_explains_itself_with_two_examples(self):
        for command in COMMANDS:
            for flag in ("--help", "-h"):
                done = barnabas(*command, flag)
                self.assertEqual(0, done.code, done)
                self.assertEqual("", done.err)
                name = " ".join(command)
                self.assertTrue(done.out.startswith(f"Usage: barnabas {name}"), done)
                examples = done.out.split("\nExamples:\n")[1].strip().splitlines()
                self.assertEqual(2, len(examples), done)
                for line in examples:
                    self.assertIn(f"barnabas {name}", line)
                self.assertLessEqual(max(map(len, done.out.splitlines())), 100, done)

    def test_examples_use_only_options_that_exist(self):
        for command in COMMANDS:
            text = barnabas(*command, "--help").out
            options = set(re.findall(r"--[a-z-]+", text.split("\nExamples:\n")[0]))
            examples = re.sub(r"\| .*", "", text.split("\nExamples:\n")[1])
            self.assertLessEqual(set(re.findall(r"--[a-z-]+", examples)), options, command)

    def test_the_manual_page_names_every_option(self):
        with open(os.path.join(ROOT, "packaging", "barnabas.1"), encoding="utf-8") as file:
            manual = file.read().replace("\\-", "-")
        for command in COMMANDS:
            for option in re.findall(r"--[a-z-]+", barnabas(*command, "--help").out.split("\nExamples:")[0]):
                self.assertRegex(manual, rf"{option}\b", command)
        self.assertIn('"barnabas ' + barnabas("version").out.split()[1] + '"', manual)

    def test_the_program_lists_its_commands(self):
        for arguments, code, stream in [((), 2, "err"), (("--help",), 0, "out"), (("help",), 0, "out"),
                                        (("topic",), 2, "err"), (("topic", "--help"), 0, "out")]:
            done = barnabas(*arguments)
            self.assertEqual(code, done.code, done)
            names = ["create", "delete"] if "topic" in arguments else ["serve", "topic", "dump-log"]
            for name in names:
                self.assertIn(f"  {name} ", getattr(done, stream))

    def test_version(self):
        done = barnabas("version")
        self.assertEqual(0, done.code)
        self.assertRegex(done.out, r"^barnabas \d+\.\d+\.\d+ ")
        self.assertEqual(done.out, barnabas("--version").out)
        version = barnabas("version", "--format", "json").json()
        self.assertIn(version["version"], done.out)


class Output(unittest.TestCase):
    """What could not be printed makes the command fail."""

    def run_with(self, stdout, *arguments):
        return subprocess.run([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.PIPE, text=True, timeout=20, check=False)

    def test_a_full_device_and_a_closed_pipe(self):
        for command in [("--help",), ("help",), ("-h",), ("topic", "--help"), ("version", "--format", "json"),
                        *((*command, "--help") for command in COMMANDS), ("version",)]:
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = self.run_with(full, *command)
            self.assertEqual(1, done.returncode, command)
            self.assertIn("standard output could not be written", done.stderr)
            reading, writing = os.pipe()
            os.close(reading)
            done = self.run_with(writing, *command)
            os.close(writing)
            self.assertEqual(-signal.SIGPIPE, done.returncode, command)

    def test_closed_streams(self):
        def shell(line):
            return subprocess.run(["sh", "-c", line, PROGRAM], capture_output=True, text=True, timeout=20,
                                  check=False)
        done = shell('"$0" --help >&-')
        self.assertEqual(1, done.returncode)
        self.assertIn("standard output could not be written", done.stderr)
        self.assertEqual(2, shell('"$0" nonsense >&- 2>&- <&-').returncode)

    def test_a_broker_without_output_writes_its_lines_nowhere(self):
        with tempfile.TemporaryDirectory() as data:
            command = [PROGRAM, "serve", "--override", f"log.dirs={data}",
                       "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
            with subprocess.Popen(["sh", "-c", 'exec "$@" >&-', "sh", *command]) as process:
                while not os.path.exists(f"{data}/__cluster_metadata-0/00000000000000000000.log"):
                    self.assertIsNone(process.poll())
                    time.sleep(0.01)
                process.terminate()
                self.assertEqual(0, process.wait(30))
            for path, _, names in os.walk(data):
                for name in names:
                    with open(os.path.join(path, name), "rb") as file:
                        self.assertNotIn(b" INFO ", file.read(), name)


class Library(unittest.TestCase):
    """librdkafka is there for the client commands alone."""

    def linked(self):
        return subprocess.run([PROGRAM], env={**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"},
                              capture_output=True, text=True, timeout=20, check=True).stdout

    def test_the_program_does_not_link_it(self):
        self.assertIn("libjansson", self.linked())
        self.assertNotIn("librdkafka", self.linked())

    def with_library(self, target, *arguments):
        with tempfile.TemporaryDirectory() as libraries:
            os.symlink(target, f"{libraries}/librdkafka.so.1")
            return subprocess.run([PROGRAM, *arguments], env={**os.environ, "LD_LIBRARY_PATH": libraries},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20,
                                  check=False)

    def test_a_missing_one_is_named_with_its_package(self):
        for arguments in (("produce", "t"), ("consume", "t"), ("topic", "list")):
            done = self.with_library("/dev/null", *arguments)
            self.assertEqual(1, done.returncode, done)
            self.assertIn("needs librdkafka.so.1, which is not installed (Debian: librdkafka1)\n", done.stderr)
            self.assertTrue(done.stderr.startswith(f"barnabas {arguments[0]}"), done)
            self.assertEqual("", done.stdout)

    def test_one_without_the_functions_is_refused(self):
        other = re.search(r"libjansson\S* => (\S+)", self.linked()).group(1)
        done = self.with_library(other, "topic", "list")
        self.assertEqual(1, done.returncode, done)
        self.assertIn("librdkafka.so.1, which is too old here", done.stderr)

    def test_other_commands_do_without(self):
        for arguments in (("version",), ("--help",), ("produce", "--help")):
            self.assertEqual(0, self.with_library("/dev/null", *arguments).returncode)


class Misuse(unittest.TestCase):
    def refused(self, *arguments):
        done = barnabas(*arguments)
        self.assertEqual(2, done.code, done)
        self.assertEqual("", done.out)
        return done.err

    def test_unknown_commands_and_options(self):
        self.assertIn("unknown command 'frobnicate'", self.refused("frobnicate"))
        self.assertIn("unknown command 'rename'", self.refused("topic", "rename"))
        self.assertIn("unknown option '--frob'", self.refused("produce", "t", "--frob"))
        self.assertIn("unknown option '-Q'", self.refused("consume", "t", "-Q"))
        self.assertIn("unknown option '--partition-count=1'",
                      self.refused("topic", "create", "t", "--partition-count=1"))

    def test_values_name_what_was_expected(self):
        for value in ("x", "0", "-1", "1.5", "", " 1", "99999999999999999999"):
            self.assertIn(f"--partitions: expected a whole number from 1 to 100000, got '{value}'",
                          self.refused("topic", "create", "t", "--partitions", value))
        self.assertIn("--partitions: expected N after it", self.refused("topic", "alter", "t", "-p"))
        self.assertIn("--config: expected key=value, got 'retention.ms'",
                      self.refused("topic", "create", "t", "--config", "retention.ms"))
        self.assertIn("--config: expected key=value, got '=1'",
                      self.refused("topic", "create", "t", "-c=1"))
        self.assertIn("--format: expected one of table|json, got 'xml'",
                      self.refused("topic", "list", "--format=xml"))
        self.assertIn("--acks: expected one of all|1|0, got '2'",
                      self.refused("produce", "t", "--acks", "2"))
        self.assertIn("--deep: expected no value, got 'yes'", self.refused("dump-log", ".", "--deep=yes"))
        self.assertIn("--key-separator: expected at least one character",
                      self.refused("produce", "t", "--key-separator", ""))

    def test_operands(self):
        self.assertIn("expected NAME", self.refused("topic", "create"))
        self.assertIn("unexpected argument 'b'", self.refused("topic", "create", "a", "b"))
        self.assertIn("expected TOPIC", self.refused("consume"))
        self.assertIn("expected FILE|DIR...", self.refused("dump-log"))
        for command in (("produce",), ("consume",), ("serve",), ("dump-log",), ("topic", "create"),
                        ("topic", "describe"), ("topic", "alter"), ("topic", "delete", "a")):
            self.assertIn("got an empty one", self.refused(*command, ""), command)
        self.assertIn("'a' is named twice", self.refused("topic", "delete", "a", "b", "a"))
        self.assertIn("expected --partitions, --config or --delete-config", self.refused("topic", "alter", "t"))
        self.assertIn("--from-beginning or --offset",
                      self.refused("consume", "t", "--from-beginning", "--offset", "3"))

    def test_client_configuration(self):
        self.assertIn("no.such.key", self.refused("produce", "t", "-X", "no.such.key=1"))

    def test_nobody_listens(self):
        done = barnabas("topic", "list", "-b", "127.0.0.1:1", "--request-timeout-ms", 700)
        self.assertEqual(1, done.code, done)
        self.assertIn("no broker answered at 127.0.0.1:1", done.err)
        self.assertIn("Connection refused", done.err)
        self.assertEqual(1, len(done.err.splitlines()), "the library's log stays away")
        done = barnabas("topic", "list", "-b", "127.0.0.1:1", "--request-timeout-ms", 700, "--verbose")
        self.assertGreater(len(done.err.splitlines()), 1, "... unless it is asked for")


class Serve(unittest.TestCase):
    def refused(self, *arguments):
        with tempfile.TemporaryDirectory() as data:
            done = barnabas("serve", "--override", f"log.dirs={data}", *arguments, limit_s=20)
        self.assertEqual(2, done.code, done)
        return done.err

    def test_wrong_overrides_are_misuse(self):
        self.assertIn("--override: expected key=value, got 'x'", self.refused("--override", "x"))
        self.assertIn("--override: expected KEY=VALUE after it", self.refused("--override"))
        self.assertIn("num.io.threads", self.refused("--override", "num.io.threads=many"))
        self.assertIn("listeners", self.refused("--override", "listeners=nonsense"))
        self.assertIn("unexpected argument 'b'", self.refused("a", "b"))

    def test_a_wrong_file_is_named_with_its_line(self):
        with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
            file.write("# comment\nnum.partitions=3\nlog.segment.bytes=tiny\n")
            file.flush()
            error = self.refused(file.name)
        self.assertIn(f"{file.name} line 3", error)
        self.assertIn("log.segment.bytes", error)

    def test_a_signal_while_it_starts_stops_it_in_order(self):
        with tempfile.TemporaryDirectory() as data:
            command = [PROGRAM, "serve", "--override", f"log.dirs={data}",
                       "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
                process.stdout.readline()
                process.terminate()
                rest = process.stdout.read()
                self.assertEqual(0, process.wait(30))
            self.assertIn(b"Terminating process due to signal 15", rest)
            self.assertTrue(os.path.exists(f"{data}/.kafka_cleanshutdown"))

    def test_a_signal_breaks_off_a_recovery_and_the_next_start_begins_it_again(self):
        def stop_is_pending():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.kill(os.getpid(), signal.SIGTERM)

        def until(process, text):
            for line in process.stdout:
                if text in line:
                    return line
            self.fail(f"{text} was not said")

        with tempfile.TemporaryDirectory() as data:
            command = [PROGRAM, "serve", "--override", f"log.dirs={data}",
                       "--override", "listeners=PLAINTEXT://127.0.0.1:0"]
            streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            with subprocess.Popen(command, **streams) as process:
                port = until(process, b"Awaiting socket connections").split(b":")[-1].split()[0].decode()
                done = barnabas("produce", "t", "-b", f"127.0.0.1:{port}", text="1\n2\n3\n")
                self.assertEqual(0, done.code, done)
                process.kill()
                process.stdout.read()
            done = subprocess.run(command, preexec_fn=stop_is_pending, timeout=30, check=False, **streams)
            self.assertEqual(0, done.returncode, done)
            self.assertIn(b"Terminating process due to signal 15, before it started", done.stdout)
            self.assertNotIn(b"Kafka Server started", done.stdout)
            self.assertFalse(os.path.exists(f"{data}/.kafka_cleanshutdown"))
            with subprocess.Popen(command, **streams) as process:
                until(process, b"after no clean stop")
                port = until(process, b"Awaiting socket connections").split(b":")[-1].split()[0].decode()
                done = barnabas("consume", "t", "-b", f"127.0.0.1:{port}", "--from-beginning", "-e")
                self.assertEqual("1\n2\n3\n", done.out, done)
                process.terminate()
                process.stdout.read()
                self.assertEqual(0, process.wait(30))

    def test_a_missing_file_is_a_failure(self):
        done = barnabas("serve", "/nowhere/server.properties")
        self.assertEqual(1, done.code, done)
        self.assertIn("/nowhere/server.properties: no such file", done.err)


if __name__ == "__main__":
    unittest.main()
