"""The two that build: `Firebreak`, a server of its own with real microVMs, and `Buildah`, chroot isolation and a store of its
own. Both give a tree (trees.py) and a configuration with the names of the image specification."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import urllib.request

import trees

KEYS = ("Env", "User", "WorkingDir", "Entrypoint", "Cmd", "Shell", "ExposedPorts", "Labels", "Volumes", "StopSignal", "OnBuild", "Healthcheck",
        "Author")
TIMES = ("Interval", "Timeout", "StartPeriod", "StartInterval", "Retries")


class BuildFailed(Exception):
    pass


def _config(found):
    """Absent, null and empty are the same; sets are lists; variables are members."""
    out = {}
    for key in KEYS:
        value = found.get(key)
        if key == "Healthcheck" and value:
            value = {name: value.get(name) for name in ("Test", *TIMES) if value.get(name)}
        if key in ("ExposedPorts", "Volumes"):
            value = sorted(value or ())
        if key == "Env":
            value = dict(line.split("=", 1) for line in value or ())
        if value:
            out[key] = value
    return out


class Firebreak:
    def __init__(self, directory):
        build = pathlib.Path(os.environ["FIREBREAK_BUILD_DIR"])
        guest = os.environ.get("FIREBREAK_GUEST_DIR", str(build / "guest"))
        self.program = str(build / "firebreak")
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        # Settings of the one who tests are not the server's.
        env = {key: value for key, value in os.environ.items() if not key.startswith("FIREBREAK_")}
        with open(self.directory / "server.log", "wb") as log:
            self.server = subprocess.Popen(
                [self.program, "serve", "--data-dir", str(self.directory), "--listen", "127.0.0.1:0", "--endpoint-listen", "127.0.0.1:0",
                 "--guest-dir", guest, "--cgroup", f"fb-build-{os.getpid()}", "--uid-first", "1900000", "--uid-count", "256",
                 "--networks", "0", "--guest-ca", "none", "--python-image", "0", "--pool-least", "0", "--pool-most", "0"],
                env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        line = self.server.stdout.readline().decode()
        if "listening on" not in line:
            self.server.wait(60)
            raise RuntimeError(f"the server did not start: {self.log()}")
        written = json.loads((self.directory / "server.json").read_text())
        credentials = json.loads((self.directory / "credentials.json").read_text())
        self.url, self.key = written["url"], credentials["apiKey"]
        self.env = {**env, "FIREBREAK_URL": self.url, "FIREBREAK_API_KEY": self.key}

    def log(self):
        return (self.directory / "server.log").read_text()[-4000:]

    def call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers={"authorization": f"Bearer {self.key}"})
        return urllib.request.urlopen(request, timeout=300)

    def build(self, name, context, dockerfile):
        done = subprocess.run([self.program, "image", "build", "--json", "--file", dockerfile, name, str(context)], env=self.env,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=900, check=False)
        if done.returncode != 0:
            raise BuildFailed(done.stderr.decode()[-2000:])

    def config(self, name):
        done = subprocess.run([self.program, "image", "show", f"{name}:1.0"], env=self.env, capture_output=True, timeout=60, check=True)
        return _config(json.loads(done.stdout)["config"])

    def tree(self, name):
        with self.call("POST", "/v1/microvms", {"image": name}) as answer:
            microvm = json.load(answer)["id"]
        try:
            with self.call("GET", f"/v1/microvms/{microvm}/tar?path=/") as packed:
                return trees.of_tar(packed)
        finally:
            self.call("DELETE", f"/v1/microvms/{microvm}").close()

    def stop(self):
        self.server.send_signal(signal.SIGTERM)
        try:
            self.server.wait(120)
        finally:
            self.server.kill()
            # Holders of snapshots outlive a server.
            for record in self.directory.glob("snapshots/*/holder.json"):
                try:
                    os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
                except ProcessLookupError:
                    pass
            shutil.rmtree(self.directory, ignore_errors=True)


class Buildah:
    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir()
        # No settings of the host.
        (self.directory / "registries.conf").write_text('unqualified-search-registries = []\n')
        (self.directory / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}\n')
        (self.directory / "tmp").mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.directory), "TMPDIR": str(self.directory / "tmp")}
        self.words = ["buildah", "--root", str(self.directory / "root"), "--runroot", str(self.directory / "run"), "--storage-driver", "vfs",
                      "--registries-conf", str(self.directory / "registries.conf")]

    def run(self, *words):
        done = subprocess.run([*self.words, *words], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=600, check=False)
        if done.returncode != 0:
            raise BuildFailed((done.stdout + done.stderr).decode()[-2000:])
        return done.stdout.decode()

    def build(self, name, context, dockerfile):
        self.run("bud", "--isolation", "chroot", "--signature-policy", str(self.directory / "policy.json"), "--layers=false", "--format", "docker",
                 "--network", "host", "--pull=never", "--tag", name, "--file", str(context / dockerfile), str(context))

    def config(self, name):
        found = json.loads(self.run("inspect", "--type", "image", name))["Docker"]
        config = {**found["config"], "Author": found.get("author", "")}
        # Its own name in every image.
        config["Labels"] = {key: value for key, value in (config.get("Labels") or {}).items() if key != "io.buildah.version"}
        return _config(config)

    def tree(self, name):
        # Not by a container: that would carry out the image's triggers.
        store = self.directory / "root"
        images = json.loads((store / "vfs-images" / "images.json").read_text())
        layer = next(image["layer"] for image in images if f"localhost/{name}:latest" in image.get("names", ()))
        return trees.of_directory(store / "vfs" / "dir" / layer)

    def stop(self):
        shutil.rmtree(self.directory, ignore_errors=True)
