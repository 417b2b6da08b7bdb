#!/bin/bash
# The number of round trips of the two libraries' ping-pong programs, given as 1e3 or 1k. Guess: 1000, or an error and
# a status that is not 0. Seen (UCX 1.13.1): ucx_perftest -n 1e3 and -n 1k measure one round trip, print its time as
# a result and end with 0. Seen (libfabric 1.17.0): fi_pingpong -I 1e3 says "Error parsing", measures nothing and ends
# with 0, on both sides. So a script that looks at the status takes both for a measurement.
# Needs: apt-get install ucx-utils=1.13.1-1 libfabric-bin=1.17.0-3 (Debian 12).
set -euo pipefail
command -v ucx_perftest >/dev/null || apt-get install -y -qq ucx-utils=1.13.1-1 >/dev/null
command -v fi_pingpong >/dev/null || apt-get install -y -qq libfabric-bin=1.17.0-3 >/dev/null
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
ucx_info -v | head -1
fi_info --version | head -1
port=47950
# pair SERVER/CLIENT PROGRAM OPTION...: a server and a client, with the names of their port options. The client's
# output is in client.txt, and both statuses are in status.txt.
pair() {
	local option=$1 server=0 client=0
	shift
	port=$((port + 1))
	timeout 20 "$@" "${option%/*}" $port >server.txt 2>&1 &
	sleep 1
	timeout 15 "$@" "${option#*/}" $port 127.0.0.1 >client.txt 2>&1 || client=$?
	wait $! || server=$?
	echo "$client $server" >status.txt
}
export UCX_TLS=tcp
for count in 20 1e3 1k; do
	pair -p/-p ucx_perftest -t tag_lat -w 1 -n $count
	measured=$(awk '/^Final:/ { print $2 }' client.txt)
	echo "ucx_perftest -n $count: $measured round trips, status $(cat status.txt)"
	[ "$(cat status.txt)" = "0 0" ] && [ "$measured" = "${count/1[ek]*/1}" ] || { echo "changed"; exit 1; }
done
for count in 20 1e3 1k; do
	pair -B/-P fi_pingpong -p udp -e dgram -S 64 -I $count
	measured=$(awk '$1 == 64 { print $2 }' client.txt)
	echo "fi_pingpong -I $count: ${measured:-no} round trips, status $(cat status.txt)"
	want=20
	[ $count = 20 ] || want=
	[ "$(cat status.txt)" = "0 0" ] && [ "$measured" = "$want" ] || { echo "changed"; exit 1; }
done
echo "as told: a wrong count is one round trip, or none, and a status of 0"
