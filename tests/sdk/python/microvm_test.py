"""MicroVMs, commands, files, contexts, ports: the whole surface on one sandbox."""
import io
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

from world import ROOT, until, world  # first: it says where the SDK is

from firebreak_sdk import Sandbox, errors
from firebreak_sdk._archive import unpack
from firebreak_sdk.results import Artifact, Output


class MicrovmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = world().client()
        cls.box = cls.client.run(tags={"test": "microvm"}, env={"FROM_RUN": "yes"})

    @classmethod
    def tearDownClass(cls):
        cls.box.terminate()
        cls.client.close()

    # ---- life

    def test_list_get_and_update(self):
        found = list(self.client.list(tag=("test", "microvm"), state="RUNNING", page_size=1))
        self.assertEqual([each.id for each in found], [self.box.id])
        self.box.update(name="sdk-box", idle={"maxIdleSeconds": 600}, max_duration=7200)
        again = self.client.get("sdk-box")
        self.assertEqual((again.id, again.info.idle.max_idle_seconds, again.info.max_duration_seconds), (self.box.id, 600, 7200))
        self.assertTrue(again.info.awake_because)
        self.assertIsNone(self.box.update(name=None, idle=None, max_duration=None).idle)
        self.assertIsNone(self.box.refresh().name)

    def test_suspend_resume_fork_terminate(self):
        with self.client.run() as box:
            box.run("kept = 41")
            self.assertEqual(box.suspend().state, "SUSPENDED")
            self.assertEqual(box.resume().state, "RUNNING")
            copies = box.fork(2)
            for copy in copies:
                with copy:
                    self.assertEqual(copy.info.parent, box.id)
                    self.assertEqual(copy.run("kept + 1").text, "42")
            self.assertEqual([copy.refresh().state for copy in copies], ["TERMINATED"] * 2)
        self.assertEqual(box.info.state, "TERMINATED")
        self.assertEqual(box.terminate().state, "TERMINATED", "ending it twice is no error")

    def test_a_block_around_somebodys_microvm_does_not_end_it(self):
        with self.client.get(self.box.id) as same:
            self.assertEqual(same.exec("echo $FROM_RUN").stdout, "yes\n")
        self.assertEqual(self.box.refresh().state, "RUNNING")

    def test_events_and_usage(self):
        events = list(self.client.events(after=0, microvm=self.box.id, follow=False))
        self.assertIn("RUNNING", [event.to for event in events])
        follower = self.client.events(microvm=self.box.id)
        with self.client.run() as other:
            pass
        self.assertIn(other.id, {event.microvm for event in self.client.events(after=events[-1].sequence, follow=False)})
        follower.close()
        usage = self.client.usage(since=0)
        self.assertIn(self.box.id, {item.microvm for item in usage.items})
        self.assertGreater(usage.total.running_seconds, 0)

    # ---- commands

    def test_exec(self):
        done = self.box.exec(["sh", "-c", "cat; echo $A $(pwd) >&2; exit 3"], env={"A": "b"}, cwd="/tmp", stdin=b"\xff\x00", user="root")
        self.assertEqual((done.stdout_bytes, done.stderr, done.exit_code, done.ok), (b"\xff\x00", "b /tmp\n", 3, False))
        with self.assertRaisesRegex(errors.CommandError, "exit status 3"):
            done.check()
        self.assertEqual(self.box.exec("echo text").check().stdout, "text\n")
        self.assertTrue(self.box.exec("sleep 100", timeout=0.2).exit.timed_out)

    def test_stream(self):
        with self.box.stream("echo out; echo err >&2; exit 4") as stream:
            events = list(stream)
        self.assertEqual({(event.stream, event.text) for event in events}, {("stdout", "out\n"), ("stderr", "err\n")})
        self.assertEqual((stream.result.exit_code, stream.result.stdout, bool(stream.id)), (4, "out\n", True))
        # Characters that some take for the end of a line are none.
        with self.box.stream("printf 'a\\342\\200\\250b\\302\\205c\\n'") as stream:
            self.assertEqual(stream.wait().stdout, "a\u2028b\u0085c\n")

    def test_processes_outlive_connections(self):
        process = self.box.spawn("echo began; cat; exit 5", open_stdin=True)
        first = next(process.output())
        self.assertEqual(first.text, "began\n")
        again = self.client.get(self.box.id).process(process.id)
        self.assertTrue(again.status().running)
        process.write("one ")
        process.write(b"two\n")
        process.close_stdin()
        result = again.wait()
        self.assertEqual((result.stdout, result.exit_code), ("began\none two\n", 5))
        self.assertEqual(b"".join(each.data for each in again.output(offset=6, follow=False)), b"one two\n")
        self.assertIn(process.id, {each.id for each in self.box.processes()})
        again.kill()
        self.assertNotIn(process.id, {each.id for each in self.box.processes()})

    def test_terminals_and_signals(self):
        process = self.box.spawn("stty size; read line; stty size; sleep 1000", open_stdin=True, pty=(100, 30))
        output = process.output()
        self.assertIn("30 100", next(output).text)
        process.resize(90, 20)
        process.write("\n")
        seen = ""
        while "20 90" not in seen:
            seen += next(output).text
        output.close()
        process.signal(15)
        self.assertEqual(process.wait().exit.signal, 15)
        process.kill()

    def test_logs(self):
        self.assertEqual(list(self.box.logs()), [], "the image python has no application")

    # ---- files

    def test_files(self):
        files = self.box.files
        files.write("/srv/sdk/a ü.txt", "hello", mode=0o640, parents=True)
        files.write("/srv/sdk/a ü.txt", b" world", append=True)
        files.write("/srv/sdk/a ü.txt", "J", offset=0)
        self.assertEqual(files.read_text("/srv/sdk/a ü.txt"), "Jello world")
        self.assertEqual(files.read("/srv/sdk/a ü.txt", offset=1, length=4), b"ello")
        self.assertEqual(files.stat("/srv/sdk/a ü.txt").mode & 0o777, 0o640)
        files.mkdir("/srv/sdk/deep/er", parents=True, mode=0o700)
        files.rename("/srv/sdk/a ü.txt", "/srv/sdk/deep/b")
        self.assertEqual({each.name: each.type for each in files.list("/srv/sdk")}, {"deep": "dir"})
        self.assertTrue(files.exists("/srv/sdk/deep/b"))
        files.remove("/srv/sdk/deep/b")
        self.assertFalse(files.exists("/srv/sdk/deep/b"))
        files.remove("/srv/sdk", recursive=True)
        big = io.BytesIO(b"0123456789" * 300_000)
        files.write("/tmp/big", big)
        self.assertEqual(sum(len(piece) for piece in files.stream("/tmp/big")), 3_000_000)

    def test_directories(self):
        with tempfile.TemporaryDirectory() as scratch:
            source = pathlib.Path(scratch, "source")
            (source / "sub").mkdir(parents=True)
            (source / "sub/file").write_text("content")
            self.box.files.upload(source, "/srv/up")
            self.box.files.upload(source / "sub/file", "/srv/up/single")
            self.box.exec("ln -s /etc/passwd /srv/up/link").check()
            left = self.box.files.download("/srv/up", pathlib.Path(scratch, "back"))
            self.assertEqual(left, ["link"])
            self.assertEqual(pathlib.Path(scratch, "back/sub/file").read_text(), "content")
            self.box.files.download("/srv/up/single", pathlib.Path(scratch, "one"))
            self.assertEqual(pathlib.Path(scratch, "one").read_text(), "content")
        archive = b"".join(self.box.files.tar("/srv/up/sub"))
        self.assertEqual([name.strip("./") for name in tarfile.open(fileobj=io.BytesIO(archive)).getnames()][-1], "file")
        self.box.files.mkdir("/srv/again")
        self.box.files.untar("/srv/again", archive)
        self.assertEqual(self.box.files.read("/srv/again/file"), b"content")

    def test_a_hostile_archive_stays_in_its_directory(self):
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode="w") as archive:
            for name in ("../outside", "/tmp/fb-sdk-outside", "in/../../outside", "fine"):
                member = tarfile.TarInfo(name)
                member.size, member.mode = 1, 0o4777
                archive.addfile(member, io.BytesIO(b"x"))
        with tempfile.TemporaryDirectory() as scratch:
            target = pathlib.Path(scratch, "target")
            with unpack(target) as unpacking:
                unpacking.feed(made.getvalue())
            self.assertEqual(len(unpacking.left_out), 3)
            self.assertEqual([path.name for path in pathlib.Path(scratch).rglob("*")], ["target", "fine"])
            self.assertEqual((target / "fine").stat().st_mode & 0o7000, 0)

    # ---- contexts

    def test_contexts(self):
        context = self.box.contexts.create("python", id="mine", cwd="/tmp", env={"A": "1"}, user="root")
        self.assertEqual(context.run("import os\nos.environ['A'], os.getcwd()").text, "('1', '/tmp')")
        self.assertIn("mine", {each.id for each in self.box.contexts.list()})
        self.assertEqual(context.status().language, "python")
        context.run("x = 1")
        self.assertEqual(context.restart().id, "mine")
        failed = context.run("x")
        self.assertEqual((failed.status, failed.error.name), ("error", "NameError"))
        with self.assertRaisesRegex(errors.CommandError, "NameError"):
            failed.check()
        self.assertEqual(context.run("while True: pass", timeout=0.5).status, "timeout")
        self.assertFalse(context.interrupt())
        context.delete()
        self.assertNotIn("mine", {each.id for each in self.box.contexts.list()})

    def test_code_in_other_languages_and_streams(self):
        self.assertEqual(self.box.run("A=5; echo $A", language="bash").stdout, "5\n")
        seen = []
        result = self.box.run("print('one')\n'two'", on_output=seen.append)
        self.assertEqual((result.stdout, result.text), ("one\n", "'two'"))
        self.assertEqual([type(each) for each in seen], [Output, Artifact])
        context = self.box.interpreter()
        context.run("import time; time.sleep(0.01)")
        with context.stream("print('began')\ntime.sleep(1000)") as stream:
            self.assertEqual(next(iter(stream)).text, "began\n")
            self.assertTrue(context.interrupt(stream.run))
            self.assertEqual(stream.wait().status, "interrupted")

    def test_notebooks(self):
        code = ("class Table:\n  def _repr_html_(self): return '<b onclick=\"x\">bold</b>'\n"
                "  def _repr_png_(self): return b'\\x89PNG fake'\nTable()")
        result = self.box.run(code)
        self.assertEqual(result.png, b"\x89PNG fake")
        png = next(each for each in result.results if each.kind == "png")
        self.assertEqual((png._repr_png_(), png._repr_jpeg_()), (b"\x89PNG fake", None))
        self.assertIn("data:image/png;base64,", result._repr_html_())
        html = next(each for each in result.results if each.kind == "html")._repr_html_()
        self.assertIn("iframe sandbox", html)
        self.assertNotIn("<b", html, "markup of a guest is never part of the page")
        self.assertIn("&lt;", self.box.run("print('<i>')\n1/0")._repr_html_())
        self.assertIn("exit status 1", self.box.exec("echo '<i>'; false")._repr_html_())

    # ---- ports

    def test_endpoint(self):
        self.box.exec("mkdir -p /srv/www && echo page >/srv/www/index.html && cd /srv/www && nohup python3 -m http.server 8080 >/dev/null 2>&1 &")
        with self.box.http(8080, timeout=60) as http:
            until(lambda: http.get("/").status_code == 200)
            self.assertEqual(http.get("/index.html").text, "page\n")
        token = self.box.tokens.create("8080,9000-9010", expires=60)
        self.assertEqual((token.ports, token.kind), ("8080,9000-9010", "endpoint"))
        self.assertIn(token.id, {each.id for each in self.box.tokens.list()})
        self.box.tokens.revoke(token.id)
        revoked = next(each for each in self.box.tokens.list() if each.id == token.id)
        self.assertIsNotNone(revoked.revoked_at)

    def test_egress(self):
        policy = self.client.egress_policies.put("sdk-docs", rules=[{"action": "allow", "domain": "example.com", "protocol": "tcp", "ports": [443]}])
        self.assertEqual(policy.rules[0].domain, "example.com")
        self.assertIn("sdk-docs", {each.name for each in self.client.egress_policies.list()})
        self.assertEqual(self.client.egress_policies.get("sdk-docs").name, "sdk-docs")
        self.assertEqual(self.box.egress(limit=10, suggest=True).policy, self.box.info.egress)
        self.client.egress_policies.delete("sdk-docs")

    # ---- the first program

    def test_the_first_program_finds_the_server_by_itself(self):
        program = 'from firebreak_sdk import Sandbox\nwith Sandbox() as box:\n    print(box.run("print(6*7)").stdout)\n'
        done = subprocess.run([sys.executable, "-c", program], env=world().environment, capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stdout, done.stderr), ("42\n\n", ""))
        self.assertIn(program.splitlines()[0], (ROOT / "docs/sdk-python.md").read_text())

    def test_without_a_block_the_first_call_starts_it(self):
        box = Sandbox(client=self.client, name="lazy")
        with self.assertRaisesRegex(errors.FirebreakError, "not there yet"):
            box.id  # noqa: B018
        box.files.write("/tmp/x", "y")
        self.assertEqual((box.info.name, box.files.read("/tmp/x")), ("lazy", b"y"))
        box.terminate()


if __name__ == "__main__":
    unittest.main()
