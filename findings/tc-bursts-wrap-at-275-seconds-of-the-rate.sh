#!/bin/bash
# A shaper of Linux, htb or tbf, lets a burst pass at once: tc's "burst 280k" at rate 8kbit is 280 KiB. Guess: so it
# does, or tc says that it is too much. Seen (iproute2 6.1.0, x86-64, Linux 6.18): tc hands the kernel the time that
# the burst takes at the rate, as 32 bits of 64 ns, and what is above 275 s wraps. Of 200 packets of 1000 B, htb passes
# 200 with burst 200k, but 2 with 270k (shown as 1602 B) and 13 with 280k. tbf passes all of them, since tc sends its
# burst in bytes too, but is shown with the same 1602 B, in JSON as well. At high rates a burst is shown as nothing:
# 1600 B at 100gbit is 0 B. Status 0 and no warning of the burst in all cases.
# Needs: root, python3, apt-get install iproute2=6.1.0-3 (Debian 12), htb and tbf in the kernel.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "cannot tell: needs root"; exit 77; }
[ "$(uname -m)" = x86_64 ] || { echo "cannot tell: other processors convert numbers otherwise"; exit 77; }
command -v tc >/dev/null || apt-get install -y -qq iproute2=6.1.0-3 >/dev/null
tc -V
a=burst$$
dir=$(mktemp -d)
trap 'rm -rf $dir; ip netns del $a 2>/dev/null || true' EXIT
ip netns add $a
ip -n $a link add eth0 mtu 1500 type veth peer name eth1 mtu 1500
for dev in eth0 eth1; do
	ip -n $a link set $dev addrgenmode none # no packets of IPv6's own
done
ip -n $a link set eth1 up
ip -n $a addr add 10.9.0.1/24 dev eth0
ip -n $a link set eth0 up
ip -n $a neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth0
cat >"$dir/send.py" <<'PY'
import socket, time

SO_SNDBUFFORCE = 32


def passed():
    with open("/proc/net/dev") as f:
        return next(int(line.split()[2]) for line in f if line.split()[0] == "eth1:")


before = passed()
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 8 << 20)
for i in range(200):
    s.sendto(bytes(958), ("10.9.0.2", 9))
time.sleep(0.3)
print(passed() - before)
PY
set_burst() { # set_burst KIND RATE BURST
	tc -n $a qdisc del dev eth0 root 2>/dev/null || true
	if [ "$1" = htb ]; then
		tc -n $a qdisc add dev eth0 root handle 1: htb default 1
		tc -n $a class add dev eth0 parent 1: classid 1:1 htb rate "$2" burst "$3" cburst "$3" quantum 1500
		tc -n $a class show dev eth0 | sed 's/.* burst \([^ ]*\).*/\1/'
	else
		tc -n $a qdisc add dev eth0 root tbf rate "$2" burst "$3" limit 1mb
		tc -n $a -j qdisc show dev eth0 | sed 's/.*"burst":\([0-9]*\).*/\1/'
	fi
}
set_burst htb 8kbit 100k >/dev/null 2>&1 || { echo "cannot tell: this kernel has no htb"; exit 77; }
set_burst tbf 8kbit 100k >/dev/null 2>&1 || { echo "cannot tell: this kernel has no tbf"; exit 77; }
ok=true
expect() { # expect KIND BURST SHOWN FROM TO: shown so, and from FROM to TO packets pass.
	local shown packets
	shown=$(set_burst "$1" 8kbit "$2")
	packets=$(ip netns exec $a python3 "$dir/send.py")
	echo "$1 rate 8kbit burst $2: shown as $shown, packets that pass at once: $packets"
	[ "$shown" = "$3" ] && [ "$packets" -ge "$4" ] && [ "$packets" -le "$5" ] || ok=false
}
expect htb 100k 100Kb 100 120
expect htb 200k 200Kb 195 210
expect htb 270k 1602b 1 20
expect htb 280k 11842b 10 30
expect tbf 100k 102400 100 120
expect tbf 270k 1602 195 210
expect tbf 280k 11842 195 210
fast=$(set_burst tbf 100gbit 1600)
echo "tbf rate 100gbit burst 1600: shown as $fast"
[ "$fast" = 0 ] || ok=false
$ok || { echo "changed"; exit 1; }
echo "as told: bursts of more than 275 s of the rate wrap"
