"""Errors, retries and cancellation."""
import asyncio
import json
import os
import pathlib
import signal
import socket
import tempfile
import threading
import unittest

from world import sleeps, until, world  # first: it says where the SDK is

import httpx

from firebreak_sdk import AsyncSandbox, Client, RetryPolicy, errors, find_server
from firebreak_sdk._policy import NOT_SENT


class ErrorsTest(unittest.TestCase):
    def setUp(self):
        self.client = world().client()
        self.addCleanup(self.client.close)

    def test_codes_are_classes(self):
        with self.assertRaises(errors.NotFoundError) as missing:
            self.client.get("microvm-00000000-0000-0000-0000-000000000000")
        self.assertEqual((missing.exception.status, missing.exception.code), (404, "not_found"))
        with self.assertRaises(errors.InvalidError):
            self.client.run("python", name="Not A Name")
        with self.assertRaises(errors.UnauthenticatedError) as stranger:
            Client(world().server.url, "nobody").tenant()
        self.assertEqual(stranger.exception.status, 401)
        key = self.client.tenants.create("plain").key
        with Client(world().server.url, key.api_key) as plain, self.assertRaises(errors.DeniedError):
            plain.check()

    def test_what_happens_in_the_guest_is_told_apart(self):
        with self.client.run() as box:
            with self.assertRaises(errors.NotFoundError):
                box.exec(["/no/such/program"])
            with self.assertRaises(errors.NotFoundError):
                box.files.read("/no/such/file")
            with self.assertRaises(errors.ConflictError):
                box.files.read("/etc")
            context = box.interpreter()
            with context.stream("import time; print(1); time.sleep(1000)") as busy:
                next(iter(busy))
                with self.assertRaises(errors.ConflictError):
                    context.run("2")
        with self.assertRaises(errors.ConflictError):
            box.exec("true")

    def test_limits_tell_what_to_do(self):
        tenant = self.client.tenants.create("small", limits={"microvms": 1})
        with Client(world().server.url, tenant.key.api_key) as small, small.run():
            with self.assertRaises(errors.ExhaustedError) as full:
                small.run()
            self.assertTrue(full.exception.repair)

    def test_a_refusal_with_a_time_has_a_time(self):
        error = errors.error_of(429, {"code": "exhausted", "message": "m", "reason": "agent_hourly", "repair": "wait", "resetsAt": 1794803644000,
                                      "dimension": "agent"})
        self.assertIsInstance(error, errors.ExhaustedError)
        self.assertEqual((error.reason, error.repair, error.data), ("agent_hourly", "wait", {"dimension": "agent"}))
        self.assertEqual(error.resets_at.isoformat(), "2026-11-16T04:34:04+00:00")

    def test_no_server(self):
        with self.assertRaisesRegex(errors.UnavailableError, "firebreak serve"):
            Client("http://127.0.0.1:9", "key", retry=RetryPolicy(retries=1, first_wait=0.01)).tenant()


class FindTest(unittest.TestCase):
    """The order is that of docs/cli.md, tried with files of a directory of its own."""

    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp())
        (self.home / "data").mkdir()
        (self.home / "data/server.json").write_text(json.dumps({"url": "http://local:1", "caFile": "/ca"}))
        (self.home / "data/credentials.json").write_text(json.dumps({"apiKey": "local"}))
        (self.home / "firebreak").mkdir()
        (self.home / "firebreak/config.json").write_text(json.dumps(
            {"current": "one", "contexts": {"one": {"url": "http://one:1", "apiKey": "k1"}, "two": {"url": "https://two:1", "apiKey": "k2", "caFile": "/c2"}}}))
        self.env = {"XDG_CONFIG_HOME": str(self.home)}
        self.data = {"FIREBREAK_DATA_DIR": str(self.home / "data")}

    def find(self, *arguments, env=None, **options):
        found = find_server(*arguments, environ={**self.env, **(env or {})}, **options)
        return found.url, found.api_key, found.ca_file

    def test_order(self):
        self.assertEqual(self.find(), ("http://one:1", "k1", None))
        self.assertEqual(self.find(context="two"), ("https://two:1", "k2", "/c2"))
        self.assertEqual(self.find(env={"FIREBREAK_URL": "http://env:1", "FIREBREAK_API_KEY": "e"}), ("http://env:1", "e", None))
        self.assertEqual(self.find(env={"FIREBREAK_API_KEY": "e", "FIREBREAK_CA_FILE": "/c"}), ("http://one:1", "e", "/c"))
        self.assertEqual(self.find(env=self.data), ("http://local:1", "local", "/ca"))
        self.assertEqual(self.find(env={**self.data, "FIREBREAK_URL": "http://env:1"}), ("http://env:1", "local", None))
        self.assertEqual(self.find("http://given:1", "g", env=self.data), ("http://given:1", "g", None))

    def test_what_is_missing_is_said(self):
        with self.assertRaisesRegex(errors.ConfigurationError, "no context 'three'; known are: one, two"):
            self.find(context="three")
        with self.assertRaisesRegex(errors.ConfigurationError, "no server is running on /nowhere; start one"):
            self.find(data_dir="/nowhere")
        (self.home / "firebreak/config.json").write_text("{")
        with self.assertRaisesRegex(errors.ConfigurationError, "mend or remove"):
            self.find()


class CuttingProxy:
    """Passes connections to the server, and cuts the first `cuts` of them when the answer begins."""

    def __init__(self, target, cuts):
        self.target, self.left, self.requests = target, cuts, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        host, port = self.target.rpartition("//")[2].split(":")
        with client, socket.create_connection((host, int(port))) as server:
            pump = threading.Thread(target=self.upstream, args=(client, server), daemon=True)
            pump.start()
            while data := server.recv(65536):
                if self.left > 0:
                    self.left -= 1
                    # Closing is not enough while the other thread reads.
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)

    def upstream(self, client, server):
        try:
            while data := client.recv(65536):
                self.requests.append(data)
                server.sendall(data)
        except OSError:
            pass


class RetryTest(unittest.TestCase):
    def client(self, cuts):
        self.proxy = CuttingProxy(world().server.url, cuts)
        self.addCleanup(self.proxy.listener.close)
        client = Client(self.proxy.url, world().server.key, retry=RetryPolicy(first_wait=0.01))
        self.addCleanup(client.close)
        return client

    def test_a_launch_whose_answer_is_lost_makes_one_microvm(self):
        client = self.client(cuts=2)
        with client.run(tags={"test": "lost-answer"}) as box:
            with world().client() as other:
                self.assertEqual([each.id for each in other.list(tag=("test", "lost-answer"))], [box.id])
        self.assertEqual(self.proxy.left, 0)

    def test_what_must_not_run_twice_is_not_sent_twice(self):
        with world().client() as direct, direct.run() as box:
            client = self.client(cuts=0)
            again = client.get(box.id)
            self.proxy.left = 1
            with self.assertRaises(errors.UnavailableError):
                again.exec("echo once >>/tmp/count")
            self.assertEqual(box.files.read("/tmp/count"), b"once\n")

    def test_a_lost_stdin_write_is_repeated_at_its_place(self):
        with world().client() as direct, direct.run() as box:
            process = self.client(cuts=0).get(box.id).process(box.spawn("cat", open_stdin=True).id)
            process.write("one ")
            self.proxy.left = 1
            process.write("two")
            process.close_stdin()
            self.assertEqual(process.wait().stdout, "one two")

    def test_policy(self):
        policy = RetryPolicy(retries=2, first_wait=0.1, longest_wait=5)
        limit = errors.ExhaustedError("limit")
        self.assertIsNone(policy.wait(0, limit, True), "nobody knows when the limit ends")
        self.assertGreaterEqual(policy.wait(0, limit, False, retry_after=2.0), 2.0)
        self.assertIsNone(policy.wait(0, limit, False, retry_after=3600.0), "an hour is the caller's to wait")
        self.assertIsNone(policy.wait(2, limit, False, retry_after=1.0))
        self.assertIsNone(policy.wait(0, errors.UnavailableError("gone"), False))
        self.assertIsNotNone(policy.wait(0, errors.UnavailableError("gone"), True))
        self.assertIsNotNone(policy.wait(0, NOT_SENT[0]("refused"), False))
        self.assertIsNone(policy.wait(0, httpx.ReadError("cut"), False))
        self.assertIsNone(policy.wait(0, errors.ConflictError("state"), True))


class CancelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = world().client()
        cls.box = cls.client.run()

    @classmethod
    def tearDownClass(cls):
        cls.box.terminate()
        cls.client.close()

    def test_leaving_a_stream_kills_in_the_guest(self):
        with self.box.stream("echo began; sleep 1231 & sleep 1231") as stream:
            next(iter(stream))
            until(lambda: sleeps(self.box, 1231))
        until(lambda: not sleeps(self.box, 1231))
        self.assertIsNone(stream.result)

    def test_an_interrupted_call_kills_in_the_guest(self):
        # Whoever started the tests in the background let them ignore the signal.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def interrupt():
            with world().client() as client:
                other = client.get(self.box.id)
                until(lambda: sleeps(other, 1232))
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        with self.assertRaises(KeyboardInterrupt):
            self.box.exec("sleep 1232")
        until(lambda: not sleeps(self.box, 1232))

    def test_a_cancelled_task_kills_in_the_guest(self):
        async def cancelled():
            async with world().async_client() as client:
                box = await client.get(self.box.id)
                task = asyncio.create_task(box.exec("sleep 1233"))
                await asyncio.to_thread(until, lambda: sleeps(self.box, 1233))
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
        asyncio.run(cancelled())
        until(lambda: not sleeps(self.box, 1233))

    def test_leaving_code_interrupts_it_and_keeps_the_state(self):
        context = self.box.interpreter()
        # A signal that comes between Python's last look and the system call that sleeps is seen when the sleep ends; code that has slept
        # before is too quick for that.
        context.run("import time; time.sleep(0.01); kept = 7")
        with context.stream("print('began')\ntime.sleep(1000)") as stream:
            next(iter(stream))
        until(lambda: context.status().state == "idle")
        self.assertEqual(context.run("kept").text, "7")

    def test_a_cancelled_launch_leaves_nothing(self):
        async def cancelled():
            async with world().async_client() as client:
                async with AsyncSandbox(client=client, tags={"test": "left"}):
                    raise asyncio.CancelledError
        with self.assertRaises(asyncio.CancelledError):
            asyncio.run(cancelled())
        states = [each.state for each in self.client.list(tag=("test", "left"))]
        self.assertEqual(states, ["TERMINATED"])


if __name__ == "__main__":
    unittest.main()
