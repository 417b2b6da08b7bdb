#!/bin/bash
# libfabric's provider shm in two containers that share /dev/shm but have PIDs of their own (docker run
# --ipc=host, or --ipc=container:NAME). Guess: each endpoint gets a name that is free. Seen (libfabric 1.17.0,
# Debian 12): a name is made of the PID and the user, so that two processes with the same PID, each in its own
# namespace, want the same one, and one of them does not start: "Device or resource busy". The first processes of
# containers have the same small PIDs, so this is no rare case. In one PID namespace the same two processes run.
# Needs: root, util-linux, apt-get install libfabric-bin=1.17.0-3 (Debian 12).
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "cannot tell: needs root, for namespaces"; exit 77; }
command -v fi_pingpong >/dev/null || apt-get install -y -qq libfabric-bin=1.17.0-3 >/dev/null
cd "$(mktemp -d)"
fi_info --version | head -1
# both PORT PREFIX... runs a server and a client, each behind the prefix, and prints what they say.
both() {
	port=$1
	shift
	timeout 8 "$@" sh -c "fi_pingpong -p shm -e rdm -I 10 -S 64 -B $port & echo \"PID \$!\"; wait" >server.txt 2>&1 &
	sleep 1.5
	timeout 8 "$@" sh -c "fi_pingpong -p shm -e rdm -I 10 -S 64 -P $port 127.0.0.1 & echo \"PID \$!\"; wait" >client.txt 2>&1 || true
	wait
	sed 's/^/  server: /' server.txt
	sed 's/^/  client: /' client.txt
}
echo "in one PID namespace:"
both 47801 env
grep -q '^64 .*10' client.txt || { echo "cannot tell: it does not run in one namespace either"; exit 77; }
echo "each in a PID namespace of its own:"
both 47802 unshare --pid --fork --mount-proc
[ "$(grep PID server.txt)" = "$(grep PID client.txt)" ] || { echo "cannot tell: the PIDs differ"; exit 77; }
if cat server.txt client.txt | grep -q "Device or resource busy"; then
	echo "as told: two processes with the same PID do not both start"
else
	echo "changed"
	exit 1
fi
