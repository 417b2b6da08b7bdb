#!/bin/bash
# libfabric, MPI's tools and many others give the port that a user typed to getaddrinfo as a string. Guess: 70000 is
# an error, as a name of a service that does not exist is. Seen (glibc 2.36): the number is taken modulo 65536.
# 70000 is port 4464, 65536 is port 0, which a listener takes as "any", and there is no error. -1 and 1e3 are
# errors. fi_info (libfabric 1.17.0) with port 70000 thus offers an address with port 4464; Go's net refuses it.
# Needs: python3; fi_info and Go are asked if they are there.
set -euo pipefail
python3 - <<'PY'
import platform, socket, sys

print(*platform.libc_ver())
if platform.libc_ver()[0] != "glibc":
    print("cannot tell: no glibc")
    sys.exit(77)
ok = True
for text, want in [("65535", 65535), ("65536", 0), ("70000", 4464), ("-1", None), ("1e3", None), ("nosuch", None)]:
    try:
        got = socket.getaddrinfo("127.0.0.1", text, type=socket.SOCK_DGRAM)[0][4][1]
    except socket.gaierror as e:
        got = None
    print(text + ":", "error" if got is None else f"port {got}")
    ok = ok and got == want
if not ok:
    print("changed")
    sys.exit(1)
PY
if command -v fi_info >/dev/null; then
	fi_info --version | head -1
	offered=$(fi_info -p udp -n 127.0.0.1 -P 70000 -v | sed -n 's/^ *dest_addr: //p' | sort -u)
	echo "70000: $offered"
	case $offered in
	*:4464) ;;
	*) echo "changed: fi_info"; exit 1 ;;
	esac
fi
echo "as told: a port above 65535 is taken modulo 65536"
