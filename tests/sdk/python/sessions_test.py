"""Code of agents: execute_code, sessions, templates, policy, caps, records."""
import unittest

from world import world  # first: it says where the SDK is

from firebreak_sdk import AsyncClient, Client, errors


class SessionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = world().client()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def test_a_turn_keeps_its_state_and_every_call_is_recorded(self):
        first = self.client.execute_code("x = 41; print('kept')", agent_id="py-agent", turn_id="t1")
        self.assertEqual((first.ok, first.stdout, first.exit_status), (True, "kept\n", "ok"))
        seen = []
        second = self.client.execute_code("print(x + 1)", agent_id="py-agent", turn_id="t1", on_output=lambda event: seen.append(event.text))
        self.assertEqual((second.stdout, second.session_id, "".join(seen)), ("42\n", first.session_id, "42\n"))
        failed = self.client.execute_code("1/0", agent_id="py-agent", turn_id="t1", language="python")
        self.assertEqual((failed.ok, failed.exit_status, failed.error), (False, "error", "SandboxError"))
        records = list(self.client.invocations.list(agent_id="py-agent", session=first.session_id, page_size=2))
        self.assertEqual([each.invocation_id for each in records], [failed.invocation_id, second.invocation_id, first.invocation_id])
        self.assertEqual(self.client.invocations.get(first.invocation_id).agent_id, "py-agent")
        self.assertEqual(self.client.invocations.output(first.invocation_id).stdout, "kept\n")
        self.assertTrue(self.client.end_turn("t1", agent_id="py-agent"))
        self.assertFalse(self.client.end_turn("t1", agent_id="py-agent"))

    def test_sessions_and_templates(self):
        made = self.client.templates.put("py-inner", environment="internal-only", callSeconds=30, languages=["python", "bash"])
        self.assertEqual((made.environment, made.call_seconds), ("internal-only", 30))
        self.assertEqual(self.client.templates.change("py-inner", callSeconds=20, cpuSeconds=None).call_seconds, 20)
        self.assertEqual(self.client.templates.get("py-inner").languages, ["python", "bash"])
        self.assertIn("py-inner", {each.name for each in self.client.templates.list()})
        with self.client.sessions.create("py-agent", template="py-inner") as session:
            self.assertEqual(session.execute("echo $((6*7))", language="bash").stdout, "42\n")
            done = session.exec(["sh", "-c", "echo $A; exit 3"], env={"A": "b"}, cwd="/tmp")
            self.assertEqual((done.stdout, done.exit_code, done.ok), ("b\n", 3, False))
            files = session.files
            files.write("/tmp/sub/f", "hello", parents=True)
            files.mkdir("/tmp/dir")
            files.rename("/tmp/sub/f", "/tmp/dir/f")
            self.assertEqual((files.read("/tmp/dir/f"), files.stat("/tmp/dir/f").size), (b"hello", 5))
            self.assertEqual([each.name for each in files.list("/tmp/dir")], ["f"])
            archive = b"".join(files.tar("/tmp/dir"))
            files.untar("/tmp/sub", archive)
            files.remove("/tmp/dir", recursive=True)
            self.assertEqual(files.read_text("/tmp/sub/f"), "hello")
            self.assertEqual(session.refresh().state, "LIVE")
            self.assertIn(session.id, {each.id for each in self.client.sessions.list()})
        self.assertEqual(session.info.state, "ENDED")
        self.assertEqual(self.client.sessions.get(session.id).info.state, "ENDED")
        self.assertIn(session.id, {each.id for each in self.client.sessions.list(all=True)})
        self.client.templates.delete("py-inner")

    def test_policy_caps_and_keys_of_agents(self):
        tenant = self.client.tenants.create("py-agents")
        owner = Client(world().server.url, tenant.key.api_key)
        key = owner.keys.create("bot", kind="agent", agent_id="bot")
        self.assertEqual((key.kind, key.agent_id), ("agent", "bot"))
        with Client(world().server.url, key.api_key) as bot:
            self.assertEqual(bot.execute_code("print(1)", turn_id="t").stdout, "1\n")
            with self.assertRaises(errors.DeniedError):
                bot.run()
            self.assertEqual(self.client.tenants.set_limits(tenant.account_id, agent_hourly=1).limits.agent_hourly, 1)
            refused = bot.execute_code("print(2)", turn_id="t")
            self.assertEqual((refused.ok, refused.exit_status, refused.dimension), (False, "cap_exceeded", "agent_hourly"))
            self.assertTrue(refused.resets_at)
            self.assertIsNone(self.client.tenants.set_limits(tenant.account_id, agent_hourly=None).limits.agent_hourly)
            self.assertFalse(self.client.tenants.set_policy(tenant.account_id, enabled=False).enabled)
            self.assertEqual(bot.execute_code("print(3)", turn_id="t").exit_status, "provisioning")
            bot.end_turn("t")
        owner.close()
        self.assertTrue(self.client.policy().enabled)
        self.assertIn("tenant_daily", {each.dimension for each in self.client.caps()})


class AsyncSessionsTest(unittest.IsolatedAsyncioTestCase):
    async def test_execute_code(self):
        async with AsyncClient(**world().address) as client:
            answer = await client.execute_code("print(6*7)", agent_id="py-async")
            self.assertEqual(answer.stdout, "42\n")
            self.assertEqual([each.invocation_id async for each in client.invocations.list(agent_id="py-async")], [answer.invocation_id])


if __name__ == "__main__":
    unittest.main()
