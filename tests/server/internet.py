"""A small internet for tests: runs in a network namespace that has all its addresses. Every address
answers HTTP on ports 53, 80, 443, 853 and 8080 with its own address (on 443 also over TLS, under any name, with a certificate
for allowed.example and 203.0.113.10 by a CA of its own, whose certificate is written to LOGFILE.ca),
echoes UDP on 7, 443 and 4000, and one resolver answers DNS; port 8082 speaks HTTP/2 without TLS (nghttpd). 203.0.113.40 port 9000 leads to the host's port 9000. What arrived is
written to a file, one line each.

usage: internet.py LOGFILE        prints "ready" when everything listens"""

import ctypes
import os
import signal
import socket
import socketserver
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

LOG = open(sys.argv[1], "a", buffering=1)
V4 = {
    "allowed.example": ["203.0.113.10"],
    "other.example": ["203.0.113.20"],
    "deep.a.wild.example": ["203.0.113.30"],
    "cdn.example": ["203.0.113.10"],
    "rebind.example": ["10.5.5.5"],
    "mixed.example": ["203.0.113.10", "10.5.5.5"],
    "metadata.example": ["169.254.169.254"],
    "loopback.example": ["127.0.0.1"],
    "host.example": ["198.51.100.2"],
}
V6 = {
    "allowed.example": ["2001:db8:2::10"],
    "rebind.example": ["fd00:5::5"],
    "mapped.example": ["::ffff:10.5.5.5"],
}


def note(*words):
    LOG.write(" ".join(str(word) for word in words) + "\n")


MEETINGS = {}
MEETINGS_LOCK = threading.Lock()


def meet(count):
    """Returns when so many have come."""
    with MEETINGS_LOCK:
        meeting = MEETINGS.setdefault(count, threading.Barrier(count))
    meeting.wait(280)


def sniff():
    """Each kind of packet that reached this world is written down once, whether anybody listens or not."""
    seen = set()
    everything = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    everything.bind(("host", 0))
    everything.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    while True:
        frame, where = everything.recvfrom(256)
        if where[2] == socket.PACKET_OUTGOING:
            continue
        kind, packet = frame[12:14], frame[14:]
        if kind == b"\x08\x00":
            number, rest, later = packet[9], packet[(packet[0] & 15) * 4 :], packet[6] & 0x1F | packet[7]
            source, to = (socket.inet_ntop(socket.AF_INET, packet[at : at + 4]) for at in (12, 16))
        elif kind == b"\x86\xdd":
            number, rest, later = packet[6], packet[40:], 0
            if number == 44:
                number, rest, later = rest[0], rest[8:], rest[2] | rest[3] & 0xF8
            source, to = (socket.inet_ntop(socket.AF_INET6, packet[at : at + 16]) for at in (8, 24))
        else:
            continue
        if later or len(rest) < 4:  # the ports were in the first piece
            continue
        port = struct.unpack(">H", rest[2:4])[0] if number in (6, 17) else rest[0]
        line = ("seen", number, to, port, "from", source)
        if line not in seen:
            seen.add(line)
            note(*line)


class Web(socketserver.BaseRequestHandler):
    def handle(self):
        to = self.request.getsockname()
        note("tcp", to[0], to[1], "from", self.client_address[0])
        self.request.settimeout(30)
        data = b""
        try:
            while b"\r\n\r\n" not in data:
                more = self.request.recv(65536)
                if not more:
                    return
                data += more
            path = data.split()[1].decode()
            if path.startswith("/meet/"):
                meet(int(path[6:]))
                path = "/echo/met"
            if path.startswith("/echo/"):
                self.request.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + path[6:].encode())
                return
            if path.startswith("/bytes/"):
                size = int(path[7:])
                self.request.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
                block = b"x" * 65536
                while size > 0:
                    self.request.sendall(block[: min(size, len(block))])
                    size -= len(block)
                return
            name = getattr(self.request, "asked_name", None)
            body = ("I am " + to[0] + (" as " + name if name else "") + "\n").encode()
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
            self.request.sendall(head + body)
            if path == "/stay":
                self.request.settimeout(120)
                while self.request.recv(65536):
                    self.request.sendall(b"still here\n")
        except OSError as error:
            note("tcp-end", to[0], to[1], type(error).__name__)


def tls_context():
    """A certificate by a CA that nobody knows. Clients begin with a key of another curve, so each is asked twice."""
    with tempfile.TemporaryDirectory() as at:
        new = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "9"]
        ca = ["-subj", "/CN=CA of the internet", "-keyout", at + "/ca-key", "-out", sys.argv[1] + ".ca"]
        subprocess.run(new + ca, check=True, capture_output=True)
        made = ["-subj", "/CN=internet", "-keyout", at + "/key", "-out", at + "/request"]
        request = [word for word in new if word != "-x509"]
        subprocess.run(request + made, check=True, capture_output=True)
        with open(at + "/extensions", "w") as names:
            names.write("subjectAltName=DNS:allowed.example,IP:203.0.113.10")
        by_ca = ["openssl", "x509", "-req", "-in", at + "/request", "-CA", sys.argv[1] + ".ca", "-CAkey", at + "/ca-key"]
        by_ca += ["-days", "9", "-set_serial", "1", "-extfile", at + "/extensions", "-out", at + "/certificate"]
        subprocess.run(by_ca, check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(at + "/certificate", at + "/key")
    context.set_ecdh_curve("prime256v1")

    def asked(stream, name, _):
        stream.asked_name = name

    context.sni_callback = asked
    return context


TLS = tls_context()


class Secure(Web):
    """TLS or not, as the client likes."""

    def handle(self):
        self.request.settimeout(30)
        try:
            if self.request.recv(1, socket.MSG_PEEK) == b"\x16":
                to = self.request.getsockname()
                self.request = TLS.wrap_socket(self.request, server_side=True)
                note("tls", to[0], getattr(self.request, "asked_name", None))
        except OSError as error:
            note("tls-failed", type(error).__name__)
            return
        super().handle()


class Relay(socketserver.BaseRequestHandler):
    def handle(self):
        with socket.create_connection(("198.51.100.2", 9000), timeout=30) as host:
            host.settimeout(None)
            back = threading.Thread(target=self.copy, args=(host, self.request), daemon=True)
            back.start()
            self.copy(self.request, host)
            back.join()

    @staticmethod
    def copy(come, go):
        try:
            while data := come.recv(65536):
                go.sendall(data)
            go.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Udp(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        note("udp", sock.getsockname()[1], "from", self.client_address[0], data[:40])
        sock.sendto(b"echo " + data, self.client_address)


def names(question):
    labels = []
    at = 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    return ".".join(labels), at + 1


class Dns(socketserver.BaseRequestHandler):
    def handle(self):
        data, sock = self.request
        name, at = names(data)
        kind = struct.unpack(">H", data[at : at + 2])[0]
        note("dns", name.lower(), kind)
        table = V4 if kind == 1 else V6 if kind == 28 else {}
        known = name.lower() in V4 or name.lower() in V6
        answers = b""
        found = table.get(name.lower(), [])
        for address in found:
            raw = socket.inet_pton(socket.AF_INET if kind == 1 else socket.AF_INET6, address)
            answers += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 1, len(raw)) + raw
        flags = 0x8180 if known else 0x8183
        head = data[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0)
        sock.sendto(head + data[12 : at + 4] + answers, self.client_address)


class Tcp6(socketserver.ThreadingTCPServer):
    address_family = socket.AF_INET6
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512


class Udp6(socketserver.ThreadingUDPServer):
    address_family = socket.AF_INET6
    daemon_threads = True


class Udp4(socketserver.ThreadingUDPServer):
    daemon_threads = True


class Tcp4(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512


def serve_http2(port):
    """Ends with us. Returns when it listens."""
    at = tempfile.mkdtemp()
    with open(at + "/index.html", "w") as page:
        page.write("spoken in HTTP/2")
    die_with_us = lambda: ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    subprocess.Popen(["nghttpd", "--no-tls", "-d", at, str(port)], stdout=subprocess.DEVNULL, preexec_fn=die_with_us)
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return
        except OSError:
            time.sleep(0.02)


def serve(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()


def v6_only(cls):
    class Only(cls):
        def server_bind(self):
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            super().server_bind()

    return Only


threading.Thread(target=sniff, daemon=True).start()
for port in (53, 80, 443, 853, 8080):
    serve(Tcp4(("0.0.0.0", port), Secure if port == 443 else Web))
    serve(v6_only(Tcp6)(("::", port), Secure if port == 443 else Web))
# One socket for each: an answer must come from the address that was asked.
for port in (7, 443, 4000):
    for address in ("203.0.113.10", "203.0.113.20", "10.5.5.5", "192.168.7.7", "169.254.169.254"):
        serve(Udp4((address, port), Udp))
    for address in ("2001:db8:2::10", "fd00:5::5"):
        serve(Udp6((address, port), Udp))
serve(Tcp4(("203.0.113.40", 9000), Relay))
serve(Udp4(("198.51.100.1", 53), Dns))
serve(Udp4(("203.0.113.53", 53), Dns))  # a public resolver that is not ours
serve_http2(8082)
os.write(1, b"ready\n")  # at once: nobody reads on
threading.Event().wait()
