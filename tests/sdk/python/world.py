"""What the tests of this folder share: one real server, and a record of every answer, which must be as the OpenAPI document says."""
import atexit
import json
import os
import pathlib
import re
import sys
import time

import httpx

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "sdk/python/src"))

from firebreak_server import Server  # noqa: E402
from firebreak_sdk import AsyncClient, Client  # noqa: E402


class World:
    def __init__(self):
        self.server = Server()
        atexit.register(self.server.stop)
        self.document = httpx.get(self.server.url + "/v1/openapi.json").json()
        self.called = set()
        self.wrong = []
        self.address = {"url": self.server.url, "api_key": self.server.key, "ca_file": self.server.ca_file}
        self.environment = {**os.environ, "FIREBREAK_DATA_DIR": str(self.server.directory), "PYTHONPATH": str(ROOT / "sdk/python/src")}

    def client(self, **options):
        """A client whose answers are checked."""
        def seen(response):
            if "application/json" in response.headers.get("content-type", ""):
                response.read()
            self.check(response)
        http = httpx.Client(timeout=600, event_hooks={"response": [seen]})
        return Client(**{**self.address, "http": http, **options})

    def async_client(self, **options):
        return AsyncClient(**{**self.address, **options})

    def check(self, response):
        request = response.request
        for path, methods in self.document["paths"].items():
            pattern = re.sub(r"\{\w+\}", "[^/]+", path)
            operation = methods.get(request.method.lower())
            if operation and re.fullmatch(pattern, request.url.raw_path.decode().partition("?")[0]):
                self.check_answer(operation, response)

    def check_answer(self, operation, response):
        if not response.is_success:
            return
        self.called.add(operation["operationId"])
        content = operation["responses"]["2XX"].get("content", {})
        kind = response.headers.get("content-type", "").partition(";")[0]
        if kind == "application/json":
            for problem in problems(self.document, content[kind]["schema"], json.loads(response.content), operation["operationId"]):
                self.wrong.append(problem)


JSON_TYPES = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "array": list, "object": dict}


def problems(document, schema, value, where):
    """What is not as the schema says, and members that it does not name: the document shall tell everything."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        results = [list(problems(document, choice, value, where)) for choice in schema["anyOf"]]
        yield from min(results, key=len)
        return
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not isinstance(value, tuple(JSON_TYPES[name] if isinstance(JSON_TYPES[name], type) else float for name in names)) \
            and not ("number" in names and isinstance(value, int)):
        yield f"{where} is {value!r}, not {schema['type']}"
        return
    if isinstance(value, list) and "items" in schema:
        for item in value:
            yield from problems(document, schema["items"], item, where + "[]")
    if isinstance(value, dict) and "properties" in schema:
        for name in schema.get("required", []):
            if name not in value:
                yield f"{where}.{name} is missing"
        for name, member in value.items():
            if name not in schema["properties"]:
                yield f"{where}.{name} is not in the document"
            else:
                yield from problems(document, schema["properties"][name], member, f"{where}.{name}")


_world = None


def world():
    global _world
    if _world is None:
        _world = World()
    return _world


def until(probe, seconds=60):
    """Waits for something that happens elsewhere; the limit is for hangs."""
    deadline = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError("waited too long")
        time.sleep(0.05)


def sleeps(box, seconds):
    """Whether a `sleep SECONDS` runs in the guest, found without finding what looks for it."""
    text = str(seconds)
    return box.exec(f"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep 'sleep {text[:-1]}[{text[-1]}]'").ok
