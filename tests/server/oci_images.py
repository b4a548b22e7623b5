#!/usr/bin/env python3
"""OCI images for tests, written by hand so that every byte is known:
  oci_images.py layout DIR       an image of three layers, called `v1`, with one for another machine beside it
  oci_images.py registry DIR LOG serves DIR's image as HOST/team/app:1 on a free port of 127.0.0.1: the first line of LOG; then a
                                 line for each request. HOST/team/slow never answers. Only for `reader` with the password
                                 `open-sesame`. Ends with its standard input
"""
import base64
import gzip
import hashlib
import http.server
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import threading

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def tar(entries):
    """Of (name, fields); `data` and `device` are for content and for device nodes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, fields in entries:
            info = tarfile.TarInfo(name)
            data = fields.pop("data", b"")
            info.mode, info.mtime, info.size = 0o644, 1_000_000_000, len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def directory(name, mode=0o755, **fields):
    return name, {"type": tarfile.DIRTYPE, "mode": mode, **fields}


def link(name, target):
    return name, {"type": tarfile.SYMTYPE, "linkname": target}


def hard(name, target):
    return name, {"type": tarfile.LNKTYPE, "linkname": target}


def layers():
    busybox = pathlib.Path("/bin/busybox").read_bytes()
    tools = ["sh", "cat", "find", "stat", "sort", "ls", "sleep", "echo", "test", "id", "pwd", "readlink"]
    below = tar([
        directory("./", 0o711), directory("bin"), ("bin/busybox", {"data": busybox, "mode": 0o755}),
        *[link("bin/" + name, "busybox") for name in tools],
        directory("etc"), ("etc/passwd", {"data": b"root:x:0:0::/:/bin/sh\napp:x:1234:1234::/:/bin/sh\n"}),
        ("etc/hosts", {"data": b"of the image\n"}), directory("dev"),
        ("dev/console", {"type": tarfile.CHRTYPE, "devmajor": 5, "devminor": 1}), directory("run"), directory("var"),
        link("var/run", "/run"),
        directory("t", 0o750, uid=1234, gid=1234), ("t/gone", {"data": b"x\n"}), ("t/kept", {"data": b"kept\n", "mode": 0o4755}),
        directory("t/opaque"), ("t/opaque/old", {"data": b"old\n"}), directory("t/tree"), ("t/tree/deep", {"data": b"deep\n"}),
        directory("t/dir-to-file"), ("t/dir-to-file/in", {"data": b"in\n"}), directory("t/real"), link("t/link-to-dir", "real"),
    ])
    middle = tar([
        ("t/first", {"data": b"linked\n", "uid": 7, "gid": 8, "mode": 0o640}), hard("t/second", "t/first"), hard("t/third", "t/first"),
        ("t/.wh.gone", {}), ("t/opaque/new", {"data": b"new\n"}), ("t/opaque/.wh..wh..opq", {}), ("t/.wh.tree", {}),
        ("t/dir-to-file", {"data": b"file\n"}), directory("t/link-to-dir", 0o700), ("var/run/in-run", {"data": b"run\n"}),
    ])
    top = tar([("t/kept", {"data": b"again\n", "mode": 0o600}), ("t/.wh.third", {}), ("t/pipe", {"type": tarfile.FIFOTYPE})])
    return [below, middle, top]


CONFIG = {
    "Env": ["PATH=/bin", "FROM_OCI=yes"], "User": "app", "WorkingDir": "/t", "Entrypoint": ["sleep"], "Cmd": ["1000"],
    "Labels": {"kind": "oci"}, "OnBuild": ["ENV TRIGGERED=1"], "StopSignal": "SIGINT", "Volumes": {"/v": {}},
}


class Layout:
    def __init__(self, where):
        self.where = pathlib.Path(where)
        self.blobs = self.where / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)
        (self.where / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def add(self, kind, content):
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        return {"mediaType": kind, "digest": "sha256:" + digest, "size": len(content)}

    def add_json(self, kind, value):
        return self.add(kind, json.dumps(value).encode())

    def add_image(self, contents, config, machine="amd64"):
        # In turns: plain, with gzip, with zstd.
        pack = [("", lambda content: content), ("+gzip", lambda content: gzip.compress(content, mtime=0)),
                ("+zstd", lambda content: subprocess.run(["zstd", "-qc"], input=content, stdout=subprocess.PIPE, check=True).stdout)]
        packed = []
        for number, content in enumerate(contents):
            kind, compress = pack[number % len(pack)]
            packed.append(self.add("application/vnd.oci.image.layer.v1.tar" + kind, compress(content)))
        settings = {"os": "linux", "architecture": machine, "config": config, "author": "somebody",
                    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(each).hexdigest() for each in contents]}}
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST,
                    "config": self.add_json("application/vnd.oci.image.config.v1+json", settings), "layers": packed}
        return self.add_json(MANIFEST, manifest)


def write_layout(where):
    layout = Layout(where)
    images = layout.add_image(layers(), CONFIG), layout.add_image([], {}, "arm64")
    for image, machine in zip(images, ("amd64", "arm64")):
        image["platform"] = {"os": "linux", "architecture": machine}
    both = layout.add_json(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(images)})
    both["annotations"] = {"org.opencontainers.image.ref.name": "v1"}
    (layout.where / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [both]}))


def serve(where, log):
    ended = threading.Event()
    lines = open(log, "w", buffering=1, encoding="utf-8")  # pylint: disable=consider-using-with
    blobs = pathlib.Path(where) / "blobs" / "sha256"
    top = json.loads((pathlib.Path(where) / "index.json").read_text())["manifests"][0]["digest"]

    class Registry(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, status, content=b"", kind="application/octet-stream"):
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.send_header("content-type", kind)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        def do_GET(self):  # pylint: disable=invalid-name
            if self.headers.get("authorization") != "Basic " + base64.b64encode(b"reader:open-sesame").decode():
                self.send_response(401)
                self.send_header("www-authenticate", 'Basic realm="test"')
                self.send_header("content-length", "0")
                return self.end_headers()
            lines.write(f"{self.command} {self.path}\n")
            parts = self.path.split("/")
            if parts[3:4] == ["slow"]:
                ended.wait()
            if self.path == "/v2/":
                return self.answer(200, b"{}", "application/json")
            if parts[:4] != ["", "v2", "team", "app"] or len(parts) != 6:
                return self.answer(404, b'{"errors": [{"code": "NAME_UNKNOWN", "message": "no such name"}]}', "application/json")
            digest = top if parts[5] == "1" else parts[5]
            file = blobs / digest.removeprefix("sha256:")
            if not file.is_file():
                return self.answer(404, b'{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "no such thing"}]}', "application/json")
            content = file.read_bytes()
            kind = json.loads(content)["mediaType"] if parts[4] == "manifests" else "application/octet-stream"
            return self.answer(200, content, kind)

        do_HEAD = do_GET

        def log_message(self, *_):  # pylint: disable=arguments-differ
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.daemon_threads = True
    lines.write(f"{server.server_address[1]}\n")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    ended.set()


if __name__ == "__main__":
    {"layout": write_layout, "registry": serve}[sys.argv[1]](*sys.argv[2:])
