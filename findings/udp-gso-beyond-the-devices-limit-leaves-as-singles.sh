#!/bin/bash
# A device bounds what it takes in one packet: gso_max_segs datagrams and gso_max_size bytes, both set by ip link. TCP
# keeps to them when it makes its packets. Guess: a train of UDP_SEGMENT that is longer is cut into trains that the
# device takes, 10 datagrams into 8 and 2 with gso_max_segs 8. Seen (Linux 6.18, veth): it is cut into single
# datagrams, all 10, and send says nothing. A train of 8 crosses whole. So one datagram too many costs the whole gain
# of the offload, and a sender must ask for the device's limits.
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
cat >"$dir/receive.py" <<'PY'
import socket, sys

UDP_GRO = 104
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("10.90.0.2", 7000))
receiver.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
print("ready", flush=True)
receiver.settimeout(5)
sizes = []
try:
    while sum(sizes) < int(sys.argv[1]):
        sizes.append(len(receiver.recv(65536)))
except TimeoutError:
    pass
print("messages", len(sizes), "bytes", sum(sizes))
PY
cat >"$dir/send.py" <<'PY'
import socket, sys

UDP_SEGMENT = 103
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, 1000)
sender.sendto(b"x" * int(sys.argv[1]), ("10.90.0.2", 7000))
PY
# train LIMIT VALUE DATAGRAMS WANT: with the limit at the sender, in how many messages a train arrives.
train() {
	ip -n $a link set eth0 gso_max_segs 65535 gso_max_size 65536
	ip -n $a link set eth0 "$1" "$2"
	ip netns exec $b python3 "$dir/receive.py" $(($3 * 1000)) >"$dir/out.txt" &
	local tries=0 line
	until grep -q ready "$dir/out.txt" || [ $tries = 100 ]; do
		sleep .1
		tries=$((tries + 1))
	done
	ip netns exec $a python3 "$dir/send.py" $(($3 * 1000))
	wait $!
	line=$(tail -1 "$dir/out.txt")
	echo "$1 $2, a train of $3: $line"
	[ "$line" = "messages $4 bytes $(($3 * 1000))" ] || { echo "changed"; exit 1; }
}
train gso_max_segs 65535 10 1
train gso_max_segs 8 8 1
train gso_max_segs 8 10 10
train gso_max_size 5000 4 1
train gso_max_size 5000 10 10
echo "as told: a train beyond the device's limit leaves as single datagrams"
