#!/bin/bash
# A capture of a simulated network begins at time 0, so that "editcap -t -1", or the time of another clock, moves
# packets in front of 1970. pcapng has no sign for that. Guess: editcap refuses, or stops at 0. Seen (Wireshark
# 4.0.17): it writes a time in the year 2554 for each such packet, without a word and with status 0. mergecap then
# puts all packets of the file behind those of the other. In a file of type nsecpcap, with 32 bits for the seconds,
# the year is 2106.
# Needs: python3, apt-get install tshark=4.0.17-0+deb12u3 (Debian 12).
set -euo pipefail
for tool in tshark editcap mergecap; do
	command -v $tool >/dev/null || apt-get install -y -qq tshark=4.0.17-0+deb12u3 >/dev/null
done
editcap --version | head -1
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
python3 - <<'PY'
import struct
frame = b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(46)
with open("from0.pcap", "wb") as f:
    f.write(struct.pack("<IHHiIII", 0xa1b23c4d, 2, 4, 0, 0, 65535, 1))
    for second in (0, 1, 2):
        f.write(struct.pack("<IIII", second, 500000000, len(frame), len(frame)) + frame)
PY
times() {
	tshark -r "$1" -T fields -e frame.time_epoch 2>/dev/null | cut -d. -f1 | xargs
}
editcap -F pcapng -t -1 from0.pcap moved.pcapng
editcap -F nsecpcap -t -1 from0.pcap moved.pcap
mergecap -w merged.pcapng from0.pcap moved.pcapng
echo "seconds before: $(times from0.pcap)"
echo "moved by -1, pcapng: $(times moved.pcapng)"
echo "moved by -1, nsecpcap: $(times moved.pcap)"
echo "merged: $(times merged.pcapng)"
[ "$(times moved.pcapng)" = "18446744073 0 1" ] && [ "$(times moved.pcap)" = "4294967295 0 1" ] &&
	[ "$(times merged.pcapng)" = "0 1 2 18446744073 0 1" ] || { echo "changed"; exit 1; }
echo "as told: what is before 1970 becomes far future"
