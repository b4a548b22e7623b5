"""The official Python client of MCP, unmodified, over HTTP and stdio, in its three modes."""
import contextlib
import unittest

import anyio
import httpx2
from firebreak_server import Server
from mcp import StdioServerParameters
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client

MODES = ("legacy", "auto", "2026-07-28")


class PythonClient(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)

    @contextlib.asynccontextmanager
    async def connect(self, transport, mode):
        if transport == "stdio":
            words = ["--data-dir", str(self.server.directory), "mcp"]
            async with Client(StdioServerParameters(command=str(self.server.build / "firebreak"), args=words), mode=mode) as client:
                yield client
            return
        headers = {"authorization": f"Bearer {self.server.key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=httpx2.Timeout(30, read=300)) as http:
            async with Client(streamable_http_client(f"{self.server.url}/mcp", http_client=http), mode=mode) as client:
                yield client

    async def each(self, check):
        for transport in ("http", "stdio"):
            for mode in MODES:
                with self.subTest(transport=transport, mode=mode):
                    async with self.connect(transport, mode) as client:
                        await check(client)

    async def test_lists_calls_and_reads(self):
        async def check(client):
            tools = await client.list_tools()
            self.assertEqual(len(tools.tools), 13)
            await client.call_tool("execute_code", {"code": "x = 6"})
            result = await client.call_tool("execute_code", {"code": "print('zwölf')\nx * 7"})
            self.assertFalse(result.is_error, result)
            self.assertEqual(result.structured_content["result"], "42")
            self.assertEqual(result.structured_content["stdout"], "zwölf\n")
            failed = await client.call_tool("execute_code", {"code": "1 / 0"})
            self.assertTrue(failed.is_error)
            written = await client.call_tool("write_file", {"path": "/srv/from python.txt", "text": "hello"})
            read = await client.read_resource(written.structured_content["uri"])
            self.assertEqual(read.contents[0].text, "hello")
            listed = await client.list_resources()
            self.assertIn(written.structured_content["uri"], [str(each.uri) for each in listed.resources])

        await self.each(check)

    async def test_progress_and_cancel(self):
        async def check(client):
            heard = []
            with anyio.move_on_after(60) as scope:

                async def hear(progress, total, message):
                    heard.append(progress)
                    if message and "begun" in message:
                        scope.cancel()

                await client.call_tool("run_command", {"command": "echo begun; exec sleep 7654"}, progress_callback=hear)
            self.assertTrue(scope.cancelled_caught)
            self.assertTrue(heard)
            with anyio.fail_after(60):
                while True:
                    left = await client.call_tool("run_command", {"command": 'pgrep -f "sleep 765[4]" -c || true'})
                    if left.structured_content["stdout"].strip() == "0":
                        break

        await self.each(check)
