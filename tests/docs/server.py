"""A server for the pages: the program itself on free ports, in a directory of its own, with its own cgroup and uids."""
import contextlib
import glob
import json
import os
import pathlib
import selectors
import signal
import subprocess
import time
import urllib.request

START_SECONDS = 120
IMAGE_SECONDS = 300
STOP_SECONDS = 120


class Server:
    def __init__(self, directory):
        build = pathlib.Path(os.environ["FIREBREAK_BUILD_DIR"])
        guest = os.environ.get("FIREBREAK_GUEST_DIR", str(build / "guest"))
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(mode=0o700)
        self.cgroup = f"fb-docs-{os.getpid()}"
        # Settings of the one who tests are not the server's.
        env = {key: value for key, value in os.environ.items() if not key.startswith("FIREBREAK_")}
        # Runs beside each other on one host have uids of their own.
        uid = 2_000_000 + os.getpid() % 1000 * 300
        with open(self.directory.parent / "server.log", "wb") as log:
            self.process = subprocess.Popen(
                [str(build / "firebreak"), "serve", "--data-dir", str(self.directory), "--listen", "127.0.0.1:0", "--endpoint-listen", "127.0.0.1:0",
                 "--guest-dir", guest, "--cgroup", self.cgroup, "--uid-first", str(uid), "--uid-count", "256"],
                env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log)
        try:
            self.wait_until_it_listens()
            written = json.loads((self.directory / "server.json").read_text())
            self.url, self.endpoint = written["url"], written["endpointUrl"].removeprefix("https://")
            self.key = json.loads((self.directory / "credentials.json").read_text())["apiKey"]
            self.wait_for_python()
        except BaseException:
            self.stop()
            raise

    def log(self):
        return (self.directory.parent / "server.log").read_text(errors="replace")[-4000:]

    def wait_until_it_listens(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(START_SECONDS) or b"listening on" not in self.process.stdout.readline():
                raise RuntimeError(f"the server did not start: {self.log()}")

    def wait_for_python(self):
        deadline = time.monotonic() + IMAGE_SECONDS
        while time.monotonic() < deadline:
            state = next((image["state"] for image in self.call("GET", "/v1/images")["items"] if image["name"] == "python"), "")
            if state == "CREATED":
                return
            if state.endswith("FAILED"):
                break
            time.sleep(0.2)
        raise RuntimeError(f"the image python was not made: {self.log()}")

    def call(self, method, path):
        request = urllib.request.Request(self.url + path, method=method, headers={"authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def clean(self):
        """Ends what a page left: the next one finds nothing but the image python."""
        for microvm in self.call("GET", "/v1/microvms?pageSize=1000")["items"]:
            if microvm["state"] != "TERMINATED":
                self.call("DELETE", f"/v1/microvms/{microvm['id']}")
        for image in self.call("GET", "/v1/images")["items"]:
            if not image["system"]:
                self.call("DELETE", f"/v1/images/{image['id']}")

    def stop(self):
        try:
            # MicroVMs outlive a server: they are ended first.
            if self.process.poll() is None and (self.directory / "server.json").exists():
                self.clean()
        except OSError as error:
            print(f"the server did not end its microVMs: {error}", flush=True)
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_SECONDS)
        finally:
            self.process.kill()
            self.process.stdout.close()
            # Holders of snapshots outlive it, too.
            for record in self.directory.glob("snapshots/*/holder.json"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
            for group in glob.glob(f"/sys/fs/cgroup/{self.cgroup}") + glob.glob(f"/sys/fs/cgroup/*/{self.cgroup}"):
                with contextlib.suppress(OSError):
                    os.rmdir(group)
