#!/bin/bash
# fi_info -d and -f are to list only what has the given name of a domain or a fabric, says its manual. They set
# these names in the hints of fi_getinfo. Guess: -d lo lists the loopback device alone, and a name that nothing has
# gives -61, no data. Seen (libfabric 1.17.0, Debian 12): the software providers udp, tcp, net, sockets and shm look
# at neither. Each name gives the whole list, a name that nothing has as well, with status 0. What does choose is a
# source address (-s 127.0.0.1 leaves lo alone). So a program that sets the names must compare those that come back.
# Needs: apt-get install libfabric-bin=1.17.0-3 (Debian 12), and a device beside lo.
set -euo pipefail
command -v fi_info >/dev/null || apt-get install -y -qq libfabric-bin=1.17.0-3 >/dev/null
fi_info --version | head -1
# domains PROVIDER OPTION... is the list of domains, each with its count.
domains() {
	local provider=$1
	shift
	fi_info -p "$provider" "$@" | sed -n 's/^ *domain: //p' | sort | uniq -c | xargs
}
chosen=$(domains udp -s 127.0.0.1)
[ "$(domains udp)" != "$chosen" ] || { echo "cannot tell: there is no device beside lo"; exit 77; }
echo "udp -s 127.0.0.1: $chosen"
for provider in udp tcp net sockets shm; do
	all=$(domains $provider)
	echo "$provider: $all"
	for option in "-d lo" "-d nosuchdomain" "-f 127.0.0.0/8" "-f nosuchfabric"; do
		# shellcheck disable=SC2086 # an option and its value
		got=$(domains $provider $option)
		[ "$got" = "$all" ] || { echo "changed: $provider $option: $got"; exit 1; }
	done
done
echo "as told: the names of domain and fabric filter nothing"
