"""The asynchronous client: each part once, and that it is the twin of the synchronous one."""
import asyncio
import inspect
import io
import unittest

from world import world  # first: it says where the SDK is

import firebreak_sdk
from firebreak_sdk import AsyncSandbox
from firebreak_sdk._async import client, commands, contexts, files, images, sandbox, sessions, tenant, tokens


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_day_in_a_sandbox(self):
        async with world().async_client() as client, AsyncSandbox(client=client, tags={"test": "async"}) as box:
            self.assertEqual((await box.run("print(6*7)")).stdout, "42\n")
            done, counted = await asyncio.gather(box.exec("echo one"), box.run("len('four')"))
            self.assertEqual((done.stdout, counted.text), ("one\n", "4"))
            async with box.stream("echo a; echo b") as stream:
                text = "".join([event.text async for event in stream])
            self.assertEqual((text, stream.result.exit_code), ("a\nb\n", 0))
            process = await box.spawn(["cat"], open_stdin=True)
            await process.write("in")
            await process.close_stdin()
            self.assertEqual((await process.wait()).stdout, "in")
            await box.files.write("/tmp/f", io.BytesIO(b"bytes"))
            self.assertEqual(await box.files.read("/tmp/f"), b"bytes")
            self.assertEqual([each.name async for each in client.images.list(name="python")], ["python"])
            self.assertIn(box.id, [each.id async for each in client.list(tag=("test", "async"))])
            context = await box.interpreter()
            async with context.stream("print(1)\n2") as running:
                result = await running.wait()
            self.assertEqual((result.stdout, result.text), ("1\n", "2"))
            [copy] = await box.fork()
            async with copy:
                self.assertEqual(copy.info.parent, box.id)
            self.assertEqual((await box.suspend()).state, "SUSPENDED")
            self.assertEqual((await box.exec("echo awake")).stdout, "awake\n")
            events = [event async for event in client.events(after=0, microvm=box.id, follow=False)]
            self.assertIn("SUSPENDED", [event.to for event in events])
            async with await box.http(8080) as http:
                self.assertEqual((await http.get("/")).status_code, 502, "nothing listens there")

    def test_every_method_has_its_twin(self):
        compared = 0
        for module in (client, commands, contexts, files, images, sandbox, sessions, tenant, tokens):
            for name, kind in inspect.getmembers(module, inspect.isclass):
                if kind.__module__ != module.__name__ or not name.startswith("Async"):
                    continue
                twin_module = __import__(kind.__module__.replace("._async.", "._sync."), fromlist=["x"])
                twin = getattr(twin_module, name.removeprefix("Async"))
                for method, function in inspect.getmembers(kind, inspect.isfunction):
                    if method.startswith("_"):
                        continue
                    same = getattr(twin, {"aclose": "close"}.get(method, method))
                    self.assertEqual(list(inspect.signature(function).parameters), list(inspect.signature(same).parameters), method)
                    self.assertFalse(inspect.iscoroutinefunction(same), method)
                    compared += 1
        self.assertGreater(compared, 80)
        self.assertTrue(all(hasattr(firebreak_sdk, name) for name in firebreak_sdk.__all__))


if __name__ == "__main__":
    unittest.main()
