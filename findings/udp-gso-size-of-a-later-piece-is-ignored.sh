#!/bin/bash
# A UDP message can be put together from pieces (MSG_MORE), and each send can tell the size of UDP_SEGMENT in a
# control message. Guess: the size of the last send counts, for that one makes the packets; or sizes that differ are
# refused. Seen (Linux 6.18): the size of the first piece counts, and a later one is ignored without an error, be it
# a control message or the socket option. If the first piece tells none, all pieces leave as one datagram, which IP
# fragments where the device is too small for it.
# Needs: python3.
set -euo pipefail
uname -sr
python3 - <<'PY'
import socket, struct, sys

UDP_SEGMENT, UDP_GRO = 103, 104
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("127.0.0.1", 0))
receiver.settimeout(1)
receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)

def connected():
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(receiver.getsockname())
    return sender

def size(bytes):
    return [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", bytes))] if bytes else []

def arrives():
    """The length of the message and the size of its datagrams, 0 if it is one datagram."""
    data, control, _, _ = receiver.recvmsg(65536, 64)
    return len(data), sum(struct.unpack_from("i", value)[0] for _, kind, value in control if kind == UDP_GRO)

ok = True
for first, last, want in [(1000, 1000, 1000), (1000, 500, 1000), (500, 0, 500), (0, 500, 0)]:
    sender = connected()
    sender.sendmsg([b"x" * 2000], size(first), socket.MSG_MORE)
    sender.sendmsg([b"x" * 2000], size(last))
    got = arrives()
    print(f"control messages: {first} with the first piece, {last} with the last: datagrams of {got[1]}")
    ok = ok and got == (4000, want)
sender = connected()
sender.send(b"x" * 2000, socket.MSG_MORE)
sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 500)
sender.send(b"x" * 2000)
got = arrives()
print(f"socket option: 500 between the pieces: datagrams of {got[1]}")
ok = ok and got == (4000, 0)
print("as told: the first piece decides (0: one datagram of 4000 bytes)" if ok else "changed")
sys.exit(0 if ok else 1)
PY
