"""Trees of files as values that can be compared: {path: Entry}."""
import dataclasses
import hashlib
import os
import stat
import tarfile

# Not of an image: mount points of whoever runs it, what each microVM has of its own, and what a file system has for itself.
OUTSIDE = ("/dev", "/proc", "/sys", "/run", "/lost+found", "/etc/hostname", "/etc/hosts", "/etc/machine-id", "/etc/resolv.conf")


@dataclasses.dataclass(frozen=True)
class Entry:
    type: str  # file, dir, symlink, fifo, ...
    mode: int
    owner: str  # uid:gid
    content: str  # short text as it is, else a digest; the target of a link
    links: str = ""  # the first path of the same file, if it has several

    def __str__(self):
        same = f"same as {self.links}" if self.links else ""
        return " ".join(filter(None, (self.type, f"{self.mode:04o}", self.owner, self.content, same)))


def _content(data):
    if len(data) <= 200:
        try:
            return repr(data.decode())
        except UnicodeDecodeError:
            pass
    return f"{len(data)} bytes {hashlib.sha256(data).hexdigest()[:16]}"


def _inside(path):
    return path != "/" and not any(path == out or path.startswith(out + "/") for out in OUTSIDE)


def _with_links(entries, groups):
    for paths in groups:
        paths = sorted(paths)
        for path in paths if len(paths) > 1 else []:
            entries[path] = dataclasses.replace(entries[path], links=paths[0])
    return {path: entries[path] for path in sorted(entries)}


def of_tar(stream):
    """What a microVM packs, read while it comes."""
    entries, groups = {}, {}
    kinds = {tarfile.DIRTYPE: "dir", tarfile.SYMTYPE: "symlink", tarfile.FIFOTYPE: "fifo", tarfile.REGTYPE: "file", tarfile.AREGTYPE: "file"}
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for info in archive:
            path = os.path.normpath("/" + info.name)
            if not _inside(path):
                continue
            if info.islnk():
                first = os.path.normpath("/" + info.linkname)
                entries[path] = entries[first]
                groups.setdefault(first, [first]).append(path)
                continue
            kind = kinds.get(info.type, str(info.type))
            content = {"file": lambda info=info: _content(archive.extractfile(info).read()), "symlink": lambda info=info: info.linkname}
            mode = 0o777 if kind == "symlink" else info.mode & 0o7777
            entries[path] = Entry(kind, mode, f"{info.uid}:{info.gid}", content.get(kind, str)())
    return _with_links(entries, groups.values())


def of_directory(top):
    entries, groups = {}, {}
    kinds = {stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink", stat.S_IFIFO: "fifo", stat.S_IFREG: "file"}
    for folder, dirs, files in os.walk(top):
        for name in dirs + files:
            real = os.path.join(folder, name)
            path = "/" + os.path.relpath(real, top)
            if not _inside(path):
                continue
            at = os.lstat(real)
            kind = kinds.get(stat.S_IFMT(at.st_mode), oct(at.st_mode))
            content = ""
            if kind == "file":
                with open(real, "rb") as file:
                    content = _content(file.read())
                groups.setdefault(at.st_ino, []).append(path)
            elif kind == "symlink":
                content = os.readlink(real)
            mode = 0o777 if kind == "symlink" else stat.S_IMODE(at.st_mode)
            entries[path] = Entry(kind, mode, f"{at.st_uid}:{at.st_gid}", content)
    return _with_links(entries, groups.values())


def of_text(text):
    """`PATH = ENTRY` lines, as `to_text` writes them; # begins a comment."""
    return dict(line.split(" = ", 1) for line in text.splitlines() if line and not line.startswith("#"))


def to_text(tree):
    return "".join(f"{path} = {entry}\n" for path, entry in tree.items())
