"""A real server for tests in Python: the program itself on free ports, in a directory of its own, with its own cgroup and uids.

As in tests/server: it finds the image `python` that was made once for all, guests trust no certificates of this host, and no clones
are parked, unless the options say otherwise. Use it as a context manager, or stop() it.
"""
import contextlib
import glob
import json
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import tempfile
import urllib.request

START_SECONDS = 120
STOP_SECONDS = 120


class Server:
    def __init__(self, *options, prepared=True):
        self.build = pathlib.Path(os.environ["FIREBREAK_BUILD_DIR"])
        self.guest = os.environ.get("FIREBREAK_GUEST_DIR", str(self.build / "guest"))
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="fb-conformance-"))
        self.cgroup = f"fb-{self.directory.name.rsplit('-', 1)[1]}"
        # Programs beside each other on one host have uids of their own.
        uid = ("--uid-first", str(3_000_000 + os.getpid() % 4000 * 300), "--uid-count", "256")
        self.options = [*uid, *options]
        for name, words in (("--guest-ca", ["--guest-ca", "none"]), ("--pool-", ["--pool-least", "0", "--pool-most", "0"])):
            if not any(option.startswith(name) for option in options):
                self.options += words
        if prepared:
            subprocess.run([str(self.build / "tests/server/prepared_data"), str(self.directory)], check=True,
                           env={**os.environ, "FIREBREAK_GUEST_DIR": self.guest})
        try:
            self.launch()
        except BaseException:
            self.stop()
            raise

    def launch(self):
        # Settings of the one who tests are not the server's.
        env = {key: value for key, value in os.environ.items() if not key.startswith("FIREBREAK_")}
        with open(self.directory / "test-server.log", "ab") as log:
            self.process = subprocess.Popen(
                [str(self.build / "firebreak"), "serve", "--data-dir", str(self.directory), "--listen", "127.0.0.1:0",
                 "--endpoint-listen", "127.0.0.1:0", "--guest-dir", self.guest, "--cgroup", self.cgroup, "--tick-ms", "100", *self.options],
                env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(START_SECONDS) or b"listening on" not in self.process.stdout.readline():
                raise RuntimeError(f"the server did not start: {self.log()}")
        written = json.loads((self.directory / "server.json").read_text())
        self.url, self.endpoint, self.ca_file = written["url"], written["endpointUrl"], written["caFile"]
        self.key = json.loads((self.directory / "credentials.json").read_text())["apiKey"]

    def log(self):
        return (self.directory / "test-server.log").read_text(errors="replace")[-4000:]

    def call(self, method, path, body=None, key=None):
        """A call of the native API, whose JSON answer is returned."""
        request = urllib.request.Request(self.url + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"authorization": f"Bearer {key or self.key}"})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    def restart(self):
        """Ends the server, not its microVMs, and starts it again; its port is another one then."""
        self.end_process()
        self.launch()

    def end_process(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()

    def end_microvms(self):
        for microvm in self.call("GET", "/v1/microvms?pageSize=1000")["items"]:
            if microvm["state"] != "TERMINATED":
                self.call("DELETE", f"/v1/microvms/{microvm['id']}")

    def stop(self):
        # MicroVMs outlive a server: they are ended first. Holders of snapshots outlive it, too.
        if hasattr(self, "process"):
            with contextlib.suppress(OSError, AttributeError):
                self.end_microvms()
            self.end_process()
        for record in self.directory.glob("snapshots/*/holder.json"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
        for group in glob.glob(f"/sys/fs/cgroup/{self.cgroup}") + glob.glob(f"/sys/fs/cgroup/*/{self.cgroup}"):
            with contextlib.suppress(OSError):
                os.rmdir(group)
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()
