#!/bin/bash
# libfabric's variables for sizes, here FI_OFI_RXM_TX_SIZE, the length of a queue. Guess: "4k" is 4096, as in UCX's
# variables, or an error, as a wrong word is for a variable of type bool. Seen (libfabric 1.17.0, Debian 12): what
# follows the digits is dropped, and nothing is said at FI_LOG_LEVEL=warn. "4k" is 4, "1e3" is 1, and "-5" is
# 18446744073709551611. Hexadecimal is taken ("0x20" is 32).
# Needs: apt-get install libfabric-bin=1.17.0-3 (Debian 12).
set -euo pipefail
command -v fi_info >/dev/null || apt-get install -y -qq libfabric-bin=1.17.0-3 >/dev/null
cd "$(mktemp -d)"
fi_info --version | head -1
# size VALUE is the size of the transmit queue that the provider offers with the variable set to VALUE.
size() {
	FI_LOG_LEVEL=warn FI_OFI_RXM_TX_SIZE=$1 timeout 20 fi_info -v -p 'tcp;ofi_rxm' >info.txt 2>log.txt
	awk '/fi_tx_attr/ { in_tx = 1 } in_tx && / size:/ { print $2; exit }' info.txt
}
changed=
for pair in 64=64 0x20=32 4k=4 1e3=1 -5=18446744073709551611; do
	value=${pair%=*}
	got=$(size "$value")
	said=$(grep -ci tx_size log.txt || true)
	echo "FI_OFI_RXM_TX_SIZE=$value: $got; warnings: $said"
	[ "$got" = "${pair#*=}" ] && [ "$said" = 0 ] || changed=yes
done
FI_LOG_LEVEL=warn FI_OFI_RXM_USE_RNDV_WRITE=maybe timeout 20 fi_info -p 'tcp;ofi_rxm' 2>&1 >/dev/null |
	grep -q "failed to parse bool" || { echo "changed: a wrong bool is not told"; exit 1; }
echo "a wrong bool: failed to parse"
[ -z "$changed" ] || { echo "changed"; exit 1; }
echo "as told: a unit behind a number is dropped in silence"
