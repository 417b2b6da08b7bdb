#!/bin/bash
# UDP_SEGMENT on an IPv6 socket with an extension header: a destination options or hop-by-hop header of 8 bytes of
# padding, set once by setsockopt. Guess: a train crosses as one packet, each datagram with the header, as it does
# over IPv4 with an option of IP; or it is refused. Seen (Linux 6.18): it is taken, cut up in front of the device,
# and arrives as single datagrams, so the gain of the offload is lost on both sides, and nothing says so. Over IPv4
# with an option (record route) it stays whole.
# Needs: python3, IPv6 on the loopback device.
set -euo pipefail
uname -sr
python3 - <<'PY'
import socket, sys

UDP_SEGMENT, UDP_GRO = 103, 104
IP_OPTIONS, IPV6_HOPOPTS, IPV6_DSTOPTS = 4, 54, 59
PADDING = bytes([0, 0, 1, 4, 0, 0, 0, 0])      # PadN
ROUTE = bytes([7, 7, 4, 0, 0, 0, 0, 0])        # record route, one place

def arrives(to, option):
    """A train of 10 datagrams of 1000 bytes: the sizes of the messages that arrive."""
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    receiver = socket.socket(family, socket.SOCK_DGRAM)
    receiver.bind((to, 0))
    receiver.settimeout(.3)
    receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
    sender = socket.socket(family, socket.SOCK_DGRAM)
    if option:
        sender.setsockopt(*option)
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
    sender.sendto(b"x" * 10000, receiver.getsockname())
    sizes = []
    try:
        while sum(sizes) < 10000:
            sizes.append(len(receiver.recv(65536)))
    except TimeoutError:
        pass
    return sizes

whole, singles = [10000], [1000] * 10
ok = True
for name, to, option, want in [
    ("IPv4", "127.0.0.1", None, whole),
    ("IPv4 with record route", "127.0.0.1", (socket.IPPROTO_IP, IP_OPTIONS, ROUTE), whole),
    ("IPv6", "::1", None, whole),
    ("IPv6 with destination options", "::1", (socket.IPPROTO_IPV6, IPV6_DSTOPTS, PADDING), singles),
    ("IPv6 with hop-by-hop options", "::1", (socket.IPPROTO_IPV6, IPV6_HOPOPTS, PADDING), singles),
]:
    try:
        got = arrives(to, option)
    except PermissionError:
        print(name + ": not tried, needs CAP_NET_RAW")
        continue
    print(f"{name}: {len(got)} messages of {sum(got)} bytes")
    ok = ok and got == want
print("as told: with extension headers of IPv6 a train is cut up" if ok else "changed")
sys.exit(0 if ok else 1)
PY
