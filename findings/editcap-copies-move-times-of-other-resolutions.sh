#!/bin/bash
# An interface of a pcapng file has a resolution of its time stamps (if_tsresol): a power of ten or of two; and an
# offset in seconds (if_tsoffset), without which picoseconds since 1970 do not fit in 64 bits. Guess: a copy by editcap
# has the times of its original. Seen (Wireshark 4.0.17): with 2^-20 s each copy is one tick (.95 us) earlier than its
# original, and a copy of a copy two. With picoseconds and an offset, tshark reads .0128 s where the file says .1235 s,
# and the copy keeps the resolution, drops the offset, and is in February 1970. With micro- and nanoseconds, with an
# offset or without, all times stay. Status 0 and no warning in all cases; mergecap does the same.
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

FRAME = b"\xff" * 6 + b"\x02" * 6 + b"\x88\xb5" + bytes(46)
START = 1700000000


def block(kind, body):
    body += bytes(-len(body) % 4)
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size


def option(code, value):
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def write(name, resolution, offset, ticks):
    options = option(9, bytes([resolution]))
    if offset:
        options += option(14, struct.pack("<q", offset))
    with open(name + ".pcapng", "wb") as f:
        f.write(block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        f.write(block(1, struct.pack("<HHI", 1, 0, 0) + options + bytes(4)))
        f.write(block(6, struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xffffffff, len(FRAME), len(FRAME)) + FRAME))


write("micro", 6, 0, START * 10**6 + 123456)
write("micro-offset", 6, START, 123456)
write("nano", 9, 0, START * 10**9 + 123456789)
write("binary", 0x80 | 20, 0, (START << 20) + 77)
write("pico-offset", 12, START, 123456789012)
PY
time_of() {
	tshark -r "$1" -T fields -e frame.time_epoch 2>/dev/null
}
seen=$(for name in micro micro-offset nano binary pico-offset; do
	editcap $name.pcapng once.pcapng
	editcap once.pcapng twice.pcapng
	mergecap -w merged.pcapng $name.pcapng
	echo "$name: $(time_of $name.pcapng) copied $(time_of once.pcapng) twice $(time_of twice.pcapng)" \
		"merged $(time_of merged.pcapng)"
done)
echo "$seen"
diff - <(echo "$seen") <<'TOLD' || { echo "changed"; exit 1; }
micro: 1700000000.123456000 copied 1700000000.123456000 twice 1700000000.123456000 merged 1700000000.123456000
micro-offset: 1700000000.123456000 copied 1700000000.123456000 twice 1700000000.123456000 merged 1700000000.123456000
nano: 1700000000.123456789 copied 1700000000.123456789 twice 1700000000.123456789 merged 1700000000.123456789
binary: 1700000000.000073432 copied 1700000000.000072479 twice 1700000000.000071525 merged 1700000000.000072479
pico-offset: 1700000000.012776324 copied 2899545.010136646 twice 2899545.010136646 merged 2899545.010136646
TOLD
echo "as told: copies move times of binary and picosecond resolution"
