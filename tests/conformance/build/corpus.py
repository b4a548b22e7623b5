"""The corpus: one small Dockerfile a directory, all with the corpus itself as their context. Cases that write below a directory
of their own (/t/NAME, /t/NAME-MORE) are built together, as one image."""
import bz2
import dataclasses
import gzip
import io
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import tarfile

FOLDER = pathlib.Path(__file__).parent / "corpus"
BASE = "conformance-base"

# Images and what is in them. A case that names stages by number is the first with stages; one that leaves a command that runs,
# or ports, is in an image where they do no harm. Whatever is not listed is an image of its own. What takes longest is first.
GROUPS = {
    "stages": [
        "copy-from-number", "copy-from-stage", "copy-fifo", "copy-from-image", "stage-args", "onbuild-stage", "run-mount-bind",
    ],
    "copy": [
        "copy-file", "copy-modes", "copy-existing-dir", "copy-over-file", "copy-link-to-dir", "copy-link-to-file", "copy-link-to-nothing",
        "copy-dir", "copy-merge", "copy-several", "copy-globs", "copy-hidden", "copy-names", "copy-symlinks", "copy-symlink-glob",
        "copy-over-inner-link", "copy-empty-dirs", "copy-all", "dockerignore", "dockerignore-exceptions",
    ],
    "owners": [
        "copy-chown", "copy-chown-existing", "copy-chmod", "workdir-copy", "workdir", "workdir-user", "workdir-link", "add-archives",
        "add-no-archives", "add-archive-owners", "add-archive-merge", "add-files",
    ],
    "run": [
        "run-forms", "run-user", "run-files", "env", "env-over-arg", "substitution", "run-mount-cache", "volume", "shell",
    ],
    "config": ["config-labels", "config-ports", "config-health", "config-user-workdir"],
    "config-shell": ["config-health-shell", "config-entrypoint-shell"],
    # What buildah cannot do.
    "ours": ["run-heredoc", "copy-heredoc", "copy-exclude", "copy-chmod-symbolic", "copy-brackets"],
}


@dataclasses.dataclass
class Case:
    name: str
    globals: list  # lines before the first FROM
    stages: list  # of (FROM line, lines)
    expected: str  # a tree, where there is no second opinion; else None

    @property
    def body(self):
        return self.stages[-1][1]


def load(name):
    before, stages = [], []
    text = (FOLDER / name / "Dockerfile").read_text()
    for line in text.splitlines():
        if line.startswith("FROM "):
            stages.append((line, []))
        else:
            (stages[-1][1] if stages else before).append(line)
    expected = FOLDER / name / "expected.tree"
    return Case(name, before, stages, expected.read_text() if expected.exists() else None)


def load_all():
    return {entry.name: load(entry.name) for entry in sorted(FOLDER.iterdir()) if entry.is_dir() and entry.name != "base"}


def groups(cases, each):
    """Names of images and their cases; `each`: every case is an image of its own."""
    if each:
        return {name: [name] for name in cases}
    found = {name: list(members) for name, members in GROUPS.items()}
    listed = {name for members in found.values() for name in members}
    assert listed <= set(cases), listed - set(cases)
    found.update({name: [name] for name in cases if name not in listed})
    return found


def combine(members):
    """One Dockerfile of several cases: what a case sets for instructions that follow is set back."""
    if len(members) == 1:
        return (FOLDER / members[0].name / "Dockerfile").read_text()
    lines = [line for case in members for line in case.globals if not line.startswith("#")]
    for case in members:
        for opening, body in case.stages[:-1]:
            lines += [opening, *body]
    lines.append(f"FROM {BASE}")
    for case in members:
        assert case.stages[-1][0] == f"FROM {BASE}", case.name
        lines += [f"# ---- {case.name}", *case.body]
        if case is members[-1]:
            break
        words = {line.split(" ")[0] for line in case.body}
        lines += ["USER 0"] * ("USER" in words) + ["WORKDIR /"] * ("WORKDIR" in words)
        lines += ['SHELL ["/bin/sh", "-c"]'] * ("SHELL" in words)
    return "\n".join(lines) + "\n"


def owner_of(path, names):
    """The case that a path of an image belongs to; empty: none."""
    match = re.match(r"/t/([^/]+)", path)
    if not match:
        return ""
    part = match.group(1)
    fitting = [name for name in names if part == name or part.startswith(name + "-")]
    return max(fitting, key=len, default="")


# ---- the context: what git does not keep

def _tar(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, options in entries:
            info = tarfile.TarInfo(name)
            data = options.pop("data", b"")
            info.mode, info.mtime = 0o644, 1_000_000_000
            for key, value in options.items():
                setattr(info, key, value)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _small_tar():
    return _tar([
        ("dir", {"type": tarfile.DIRTYPE, "mode": 0o755}),
        ("dir/file", {"data": b"packed\n", "mode": 0o640}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "dir/file"}),
    ])


def _owned_tar():
    return _tar([
        ("./", {"type": tarfile.DIRTYPE, "mode": 0o700, "uid": 9, "gid": 9}),
        ("./own/", {"type": tarfile.DIRTYPE, "mode": 0o750, "uid": 1000, "gid": 2000}),
        ("./own/suid", {"data": b"s\n", "mode": 0o4755, "uid": 0, "gid": 50}),
        ("./own/file", {"data": b"f\n", "mode": 0o600, "uid": 1234, "gid": 4321}),
        ("./own/second", {"type": tarfile.LNKTYPE, "linkname": "./own/file", "mode": 0o600, "uid": 1234, "gid": 4321}),
        ("./own/link", {"type": tarfile.SYMTYPE, "linkname": "file", "mode": 0o777, "uid": 1000, "gid": 1000}),
        ("./own/pipe", {"type": tarfile.FIFOTYPE, "mode": 0o620, "uid": 7, "gid": 8}),
        ("./no/parent/entry", {"data": b"e\n", "uid": 5, "gid": 6}),
        ("./sticky", {"type": tarfile.DIRTYPE, "mode": 0o1777}),
    ])


def make_context(target):
    """A copy of the corpus with the modes, empty directories, archives and programs that the cases need."""
    target = pathlib.Path(target)
    shutil.copytree(FOLDER, target, symlinks=True)
    root = target / "base" / "root"
    for name, mode in {"bin": 0o755, "home/app": 0o750, "root": 0o700, "tmp": 0o1777, "var/cache": 0o755, "mnt": 0o755}.items():
        (root / name).mkdir(parents=True)
        os.chmod(root / name, mode)
    shutil.copy("/bin/busybox", root / "bin" / "busybox")
    (root / "bin" / "sh").symlink_to("busybox")

    modes = target / "copy-modes" / "modes"
    (modes / "sgid").mkdir(parents=True)
    (modes / "sticky").mkdir()
    wanted = {"plain": 0o644, "exec": 0o755, "none": 0o000, "group": 0o664, "suid": 0o4755, "both": 0o6711}
    for name in wanted:
        (modes / name).write_text(name + "\n")
    (target / "copy-empty-dirs" / "d" / "empty").mkdir(parents=True)
    (target / "copy-empty-dirs" / "d" / "a" / "b" / "c").mkdir(parents=True)

    small = _small_tar()
    archives = target / "add-archives"
    (archives / "plain.tar").write_bytes(small)
    (archives / "packed.tar.gz").write_bytes(gzip.compress(small, mtime=0))
    (archives / "packed.tar.bz2").write_bytes(bz2.compress(small))
    (archives / "packed.tar.xz").write_bytes(lzma.compress(small))
    (archives / "packed.tar.zst").write_bytes(subprocess.run(["zstd", "-qc"], input=small, stdout=subprocess.PIPE, check=True).stdout)
    (archives / "no-suffix").write_bytes(gzip.compress(small, mtime=0))
    (target / "add-no-archives" / "text.gz").write_bytes(gzip.compress(b"only text\n", mtime=0))
    (target / "add-no-archives" / "empty.tar").write_bytes(b"")
    (target / "add-archive-owners" / "all.tar").write_bytes(_owned_tar())
    merge = target / "add-archive-merge"
    (merge / "tree.tar").write_bytes(_tar([
        ("sub", {"type": tarfile.DIRTYPE, "mode": 0o711, "uid": 1000, "gid": 1000}), ("sub/x", {"data": b"new\n"}), ("y", {"data": b"y\n"})]))
    (merge / "second.tar").write_bytes(_tar([("y", {"data": b"second\n", "uid": 3})]))

    special = {root, *root.rglob("*"), *modes.rglob("*")}
    for path in [target, *target.rglob("*")]:
        if path.is_symlink() or path in special:
            continue
        os.chmod(path, 0o755 if path.is_dir() else 0o644)
    for path in (root / "etc", root / "home", root / "var", root):
        os.chmod(path, 0o755)
    for path in (root / "etc").iterdir():
        os.chmod(path, 0o644)
    os.chmod(root / "bin" / "busybox", 0o755)
    os.chmod(modes, 0o755)
    os.chmod(modes / "sgid", 0o2775)
    os.chmod(modes / "sticky", 0o1777)
    for name, mode in wanted.items():
        os.chmod(modes / name, mode)
