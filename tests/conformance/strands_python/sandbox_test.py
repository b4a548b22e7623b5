"""FirebreakSandbox as the Sandbox of the unmodified Strands SDK: its six operations, its own tools, agents, cancellation."""
import asyncio
import time
import unittest

from world import ScriptedModel, address, results_of  # first: it says where the SDK is

from firebreak_sdk import Client
from firebreak_sdk.strands import FirebreakSandbox, SandboxHttpError
from strands import Agent
from strands.sandbox import ExecutionResult, Sandbox, StreamChunk
from strands.sandbox.errors import SandboxPathNotFoundError, SandboxTimeoutError
from strands.vended_tools import file_editor, python_repl, shell

PICTURE = """
class Picture:
    def _repr_png_(self): return b"\\x89PNG picture"
Picture()
"""
DEADLINE = 60


class OperationsTest(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls):
        cls.sandbox = FirebreakSandbox(**address()).start()
        cls.addClassCleanup(cls.sandbox.close)

    async def processes(self, word):
        done = await self.sandbox.execute(f"ps -eo args | grep -c '[{word[0]}]{word[1:]}'")
        return int(done.stdout)

    async def until_gone(self, word):
        end = time.monotonic() + DEADLINE
        while await self.processes(word):
            self.assertLess(time.monotonic(), end, "the guest did not kill it")

    async def test_it_is_the_base_class(self):
        self.assertIsInstance(self.sandbox, Sandbox)

    async def test_a_command_streams_and_ends_with_its_result(self):
        events = [event async for event in self.sandbox.execute_streaming("echo out; echo err >&2; exit 3", cwd="/tmp", env={"A": "b"})]
        self.assertIsInstance(events[-1], ExecutionResult)
        self.assertTrue(all(isinstance(event, StreamChunk) for event in events[:-1]))
        self.assertEqual((events[-1].exit_code, events[-1].stdout, events[-1].stderr), (3, "out\n", "err\n"))
        self.assertEqual({event.stream_type for event in events[:-1]}, {"stdout", "stderr"})
        done = await self.sandbox.execute("pwd; echo $A", cwd="/tmp", env={"A": "b c"})
        self.assertEqual(done.stdout, "/tmp\nb c\n")
        self.assertEqual((await self.sandbox.execute("kill -9 $$")).exit_code, 137)

    async def test_characters_split_over_two_reads_stay_whole(self):
        script = "import os,time\nfor b in 'grün €'.encode(): os.write(1, bytes([b])); time.sleep(0.01)"
        chunks = [event.data async for event in self.sandbox.execute_streaming(f"python3 -c \"{script}\"") if isinstance(event, StreamChunk)]
        self.assertEqual("".join(chunks), "grün €")

    async def test_a_timeout_kills_in_the_guest_and_keeps_what_was_printed(self):
        with self.assertRaises(SandboxTimeoutError) as caught:
            await self.sandbox.execute("echo before; sleep 7771", timeout=1)
        self.assertEqual(caught.exception.stdout, "before\n")
        await self.until_gone("sleep 7771")
        with self.assertRaises(SandboxTimeoutError) as caught:
            await self.sandbox.execute_code("print('so far', flush=True)\nwhile True: pass", "python3", timeout=2)
        self.assertEqual(caught.exception.stdout, "so far\n")

    async def test_cancellation_kills_in_the_guest(self):
        began = asyncio.Event()

        async def run():
            async for event in self.sandbox.execute_streaming("echo began; sleep 7772"):
                began.set()
        task = asyncio.create_task(run())
        await asyncio.wait_for(began.wait(), DEADLINE)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.until_gone("sleep 7772")

    async def test_code_is_a_fresh_process_each_time(self):
        self.assertEqual((await self.sandbox.execute_code("x = 1; print(x)", "python3")).stdout, "1\n")
        lost = await self.sandbox.execute_code("print(x)", "python3")
        self.assertEqual(lost.exit_code, 1)
        self.assertIn("NameError", lost.stderr)
        self.assertEqual((await self.sandbox.execute_code("import sys; sys.exit(4)", "python3")).exit_code, 4)
        self.assertEqual((await self.sandbox.execute_code("echo $0 $(pwd)", "sh", cwd="/tmp")).stdout, "sh /tmp\n")
        with self.assertRaises(ValueError):
            await self.sandbox.execute_code("1", "python3; rm -rf /")

    async def test_rich_results_are_output_files(self):
        done = await self.sandbox.execute_code(PICTURE, "python3")
        self.assertEqual([(each.content, each.mime_type) for each in done.output_files], [(b"\x89PNG picture", "image/png")])

    async def test_files(self):
        content = bytes(range(256)) * 1000
        await self.sandbox.write_file("/srv/new/dir/file.bin", content)
        self.assertEqual(await self.sandbox.read_file("/srv/new/dir/file.bin"), content)
        listed = await self.sandbox.list_files("/srv/new")
        self.assertEqual([(each.name, each.is_dir) for each in listed], [("dir", True)])
        self.assertEqual([each.size for each in await self.sandbox.list_files("/srv/new/dir")], [len(content)])
        await self.sandbox.remove_file("/srv/new/dir/file.bin")
        for missing in (self.sandbox.read_file, self.sandbox.remove_file):
            with self.assertRaises(FileNotFoundError):
                await missing("/srv/new/dir/file.bin")
        with self.assertRaises(SandboxPathNotFoundError):
            await self.sandbox.list_files("/nowhere")
        with self.assertRaises(SandboxPathNotFoundError):
            await self.sandbox.list_files("/etc/hostname")
        with self.assertRaises(OSError):
            await self.sandbox.write_file("/proc/nobody", b"x")
        await self.sandbox.write_text("relative.txt", "here")
        self.assertEqual((await self.sandbox.execute("cat relative.txt")).stdout, "here")

    async def test_a_request_is_made_by_the_guest(self):
        await self.sandbox.execute("cd /srv && echo page > page.txt && (setsid python3 -m http.server 8123 >/dev/null 2>&1 &)")
        end = time.monotonic() + DEADLINE
        while True:
            try:
                found = await self.sandbox.request("GET", "http://127.0.0.1:8123/page.txt")
                break
            except SandboxHttpError:
                self.assertLess(time.monotonic(), end)
        self.assertEqual((found.status, found.body), (200, b"page\n"))
        self.assertEqual((await self.sandbox.request("GET", "http://127.0.0.1:8123/none")).status, 404)
        with self.assertRaisesRegex(SandboxHttpError, "more than 2 bytes"):
            await self.sandbox.request("GET", "http://127.0.0.1:8123/page.txt", max_bytes=2)
        with self.assertRaises(SandboxHttpError):
            await self.sandbox.request("GET", "file:///etc/passwd")


class StatefulTest(unittest.IsolatedAsyncioTestCase):
    async def test_interpreter_and_shell_keep_their_state_also_when_tools_run_in_parallel(self):
        async with FirebreakSandbox(**address(), stateful=True) as sandbox:
            await sandbox.execute("cd /srv && export NAME=kept")
            self.assertEqual((await sandbox.execute("echo $NAME $(pwd)")).stdout, "kept /srv\n")
            self.assertEqual((await sandbox.execute("false")).exit_code, 1)
            await sandbox.execute_code("total = 0", "python3")
            await asyncio.gather(*(sandbox.execute_code("n = total\ntotal = n + 1", "python3") for _ in range(5)))
            self.assertEqual((await sandbox.execute_code("print(total)", "python3")).stdout, "5\n")


class AgentTest(unittest.TestCase):
    def test_agents_of_the_unmodified_sdk_work_in_the_microvm(self):
        with FirebreakSandbox(**address()) as sandbox:
            model = ScriptedModel(
                [("shell", {"command": "echo $((6*7)) > /tmp/answer; uname -n"}),
                 ("file_editor", {"command": "create", "path": "/tmp/note.txt", "file_text": "from the editor"})],
                [("python_repl", {"code": "print(open('/tmp/answer').read() + open('/tmp/note.txt').read())"})],
                "done")
            agent = Agent(model=model, tools=[shell, file_editor, python_repl], sandbox=sandbox, callback_handler=None)
            agent("compute")
            results = results_of(agent)
            self.assertIn("42", results[-1])
            self.assertIn("from the editor", results[-1])
            self.assertLessEqual({"sandbox_shell", "sandbox_file_editor", "sandbox_python"}, set(agent.tool_names))
            # Another call of the agent has another event loop.
            model.script = [[("sandbox_shell", {"command": "cat /tmp/answer"})], "again"]
            agent("again")
            self.assertIn("42", results_of(agent)[-1])

    def test_the_block_ends_the_microvm(self):
        with FirebreakSandbox(**address()) as sandbox:
            name = sandbox.id
        with Client(**address()) as client:
            self.assertEqual(client.get(name).info.state, "TERMINATED")

    def test_a_microvm_that_was_given_goes_on(self):
        with Client(**address()) as client, client.run("python") as box:
            with FirebreakSandbox(**address(), sandbox_id=box.id) as sandbox:
                self.assertEqual(sandbox.id, box.id)
            self.assertEqual(client.get(box.id).info.state, "RUNNING")
