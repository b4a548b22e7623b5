"""What hostile code in a guest tries, as root with raw sockets. Runs in the guest.

usage: hostile_guest.py COMMAND JSON        prints one line per step of what came of it"""

import errno
import json
import os
import random
import socket
import ssl
import struct
import sys
import time

CARD = next(name for name in os.listdir("/sys/class/net") if name != "lo")
MAC = bytes.fromhex(open(f"/sys/class/net/{CARD}/address").read().strip().replace(":", ""))
GATEWAY_MAC = bytes.fromhex("525400fb0001")
GUEST = {4: "10.107.0.2", 6: "fd7e:fb::2"}
GATEWAY = {4: "10.107.0.1", 6: "fd7e:fb::1"}
NUMBERS = {"icmp": 1, "tcp": 6, "udp": 17, "icmpv6": 58}


def words(error):
    if isinstance(error, socket.timeout):
        return "timeout"
    return errno.errorcode.get(error.errno, str(error))


def packed(address):
    return socket.inet_pton(socket.AF_INET6 if ":" in address else socket.AF_INET, address)


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


# ------------------------------------------------------------------------------------ raw packets


def segment(step, source, to):
    """TCP, UDP or ICMP with its checksum."""
    kind, text = step["protocol"], step.get("text", "").encode() * step.get("repeat", 1)
    number, port = NUMBERS[kind], step.get("port", 0)
    if kind in ("icmp", "icmpv6"):
        body = struct.pack(">BBHHH", 8 if kind == "icmp" else 128, 0, 0, 7, 1) + text
    elif kind == "udp":
        body = struct.pack(">HHHH", step.get("from", 5000), port, 8 + len(text), 0) + text
    else:
        body = struct.pack(">HHIIBBHHH", step.get("from", 5000), port, 1, 0, 5 << 4, 2, 8192, 0, 0) + text
    ends = packed(source) + packed(to)
    pseudo = ends + struct.pack(">II" if ":" in to else ">HH", *((len(body), number) if ":" in to else (number, len(body))))
    at = {"icmp": 2, "icmpv6": 2, "udp": 6, "tcp": 16}[kind]
    value = checksum(body if kind == "icmp" else pseudo + body)
    return body[:at] + struct.pack(">H", value) + body[at + 2 :]


def pieces(step, body):
    """(offset, bytes, more) of the fragments; one piece where none are asked for."""
    size = step.get("fragment", 0)
    if not size:
        return [(0, body, False)]
    out = [(at, body[at : at + size], at + size < len(body)) for at in range(0, len(body), size)]
    if step.get("drop_first"):
        out = out[1:]
    if step.get("reverse"):
        out.reverse()
    if "overlap" in step:  # the header again, with another port
        other = segment({**step, "port": step["overlap"]}, step["source"], step["to"])
        out.insert(1, (0, other[:size], True))
    return out


def packets(step):
    to = step["to"]
    version = 6 if ":" in to else 4
    step = {**step, "source": step.get("source", GUEST[version])}
    source, number, ident = step["source"], NUMBERS[step["protocol"]], random.randrange(1, 65536)
    for at, data, more in pieces(step, segment(step, source, to)):
        whole = at == 0 and not more
        if version == 4:
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(data), ident, at // 8 | (0x2000 if more else 0), 64, number, 0)
            head += packed(source) + packed(to)
            yield head[:10] + struct.pack(">H", checksum(head)) + head[12:] + data
        else:
            extra = b"" if whole else struct.pack(">BBHI", number, 0, at | int(more), ident)
            head = struct.pack(">IHBB", 6 << 28, len(extra) + len(data), number if whole else 44, 64)
            yield head + packed(source) + packed(to) + extra + data


def send(steps):
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((CARD, 0))
        for step in steps:
            mac = bytes.fromhex(step["mac"]) if "mac" in step else MAC
            for packet in packets(step):
                kind = 0x86DD if packet[0] >> 4 == 6 else 0x0800
                raw.send(GATEWAY_MAC + mac + struct.pack(">H", kind) + packet)
            print("sent", flush=True)


def neighbours(claims):
    """ARP and neighbour advertisements: ADDRESS is at OUR card, said to everybody."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw:
        raw.bind((CARD, 0))
        for address in claims:
            for mac in (MAC, bytes.fromhex("020000000666")):
                if ":" not in address:
                    for operation, target in ((1, address), (2, GATEWAY[4]), (2, GUEST[4])):
                        body = struct.pack(">HHBBH", 1, 0x0800, 6, 4, operation) + mac + packed(address)
                        body += GATEWAY_MAC + packed(target)
                        for to in (b"\xff" * 6, GATEWAY_MAC):
                            raw.send(to + mac + b"\x08\x06" + body)
                    continue
                body = struct.pack(">BBHI", 136, 0, 0, 0xA0000000) + packed(address) + b"\x02\x01" + mac
                for source in (address, GUEST[6]):
                    to = GATEWAY[6]
                    pseudo = packed(source) + packed(to) + struct.pack(">IHBB", len(body), 0, 0, 58)
                    filled = body[:2] + struct.pack(">H", checksum(pseudo + body)) + body[4:]
                    head = struct.pack(">IHBB", 6 << 28, len(filled), 58, 255) + packed(source) + packed(to)
                    raw.send(GATEWAY_MAC + mac + b"\x86\xdd" + head + filled)
            print("claimed", flush=True)


def ping(targets):
    """An echo request with data, and what came back for it."""
    for to in targets:
        six = ":" in to
        kind = (socket.AF_INET6, socket.IPPROTO_ICMPV6) if six else (socket.AF_INET, socket.IPPROTO_ICMP)
        with socket.socket(kind[0], socket.SOCK_RAW, kind[1]) as raw:
            raw.settimeout(10)
            body = struct.pack(">BBHHH", 128 if six else 8, 0, 0, 9, 9) + b"secret"
            if not six:
                body = body[:2] + struct.pack(">H", checksum(body)) + body[4:]
            try:
                raw.sendto(body, (to, 0))
                while True:
                    got = raw.recv(2048)
                    got = got if six else got[(got[0] & 15) * 4 :]
                    if got[0] in (8, 128) or not six and got[0] not in (0, 3):
                        continue
                    if six and got[0] not in (129, 1):
                        continue
                    print("reply" if got[0] in (0, 129) else f"prohibited {got[1]}", flush=True)
                    break
            except OSError as error:
                print(words(error), flush=True)


# ------------------------------------------------------------------------------------------ names


def question(name, kind):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    edns = b"\0" + struct.pack(">HHIH", 41, 1232, 0, 0)
    return struct.pack(">HHHHHH", random.randrange(65536), 0x0100, 1, 0, 0, 1) + labels + b"\0" + struct.pack(">HH", kind, 1) + edns


def ask(asked):
    """Each [NAME, TYPE]: the code of the answer, and the sentence in it; one datagram, no repeats."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(20)
        udp.connect((GATEWAY[4], 53))
        for name, kind in asked:
            try:
                udp.send(question(name, kind))
                got = udp.recv(2048)
            except OSError as error:
                print(words(error), flush=True)
                continue
            text = got[got.find(b"\0\0\x29", 12) :] if got[11] else b""
            said = "".join(chr(byte) for byte in text[17:] if 32 <= byte < 127)
            print(got[3] & 15, said, flush=True)


# ------------------------------------------------------------------------------------------- caps


def download(wanted):
    """[HOST, SIZE]: how many bytes came, and how it ended."""
    host, size = wanted
    got, end = 0, "complete"
    try:
        with socket.create_connection((host, 80), 20) as stream:
            stream.sendall(f"GET /bytes/{size} HTTP/1.0\r\n\r\n".encode())
            while data := stream.recv(65536):
                got += len(data)
    except OSError as error:
        end = words(error)
    print(got, "complete" if got > size else "cut " + end)


def hold(wanted):
    """[HOST, MOST]: opens connections until one is refused; closes one and tries again."""
    host, most = wanted
    held, refused = [], "none"
    while len(held) < most:
        try:
            held.append(socket.create_connection((host, 80), 20))
        except OSError as error:
            refused = words(error)
            break
    print(len(held), refused, flush=True)
    # With a reset, so that it is gone at once.
    held[0].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    held.pop(0).close()
    end = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((host, 80), 20).close()
            print("again")
            return
        except OSError as error:
            if time.monotonic() > end:
                print("never again", words(error))
                return
            time.sleep(0.05)


# ----------------------------------------------------------------------------------------- HTTP/2


def http2(wanted):
    """[HOST, PORT]: the page at /, asked for with prior knowledge."""
    host, port = wanted

    def frame(kind, flags, stream, body=b""):
        return struct.pack(">I", len(body))[1:] + struct.pack(">BBI", kind, flags, stream) + body

    # From the static table: GET, http, "/"; and :authority, as it is.
    request = b"\x82\x86\x84\x41" + bytes([len(host)]) + host.encode()
    with socket.create_connection((host, port), 20) as stream:
        stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + frame(1, 5, 1, request))
        read = stream.makefile("rb")
        status, page, ended = 0, b"", False
        while not ended:
            head = read.read(9)
            kind, flags, number = head[3], head[4], struct.unpack(">I", head[5:])[0]
            body = read.read(int.from_bytes(head[:3], "big"))
            if kind == 4 and not flags & 1:
                stream.sendall(frame(4, 1, 0))
            if kind == 1:
                status = {0x88: 200, 0x8D: 404}.get(body[0], body[0])
            if kind == 0:
                page += body
            ended = number == 1 and bool(flags & 1)
        print(status, page.decode())


# -------------------------------------------------------------------------------------------- TLS


def handshake(stream, name, piece):
    """As an SSLSocket would, but in pieces of so many bytes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname=name)

    def exchange(step, *args):
        while True:
            try:
                return step(*args)
            except ssl.SSLWantReadError:
                data = outgoing.read()
                for at in range(0, len(data), piece):
                    stream.sendall(data[at : at + piece])
                more = stream.recv(65536)
                if not more:
                    raise ConnectionError(0, "ended")
                incoming.write(more)

    return tls, exchange


def tls(steps):
    """{to, name, piece, path} or {to, raw}: the answer, its size if it is long, or what went wrong."""
    for step in steps:
        try:
            with socket.create_connection((step["to"], 443), 20) as stream:
                stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if "raw" in step:
                    stream.sendall(step["raw"].encode())
                    print("got", len(stream.recv(100)))
                    continue
                secure, exchange = handshake(stream, step.get("name"), step.get("piece", 1 << 20))
                exchange(secure.do_handshake)
                secure.write(f"GET {step.get('path', '/')} HTTP/1.1\r\n\r\n".encode())
                data = b""
                while b"\r\n\r\n" not in data:
                    data += exchange(secure.read, 65536)
                head, body = data.split(b"\r\n\r\n", 1)
                size = int(head.split(b"Content-Length: ")[1].split()[0])
                body = bytearray(body)
                while len(body) < size:
                    body += exchange(secure.read, 65536)
                print("ok", len(body) if len(body) > 100 else body.decode().strip())
        except OSError as error:
            print(words(error))


# ------------------------------------------------------------------------------------------- many


def talk(wanted):
    """[TOKEN, VMS, ROUNDS]: from ports that all the others use too; counts what was not ours."""
    token, vms, rounds = wanted
    good = wrong = 0

    def fetch(path, port):
        with socket.socket() as stream:
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stream.settimeout(290)
            stream.bind(("", port))
            stream.connect(("203.0.113.10", 80))
            stream.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            data = b""
            while more := stream.recv(65536):
                data += more
            return data.split(b"\r\n\r\n")[-1].decode()

    fetch(f"/meet/{vms}", 39999)  # until all are there
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(60)
        udp.bind(("", 5555))
        udp.connect(("203.0.113.20", 4000))
        for round in range(rounds):
            mine = f"{token}-{round}"
            udp.send(mine.encode())
            answers = [fetch(f"/echo/{mine}", 40000 + round), udp.recv(2048).decode()]
            if answers == [mine, "echo " + mine]:
                good += 1
            else:
                wrong += 1
                print("not mine:", answers, flush=True)
        print("good", good, "wrong", wrong, "as", udp.getsockname()[0])


COMMANDS = {"send": send, "neighbours": neighbours, "ping": ping, "ask": ask, "download": download, "hold": hold, "http2": http2, "tls": tls, "talk": talk}
COMMANDS[sys.argv[1]](json.loads(sys.argv[2]))
