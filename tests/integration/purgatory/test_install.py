"""libpurgatory, installed into a folder of its own and used from there: what it exports, and the examples built on it."""

import os
import re
import subprocess
import tempfile
import unittest

BUILD = os.environ["PURGATORY_BUILD"]
CC = os.environ["PURGATORY_CC"]
SANITIZE = os.environ.get("PURGATORY_SANITIZE", "")
EXAMPLES = ("request_timeout", "long_poll", "quorum_ack")
SYSTEM = {"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def run(*command, cwd=None, **environment):
    done = subprocess.run(command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True,
                          timeout=200, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.prefix = f"{cls.folder.name}/prefix"
        run("cmake", "--install", BUILD, "--component", "purgatory", "--prefix", cls.prefix)
        cls.config = cls.find("purgatory.pc")
        cls.libdir = os.path.dirname(os.path.dirname(cls.config))
        cls.examples = f"{cls.prefix}/share/doc/purgatory/examples"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def find(cls, name):
        for root, _, files in os.walk(cls.prefix):
            if name in files:
                return os.path.join(root, name)
        raise AssertionError(f"{name} is not installed")

    def headers(self):
        return sorted(os.listdir(f"{self.prefix}/include/purgatory"))

    def declared(self):
        names = set()
        for header in self.headers():
            with open(f"{self.prefix}/include/purgatory/{header}", encoding="utf-8") as file:
                text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
            names.update(re.findall(r"^PURG_API[^;{]*?\b(\w+)\(", text, re.M))
        return names

    def test_the_shared_library_exports_what_the_headers_declare_and_no_more(self):
        lines = run("nm", "-D", "--defined-only", f"{self.libdir}/libpurgatory.so").splitlines()
        exported = {line.split()[-1] for line in lines}
        self.assertEqual(self.declared(), exported)
        self.assertGreater(len(exported), 20)

    def test_every_name_begins_with_purg(self):
        for line in run("nm", "-g", "--defined-only", f"{self.libdir}/libpurgatory.a").splitlines():
            if len(line.split()) == 3:
                self.assertRegex(line.split()[2], "^purg_")
        for header in self.headers():
            with open(f"{self.prefix}/include/purgatory/{header}", encoding="utf-8") as file:
                for macro in re.findall(r"^#define (\w+)", file.read(), re.M):
                    self.assertRegex(macro, "^(PURG_|PURGATORY_)")

    @unittest.skipIf(SANITIZE, "the sanitizers' libraries are needed too")
    def test_it_needs_libc_and_pthreads_alone(self):
        dynamic = run("readelf", "-d", f"{self.libdir}/libpurgatory.so")
        self.assertEqual(set(), set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)) - SYSTEM)

    def test_each_header_stands_alone_in_strict_c11(self):
        self.assertIn("purgatory.h", self.headers())
        for header in self.headers():
            self.assertFalse(header.endswith("_int.h"))
            run(CC, "-std=c11", "-pedantic-errors", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                "-I", f"{self.prefix}/include", "-x", "c", f"{self.prefix}/include/purgatory/{header}")

    def test_the_guide_is_installed(self):
        for name in ("PURGATORY.md", "PURGATORY_PROOF.md"):
            self.assertTrue(os.path.exists(f"{self.prefix}/share/doc/purgatory/{name}"), name)

    def by_cmake(self, static):
        with tempfile.TemporaryDirectory() as build:
            run("cmake", "-S", self.examples, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}",
                f"-DEXAMPLES_STATIC={static}", f"-DCMAKE_C_COMPILER={CC}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror "
                + SANITIZE)
            run("cmake", "--build", build)
            self.assertEqual(static == "OFF", "libpurgatory.so" in run("readelf", "-d", f"{build}/quorum_ack"))
            run("ctest", "--test-dir", build, "--output-on-failure", "--timeout", "60", "--no-tests=error")

    def test_examples_by_find_package_shared(self):
        self.by_cmake("OFF")

    def test_examples_by_find_package_static(self):
        self.by_cmake("ON")

    def by_pkg_config(self, *static):
        with tempfile.TemporaryDirectory() as build:
            for example in EXAMPLES:
                run("make", "-f", f"{self.examples}/Makefile", example, *static, f"VPATH={self.examples}", f"CC={CC}",
                    f"CFLAGS=-O2 -Wall -Wextra -Werror {SANITIZE}", cwd=build,
                    PKG_CONFIG_PATH=os.path.dirname(self.config))
                run(f"{build}/{example}", LD_LIBRARY_PATH=self.libdir)

    def test_examples_by_pkg_config_shared(self):
        self.by_pkg_config()

    def test_examples_by_pkg_config_static(self):
        self.by_pkg_config("STATIC=1")


if __name__ == "__main__":
    unittest.main()
