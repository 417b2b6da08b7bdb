#!/bin/bash
# FI_UDP_IFACE of libfabric's provider udp is the name of a network interface. Guess: it chooses interfaces by
# the beginning of their names, and with one that does not exist fi_info lists nothing, or an error. Seen
# (libfabric 1.17.0, Debian 12): only a whole name chooses, and the loopback device is listed beside it. A name
# that no interface has, the beginning of one too, filters nothing and nothing is said. So a typing error has a
# program run over other networks than it was told to.
# Needs: apt-get install libfabric-bin=1.17.0-3 (Debian 12), and a device beside lo.
set -euo pipefail
command -v fi_info >/dev/null || apt-get install -y -qq libfabric-bin=1.17.0-3 >/dev/null
fi_info --version | head -1
# domains [NAME] is the list of devices that udp offers, with FI_UDP_IFACE set to NAME.
domains() {
	env ${1:+FI_UDP_IFACE="$1"} fi_info -p udp -t FI_EP_DGRAM | sed -n 's/^ *domain: //p' | sort -u | tr '\n' ' '
}
all=$(domains)
[ "$all" != "lo " ] || { echo "cannot tell: there is no device beside lo"; exit 77; }
whole=$(domains lo)
begun=$(domains l)
wrong=$(domains nosuchdevice)
echo "without the variable: $all"
echo "lo: $whole"
echo "l: $begun"
echo "nosuchdevice: $wrong"
[ "$whole" = "lo " ] || { echo "changed: a whole name does not choose"; exit 1; }
[ "$begun" = "$all" ] || { echo "changed: the beginning of a name chooses"; exit 1; }
[ "$wrong" = "$all" ] || { echo "changed: a wrong name filters"; exit 1; }
echo "as told: what is no whole name filters nothing"
