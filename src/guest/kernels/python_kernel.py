# The interpreter of a python context (docs/agent-protocol.md "data: contexts"). Runs as a process of the tenant; the agent is
# on descriptor 0 when it starts. No dependencies; Python 3.8 and later. Behind python_cells.py and python_magics.py it is one text.
import __future__

import ast
import base64
import builtins
import importlib
import inspect
import json
import linecache
import os
import signal
import sys
import threading
import traceback
import types
import warnings

try:
    import ctypes

    LIBC = ctypes.CDLL(None)
except Exception:
    LIBC = None

KERNEL_FILE = "<firebreak>"  # the name this text is compiled under
CELL = "<cell "
RESEED_SIGNAL = 41
MAX_ITEM = 32 << 20  # of a message, as the agent checks it
MAX_TEXT = 1 << 20
MAX_TRACEBACK_LINES = 400
MAX_LINE = 4000

FUTURE_FLAGS = 0
for _name in __future__.all_feature_names:
    FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag
TOP_LEVEL_AWAIT = getattr(ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0)

KINDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "text/latex": "latex",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "application/json": "json",
    "application/javascript": "javascript",
}
METHODS = [("_repr_%s_" % kind, kind) for kind in KINDS.values() if kind != "text"]
BINARY = ("png", "jpeg", "pdf")


class Channel:
    """Messages to and from the agent. An interrupt never cuts a message in half."""

    def __init__(self, fd):
        self.fd = fd
        self.lock = threading.RLock()
        self.pid = os.getpid()
        self.main = threading.get_ident()
        self.sending = 0  # by the main thread
        self.interrupted = False  # while it was sending

    def read(self, size):
        parts = []
        while size > 0:
            part = os.read(self.fd, min(size, 1 << 16))
            if not part:
                os._exit(0)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def receive(self):
        return self.read(int(self.read(8), 16))

    def send(self, kind, body=None):
        if os.getpid() != self.pid:
            return  # a child that the code forked
        text = b"" if body is None else json.dumps(body).encode()
        message = memoryview(b"%s%08x%s" % (kind, len(text), text))
        in_main = threading.get_ident() == self.main
        if in_main:
            self.sending += 1
        try:
            with self.lock:
                while message:
                    message = message[os.write(self.fd, message) :]
        finally:
            if in_main:
                self.sending -= 1
        if in_main and not self.sending and self.interrupted:
            self.interrupted = False
            if kernel.running:
                raise KeyboardInterrupt


class Kernel:
    def __init__(self, channel):
        self.channel = channel
        self.running = False  # code of the tenant is running: an interrupt means it
        self.count = 0
        self.cell = ""  # the name of the cell that runs
        self.index = 0  # of the object shown last in this run
        self.flags = TOP_LEVEL_AWAIT
        self.loop = None
        self.reseed_later = False
        self.module = types.ModuleType("__main__")
        self.space = self.module.__dict__
        sys.modules["__main__"] = self.module

    # Signals

    def on_interrupt(self, *_):
        if self.channel.sending:
            self.channel.interrupted = True
        elif self.running:
            raise KeyboardInterrupt

    def on_reseed(self, *_):
        """This process woke up as a copy: what it would call random must differ from the others'."""
        modules = sys.modules
        self.reseed_later = False
        try:
            if "random" in modules:
                modules["random"].seed()
            if "ssl" in modules:
                modules["ssl"].RAND_add(os.urandom(64), 64.0)
            if "numpy.random" in modules:
                numpy_random = modules["numpy.random"]
                # Whoever holds the lock may be the code under this handler.
                lock = numpy_random.mtrand._rand._bit_generator.lock
                if lock.acquire(blocking=False):
                    lock.release()
                    numpy_random.seed()
                else:
                    self.reseed_later = True
        except Exception as error:
            sys.stderr.write("firebreak: cannot seed a random number generator: %r\n" % error)

    # Showing values

    def flush(self):
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()
            except Exception:
                pass
        if LIBC is not None:
            LIBC.fflush(None)

    def show(self, value, main):
        forms = self.forms(value)
        self.flush()
        self.index += 1
        for kind, data in forms.items():
            self.item(kind, data, main)

    def item(self, kind, data, main):
        if isinstance(data, (bytes, bytearray, memoryview)):
            data = base64.b64encode(data).decode()
        body = {"type": kind, "main": main, "index": self.index, "data": data}
        if kind == "text" and len(data) > MAX_TEXT:
            body["data"] = data[:MAX_TEXT]
            body["truncated"] = True
        if isinstance(data, str) and len(data) > MAX_ITEM // 2:
            size = len(json.dumps(data))
        else:
            size = 0
        if size > MAX_ITEM - 4096:
            sys.stderr.write("firebreak: a result of type %s is too large (%d bytes)\n" % (kind, size))
            self.flush()
            return
        self.channel.send(b"I", body)

    def forms(self, value):
        forms = {}
        figures = sys.modules.get("matplotlib.figure")
        if figures is not None and isinstance(value, figures.Figure):
            forms["png"] = self.picture(value)
        elif not isinstance(value, type):
            self.bundle_forms(value, forms)
            for method, kind in METHODS:
                if kind not in forms:
                    data = self.ask(value, method)
                    if data is not None:
                        forms[kind] = data
        checked = {"text": forms.pop("text", None)}
        if not isinstance(checked["text"], str):
            checked["text"] = repr(value)
        for kind, data in forms.items():
            if self.fits(kind, data):
                checked[kind] = data
        return checked

    @staticmethod
    def fits(kind, data):
        if isinstance(data, (bytes, bytearray, memoryview)):
            return kind in BINARY or "/" in kind
        if isinstance(data, str):
            return True
        if kind != "json" and not kind.endswith("json"):
            return False
        try:
            json.dumps(data, allow_nan=False)
            return True
        except (TypeError, ValueError, RecursionError):
            return False

    def bundle_forms(self, value, forms):
        bundle = self.ask(value, "_repr_mimebundle_", include=None, exclude=None)
        if isinstance(bundle, dict):
            for mime, data in bundle.items():
                if isinstance(mime, str) and data is not None:
                    forms[KINDS.get(mime, mime)] = data

    def ask(self, value, method, **arguments):
        if not callable(getattr(type(value), method, None)):
            return None
        try:
            data = getattr(value, method)(**arguments)
        except NotImplementedError:
            return None
        except Exception as error:
            sys.stderr.write("%s of %s failed: %r\n" % (method, type(value).__name__, error))
            return None
        if isinstance(data, tuple) and len(data) == 2 and isinstance(data[1], dict):
            data = data[0]  # with metadata
        return data

    def picture(self, figure):
        import io

        data = io.BytesIO()
        figure.savefig(data, format="png", bbox_inches="tight")
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            pyplot.close(figure)
        return data.getvalue()

    def show_figures(self):
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is None:
            return
        try:
            for number in pyplot.get_fignums():
                self.show(pyplot.figure(number), False)
        finally:
            pyplot.close("all")

    # Running code

    def execute(self, code):
        self.channel.send(b"B")  # from here on an interrupt is taken
        self.cell = CELL + "%d>" % self.count
        lines = [line + "\n" for line in code.split("\n")]
        linecache.cache[self.cell] = (len(code), None, lines, self.cell)
        value = self.step_of_cell(code)()
        if value is not None:
            self.space["_"] = value
            self.show(value, True)

    def step_of_cell(self, code):
        """What runs code of the cell at hand and returns the value of its last expression."""
        magic = split_cell_magic(code)
        if magic is not None:
            return lambda: CELL_MAGICS[magic[0]](*magic[1:])
        return self.step_of(parse(code, self.cell, self.flags), Scope())

    def step_of(self, tree, scope):
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        first = compile(tree, scope.name, "exec", self.flags, True)
        self.flags |= first.co_flags & FUTURE_FLAGS
        last = last and compile(last, scope.name, "eval", self.flags, True)

        def run():
            self.evaluate(first, scope.space)
            return last and self.evaluate(last, scope.space)

        return run

    def evaluate(self, code, space):
        value = eval(code, space)
        if code.co_flags & inspect.CO_COROUTINE:
            value = self.wait_for(value)
        return value

    def wait_for(self, coroutine):
        import asyncio

        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit):
            if not task.done():
                task.cancel()
                try:
                    self.loop.run_until_complete(task)
                except BaseException:
                    pass
            raise

    def report(self, error):
        try:
            whole = traceback.TracebackException(type(error), error, error.__traceback__)
            self.strip(whole, set())
            lines = "".join(whole.format()).rstrip("\n").split("\n")
        except Exception as failure:
            lines = ["(no traceback: %r)" % failure]
        if len(lines) > MAX_TRACEBACK_LINES:
            half = MAX_TRACEBACK_LINES // 2
            lines = lines[:half] + ["..."] + lines[-half:]
        try:
            message = str(error)
        except Exception:
            message = "(the message of the error cannot be shown)"
        self.channel.send(
            b"E",
            {
                "name": type(error).__name__,
                "message": message[: 1 << 16],
                "traceback": [line[:MAX_LINE] for line in lines],
            },
        )

    def strip(self, whole, seen):
        """Takes our own frames, and what we called to get to the code, out of a traceback."""
        if whole is None or id(whole) in seen:
            return
        seen.add(id(whole))
        frames = list(whole.stack)
        if frames and frames[0].filename == KERNEL_FILE:
            first = next((i for i, f in enumerate(frames) if f.filename.startswith(CELL)), 0)
            frames = frames[first:]
        whole.stack[:] = [frame for frame in frames if frame.filename != KERNEL_FILE]
        self.strip(whole.__cause__, seen)
        self.strip(whole.__context__, seen)
        for one in getattr(whole, "exceptions", None) or ():
            self.strip(one, seen)

    def guarded(self, step):
        """Runs code of the tenant; returns the status it ended with."""
        try:
            self.running = True
            try:
                step()
            finally:
                self.running = False
            return "ok"
        except KeyboardInterrupt as error:
            self.running = False
            self.flush()
            self.report(error)
            return "interrupted"
        except SystemExit as error:
            if error.code is None or error.code == 0:
                return "ok"
            self.flush()
            self.report(error)
            return "error"
        except BaseException as error:
            self.flush()
            self.report(error)
            return "error"

    def run(self, code):
        self.count += 1
        self.index = 0
        self.channel.interrupted = False
        status = self.guarded(lambda: self.execute(code))
        if os.getpid() != self.channel.pid:
            # The code forked, and this is the child come back.
            self.flush()
            os._exit(0)
        if status != "interrupted":
            shown = self.guarded(self.show_figures)
            status = shown if status == "ok" else status
        if self.reseed_later:
            self.on_reseed()
        self.flush()
        self.channel.send(b"D", {"status": status})

    def idle(self):
        """Until there is a message; tasks that earlier runs left go on meanwhile."""
        if self.loop is None or self.loop.is_closed():
            return
        import asyncio

        if not asyncio.all_tasks(self.loop):
            return
        fd = self.channel.fd
        self.loop.add_reader(fd, self.loop.stop)
        try:
            self.loop.run_forever()
        except BaseException:
            self.flush()
        finally:
            self.loop.remove_reader(fd)

    def load(self, modules):
        """Imports what is to be there from the start; without one of them this interpreter is of no use."""
        for name in modules:
            try:
                importlib.import_module(name)
            except BaseException as error:
                why = "".join(traceback.format_exception_only(type(error), error)).strip()
                self.flush()
                os.write(2, ("cannot import %s: %s\n" % (name, why)).encode("utf-8", "backslashreplace"))
                os._exit(1)

    def serve(self):
        self.load(json.loads(self.channel.receive())["modules"])
        self.channel.send(b"R")
        while True:
            self.idle()
            self.run(self.channel.receive().decode("utf-8", "surrogateescape"))


def no_input(*_):
    raise EOFError("input() has nothing to read: the code of a context has no stdin")


def take_channel():
    import fcntl

    fd = fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, 64)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return Channel(fd)


def set_up():
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
    signal.signal(signal.SIGINT, kernel.on_interrupt)
    signal.signal(RESEED_SIGNAL, kernel.on_reseed)
    builtins.input = no_input
    builtins.display = lambda *values: [kernel.show(value, False) for value in values] and None
    builtins.__firebreak__ = Magics()
    warnings.filterwarnings("ignore", message=".*non-interactive, and thus cannot be shown")
    sys.argv = [""]


kernel = Kernel(take_channel())
set_up()
kernel.serve()
