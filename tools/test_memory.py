"""Remembers which test programs passed with which files, so that tools/run-tests need not run them again.

The key of a program is a hash over all that its outcome depends on:
  - the program, its arguments and its environment;
  - a unit test: nothing else; a fuzz target: its corpus;
  - any other test: the programs of the build, the guest's files, QEMU, and every file of the tree that is not compiled (scripts,
    lock files). Pages (*.md) count for the tests named docs.* only.
The memory lies in the build directory, so a clean clone runs everything. A program is forgotten when it fails, is unsteady or
skips a case, because what a case is skipped for can change without a file.
"""
import hashlib
import json
import os
import pathlib
import subprocess

COMPILED = (".cpp", ".h", "CMakeLists.txt", ".cmake")


class Memory:
    def __init__(self, root, build):
        self.root, self.build = pathlib.Path(root), pathlib.Path(build)
        self.store = self.build / "passed.json"
        self.passed = json.loads(self.store.read_text()) if self.store.exists() else {}
        self.digests = {}
        self.surroundings = {}

    # ---- asking and telling

    def cases(self, test):
        """How many cases passed with just these files; None: it has to run."""
        known = self.passed.get(test.name)
        return known["cases"] if known and known["key"] == self.key(test) else None

    def keep(self, test, cases):
        self.passed[test.name] = {"key": self.key(test), "cases": cases}
        self.save()

    def forget(self, test):
        if self.passed.pop(test.name, None) is not None:
            self.save()

    def save(self):
        fresh = self.store.with_suffix(".new")
        fresh.write_text(json.dumps(self.passed, indent=1, sort_keys=True))
        fresh.rename(self.store)

    # ---- the key

    def key(self, test):
        total = hashlib.sha256()
        program = self.program(test)
        for part in [*test.command, *(f"{k}={v}" for k, v in sorted(test.environment.items())), self.digest(program)]:
            total.update(part.encode() + b"\0")
        if "fuzz" in test.labels:
            for argument in test.command[1:]:
                total.update(self.of_files(self.below(pathlib.Path(argument))).encode())
        elif "unit" not in test.labels:
            total.update(self.around(pages=test.name.startswith("docs.")).encode())
        return total.hexdigest()

    def program(self, test):
        return self.build / test.directory / test.command[0]

    def around(self, pages):
        """One hash over what tests with processes, guests and servers use."""
        if pages not in self.surroundings:
            tracked = subprocess.run(["git", "-C", str(self.root), "ls-files", "-z", "-co", "--exclude-standard"], check=True,
                                     stdout=subprocess.PIPE, text=True).stdout.split("\0")
            files = [self.root / name for name in tracked
                     if name and not name.endswith(COMPILED) and (pages or not name.endswith(".md"))]
            files += [file for file in self.below(self.build) if os.access(file, os.X_OK) and not file.name.endswith("_test")
                      and not file.name.startswith("fuzz_")]
            guest = pathlib.Path(os.environ.get("FIREBREAK_GUEST_DIR", self.build / "guest"))
            files += self.below(guest)
            qemu = pathlib.Path("/usr/bin/qemu-system-x86_64")
            files += [qemu] if qemu.exists() else []
            self.surroundings[pages] = self.of_files(files) + os.uname().release
        return self.surroundings[pages]

    @staticmethod
    def below(directory):
        """Programs and data below a directory; not what a build or a test run leaves there for itself."""
        made = {"CMakeFiles", "Testing", "prepared", "tidy", "log"}
        found = []
        for at, directories, names in os.walk(directory):
            directories[:] = sorted(d for d in directories if d not in made)
            found += [pathlib.Path(at, name) for name in sorted(names)]
        return found

    def of_files(self, files):
        total = hashlib.sha256()
        for file in files:
            total.update(f"{file.name}\0{self.digest(file)}\0".encode())
        return total.hexdigest()

    def digest(self, file):
        """Of a file's content; of large files, which are made once and kept, by size and time."""
        try:
            status = file.stat()
        except OSError:
            return "none"
        if not file.is_file():
            return "other"
        if status.st_size > 256 << 20 or file.suffix == ".ext4":
            return f"{file.resolve()} {status.st_size} {status.st_mtime_ns}"
        stamp = (str(file), status.st_size, status.st_mtime_ns)
        if stamp not in self.digests:
            with open(file, "rb") as content:
                self.digests[stamp] = hashlib.file_digest(content, "sha256").hexdigest()
        return self.digests[stamp]
