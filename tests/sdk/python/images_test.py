"""Images and builds, and what belongs to a tenant."""
import io
import json
import pathlib
import sys
import tarfile
import tempfile
import unittest

from world import world  # first: it says where the SDK is

from firebreak_sdk import errors, progress

DOCKERFILE = "FROM firebreak/python:3.11\nARG WHO\nRUN --mount=type=secret,id=key echo $WHO >/who && cat /run/secrets/key >>/who\nENV A=1\n"


class ImagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = world().client()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def test_build(self):
        seen = []
        with tempfile.TemporaryDirectory() as context:
            pathlib.Path(context, "Dockerfile").write_text(DOCKERFILE)
            made = self.client.images.build("sdk-built", context, args={"WHO": "me"}, env={"B": "2"}, memory_mib=512, secrets={"key": b"hush"},
                                            progress=seen.append)
            same = self.client.images.build("sdk-built", context, args={"WHO": "me"}, env={"B": "2"}, memory_mib=512, secrets={"key": b"hush"})
        self.assertEqual((made.image, made.version, same.version), ("sdk-built", "1.0", "1.0"))
        self.assertTrue(any(each.total and each.done == each.total for each in seen), seen)
        self.assertTrue(seen[-1].finished)
        self.assertIn("RUN", "".join(self.client.images.log("sdk-built")))
        with self.client.run("sdk-built") as box:
            self.assertEqual(box.exec("cat /who; echo $A$B").stdout, "me\nhush12\n")
        self.assertEqual([each.version for each in self.client.images.get("sdk-built").versions], ["1.0"])
        self.assertEqual(self.client.images.prune("sdk-built").removed, [])
        self.assertGreaterEqual(self.client.images.build_cache().layers, 0)

        # A build that is ended fails, and its version can be removed.
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            text = b"FROM firebreak/python:3.11\nRUN sleep 1000\n"
            member = tarfile.TarInfo("Dockerfile")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
        slow = self.client.images.build("sdk-built", archive.getvalue(), wait=False)
        self.client.images.cancel("sdk-built", slow.version)
        for _ in self.client.images.log("sdk-built", slow.version, follow=True):
            pass
        self.assertEqual(self.client.images.version("sdk-built", slow.version).state, "FAILED")
        self.client.images.delete_version("sdk-built", slow.version)
        self.client.images.delete("sdk-built")
        with self.assertRaises(errors.NotFoundError):
            self.client.images.get("sdk-built")

    def test_create_with_an_application(self):
        app = {"argv": ["python3", "-u", "-c", "import time\nprint('serving')\ntime.sleep(1e6)"]}
        version = self.client.images.create("sdk-app", app=app, env={"A": "1"}, tags={"t": "1"})
        self.assertTrue(version.active)
        with self.client.run("sdk-app") as box:
            self.assertIn("serving", next(box.logs(follow=True)).text)
        self.client.images.delete("sdk-app")

    def test_bases_and_list(self):
        self.assertIn("firebreak/python:3.11", {each.name for each in self.client.images.bases()})
        python = next(each for each in self.client.images.list() if each.name == "python")
        self.assertTrue(python.system)

    def test_a_bar_shows_steps_and_no_control_characters(self):
        out = io.StringIO()
        bar = progress.Bar(out)
        bar(progress.Progress("building", "[1/2] RUN \x1b[31mx", 1, 2))
        bar(progress.Progress("building", "done", 2, 2, finished=True))
        self.assertIn("[###############               ] 1 of 2", out.getvalue())
        self.assertNotIn("\x1b[31m", out.getvalue())
        self.assertTrue(out.getvalue().endswith("\n"))
        self.assertFalse(sys.stderr.isatty() and progress.reporter(None) is None)


class TenantTest(unittest.TestCase):
    def test_keys_roles_and_tenants(self):
        with world().client() as client:
            own = client.tenant()
            self.assertGreater(own.limits.microvms, 0)
            key = client.keys.create("sdk")
            self.assertIn(key.access_key_id, {each.access_key_id for each in client.keys.list()})
            client.keys.revoke(key.access_key_id)
            made = client.tenants.create("sdk-tenant", limits={"microvms": 2})
            self.assertEqual(client.tenants.set_limits(made.account_id, microvms=3).limits.microvms, 3)
            self.assertEqual(client.tenants.set_egress(made.account_id, default="NO_EGRESS").default, "NO_EGRESS")
            self.assertIn(made.account_id, {each.account_id for each in client.tenants.list()})
            client.tenants.delete(made.account_id)
            policy = {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
            self.assertEqual(client.roles.put("sdk-role", policy).name, "sdk-role")
            self.assertEqual(client.roles.get("sdk-role").policy["Statement"][0]["Effect"], "Allow")
            self.assertIn("sdk-role", {each.name for each in client.roles.list()})
            client.roles.delete("sdk-role")
            client.secrets.put("sdk-secret", "sdk-hunter2!")
            self.assertIn("sdk-secret", {each.name for each in client.secrets.list()})
            client.secrets.delete("sdk-secret")
            self.assertTrue(client.check().ok, json.dumps(str(client.check())))


if __name__ == "__main__":
    unittest.main()
