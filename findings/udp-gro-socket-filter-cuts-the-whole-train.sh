#!/bin/bash
# A classic BPF filter of a UDP socket (SO_ATTACH_FILTER) says how many bytes of a packet are kept. One that keeps
# 100 bytes gives the beginning of each datagram. Guess: so it does on a socket with UDP_GRO, for what arrives as a
# train is still datagrams. Seen (Linux 6.18): the filter runs once for a train. Of 5 datagrams of 1000 bytes that
# left in one send of UDP_SEGMENT, 100 bytes in all arrive, while the control message says 1000 for the size of a
# datagram. A filter that drops what is longer than 1500 bytes drops the train, though no datagram is longer.
# Without UDP_GRO the kernel cuts the train up in front of the filter, and both filters do as they should.
# Needs: python3.
set -euo pipefail
uname -sr
python3 - <<'PY'
import ctypes, socket, struct, sys

UDP_SEGMENT, UDP_GRO, SO_ATTACH_FILTER = 103, 104, 26
UDP_HEADER = 8
RETURN, LOAD_LENGTH, JUMP_GREATER = 0x06, 0x80, 0x25

KEEP_100 = [(RETURN, 0, 0, UDP_HEADER + 100)]
DROP_LONG = [(LOAD_LENGTH, 0, 0, 0), (JUMP_GREATER, 0, 1, UDP_HEADER + 1500),
             (RETURN, 0, 0, 0), (RETURN, 0, 0, 65536)]

def arrives(program, gro):
    """A train of 5 datagrams of 1000 bytes: for each message its length and the size that UDP_GRO tells."""
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.bind(("127.0.0.1", 0))
    receiver.settimeout(.3)
    receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, gro)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in program))
    receiver.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                        struct.pack("@HP", len(program), ctypes.addressof(code)))
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
    sender.sendto(b"x" * 5000, receiver.getsockname())
    messages = []
    try:
        while len(messages) < 5:
            data, control, _, _ = receiver.recvmsg(65536, 64)
            told = [struct.unpack_from("i", value)[0] for _, kind, value in control if kind == UDP_GRO]
            messages.append((len(data), told[0] if told else None))
    except TimeoutError:
        pass
    return messages

ok = True
for name, program, gro, want in [
    ("keeps 100 bytes", KEEP_100, 0, [(100, None)] * 5),
    ("keeps 100 bytes", KEEP_100, 1, [(100, 1000)]),
    ("drops more than 1500", DROP_LONG, 0, [(1000, None)] * 5),
    ("drops more than 1500", DROP_LONG, 1, []),
]:
    got = arrives(program, gro)
    print(f"filter {name}, UDP_GRO {gro}: (length, size told): {got}")
    ok = ok and got == want
print("as told: with UDP_GRO a filter takes a train for one packet" if ok else "changed")
sys.exit(0 if ok else 1)
PY
