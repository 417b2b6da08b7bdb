#!/bin/bash
# UDP_SEGMENT over a pair of veth devices: a train crosses as one packet. Guess: an XDP program on the receiver's
# device that passes every packet (two instructions) changes nothing, for it only looks. Seen (Linux 6.18): attached
# in driver mode, which is what veth supports and what loaders choose first, it has each train arrive as single
# datagrams. They go together again as soon as the program is gone. In generic mode a train stays whole, and so it
# does with a program in driver mode on the sender's device. So a monitor on one host takes the offload from the
# other.
# Needs: root, iproute2, python3. Nothing outside two network namespaces is changed.
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
	ip -n $ns link set eth0 up
	n=$((n + 1))
done
uname -sr
cat >"$dir/seen.py" <<'PY'
import ctypes, os, socket, struct, sys

UDP_SEGMENT, UDP_GRO = 103, 104
SYS_BPF, PROG_LOAD, LINK_CREATE, TYPE_XDP, ATTACH_XDP = 321, 5, 28, 6, 37
GENERIC, DRIVER = 2, 4
libc = ctypes.CDLL(None, use_errno=True)

def enter(name):
    fd = os.open("/run/netns/" + name, os.O_RDONLY)
    assert libc.setns(fd, 0) == 0
    os.close(fd)

def bpf(command, attributes):
    buffer = ctypes.create_string_buffer(attributes, 128)
    fd = libc.syscall(SYS_BPF, command, buffer, 128)
    if fd < 0:
        print("cannot tell: bpf:", os.strerror(ctypes.get_errno()))
        sys.exit(77)
    return fd

code = ctypes.create_string_buffer(bytes([0xb7, 0, 0, 0, 2, 0, 0, 0,     # r0 = XDP_PASS
                                          0x95, 0, 0, 0, 0, 0, 0, 0]))   # exit
license = ctypes.create_string_buffer(b"GPL")
passes = bpf(PROG_LOAD, struct.pack("=IIQQ", TYPE_XDP, 2, ctypes.addressof(code), ctypes.addressof(license)))

enter(sys.argv[2])
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("10.90.0.2", 7000))
receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
receiver.settimeout(.5)
enter(sys.argv[1])
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)

def messages():
    """In how many messages a train of 10 datagrams arrives."""
    sender.sendto(b"x" * 10000, ("10.90.0.2", 7000))
    count, size = 0, 0
    try:
        while size < 10000:
            size += len(receiver.recv(65536))
            count += 1
    except TimeoutError:
        pass
    return count if size == 10000 else -size

def with_program(namespace, mode):
    enter(namespace)
    link = bpf(LINK_CREATE, struct.pack("=IIII", passes, socket.if_nametoindex("eth0"), ATTACH_XDP, mode))
    count = messages()
    os.close(link)  # detaches
    return count

ok = True
for name, count, want in [
    ("without a program", messages, 1),
    ("at the receiver, generic mode", lambda: with_program(sys.argv[2], GENERIC), 1),
    ("at the receiver, driver mode", lambda: with_program(sys.argv[2], DRIVER), 10),
    ("without it again", messages, 1),
    ("at the sender, driver mode", lambda: with_program(sys.argv[1], DRIVER), 1),
]:
    got = count()
    print(f"{name}: a train of 10 arrives in {got} messages")
    ok = ok and got == want
print("as told: the receiver's program in driver mode cuts trains up" if ok else "changed")
sys.exit(0 if ok else 1)
PY
python3 "$dir/seen.py" $a $b
