#!/bin/bash
# libfabric's provider shm in two containers that share /dev/shm but have PIDs of their own (docker run
# --ipc=host, or --ipc=container:NAME). Guess: each endpoint has a name that is free, as its PID is unknown
# to the other container. Seen (libfabric 1.17.0, Debian 12): a name is made of PID and user, so
# that processes with the same PID, each in its own namespace, want the same one. The second does not start:
# "Device or resource busy". The first process of a container mostly has a small PID, so this is no rare case.
# Needs: root, util-linux, apt-get install libfabric-bin=1.17.0-3 (Debian 12).
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "cannot tell: needs root, for namespaces"; exit 77; }
command -v fi_pingpong >/dev/null || apt-get install -y -qq libfabric-bin=1.17.0-3 >/dev/null
cd "$(mktemp -d)"
fi_info --version | head -1
# server NAME PORT runs a server as PID 2 of a new namespace for 5 s, with a control port of its own.
server() {
	timeout 5 unshare --pid --fork --mount-proc \
		sh -c "fi_pingpong -p shm -e rdm -B $2 & echo \"its PID is \$!\"; wait" >"$1" 2>&1 || true
}
server first 47801 &
sleep 1.5
server second 47802 &
wait
echo "first: $(tr '\n' ' ' <first)"
echo "second: $(tr '\n' ' ' <second)"
pid() { sed -n 's/^its PID is //p' "$1"; }
[ "$(pid first)" = "$(pid second)" ] || { echo "cannot tell: the PIDs differ"; exit 77; }
! grep -q "busy" first || { echo "cannot tell: the first did not start"; exit 77; }
if grep -q "Device or resource busy" second; then
	echo "as told: the second container's process does not start"
else
	echo "changed"
	exit 1
fi
