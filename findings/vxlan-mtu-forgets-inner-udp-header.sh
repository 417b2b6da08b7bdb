#!/bin/bash
# UDP_SEGMENT over a VXLAN whose MTU is that of the device below it (1500 on 1500), with "df set" so that nothing
# is fragmented outside. A datagram fits if its inner packet and the 50 bytes of VXLAN fit: up to 1422 bytes of
# payload. Guess: a train of UDP_SEGMENT passes up to the same size. Seen (Linux 6.18): a train passes up to 1430
# bytes each, and leaves as IP packets of up to 1508 bytes on a device of 1500. The 8 bytes are those of the inner
# UDP header. So a size that crosses in trains may not cross alone, and a search for the path's MTU by trains ends
# at a size that loses single datagrams.
# Needs: root, iproute2, python3, a kernel with VXLAN. Nothing outside two network namespaces is changed.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "cannot tell: needs root"; exit 77; }
a=seen-a-$$ b=seen-b-$$
dir=$(mktemp -d)
trap 'rm -rf $dir; ip netns del $a 2>/dev/null || true; ip netns del $b 2>/dev/null || true' EXIT
ip netns add $a
ip netns add $b
ip -n $a link add eth0 mtu 1500 type veth peer name eth0 mtu 1500 netns $b
n=1
for ns in $a $b; do
	ip -n $ns addr add 10.90.0.$n/24 dev eth0
	ip -n $ns link set lo up
	ip -n $ns link set eth0 up
	ip -n $ns link add vx0 type vxlan id 5 local 10.90.0.$n remote 10.90.0.$((3 - n)) dstport 4789 df set ||
		{ echo "cannot tell: this kernel has no VXLAN"; exit 77; }
	ip -n $ns link set vx0 mtu 1500 up
	ip -n $ns addr add 10.91.0.$n/24 dev vx0
	n=$((n + 1))
done
uname -sr
cat >"$dir/seen.py" <<'PY'
import os, socket, sys, time

UDP_SEGMENT, MTU_DISCOVER, PROBE = 103, 10, 3

def inside(name):
    fd = os.open("/run/netns/" + name, os.O_RDONLY)
    os.setns(fd, os.CLONE_NEWNET) if hasattr(os, "setns") else __import__("ctypes").CDLL(None).setns(fd, 0)
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

to = inside(sys.argv[2])
to.bind(("10.91.0.2", 7000))
to.settimeout(.5)
sender = inside(sys.argv[1])
sender.setsockopt(socket.IPPROTO_IP, MTU_DISCOVER, PROBE)

def crosses(size, count):
    """How many of count datagrams arrive: one alone, or a train."""
    sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, size if count > 1 else 0)
    try:
        sender.sendto(b"x" * size * count, ("10.91.0.2", 7000))
    except OSError as e:
        return e.strerror
    arrived = 0
    try:
        while arrived < count:
            arrived += len(to.recv(65536)) == size
    except TimeoutError:
        pass
    return arrived

crosses(100, 1)  # the neighbours find each other
alone = [s for s in range(1418, 1436) if crosses(s, 1) == 1]
trains = [s for s in range(1418, 1436) if crosses(s, 4) == 4]
print("alone up to", max(alone), "in trains up to", max(trains))
sys.exit(0 if (max(alone), max(trains)) == (1422, 1430) else 1)
PY
if python3 "$dir/seen.py" $a $b; then
	echo "as told: trains pass with 8 bytes more than single datagrams"
else
	echo "changed"
	exit 1
fi
