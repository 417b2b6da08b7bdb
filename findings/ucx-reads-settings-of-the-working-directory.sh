#!/bin/bash
# UCX takes its settings from variables (UCX_NAME) and from a file ucx.conf of the system. Guess: a file of that
# name in the working directory means nothing. Seen (UCX 1.13.1): it is read, in every process that loads UCX, MPI's
# ranks too, and its settings count unless a variable of the same name is set. A file in a folder above means
# nothing. So two runs of a measurement that differ by nothing but their directory may differ in their settings.
# `ucx_info -c` tells, if it runs in the same directory.
# Needs: apt-get install ucx-utils=1.13.1-1 (Debian 12).
set -euo pipefail
command -v ucx_info >/dev/null || apt-get install -y -qq ucx-utils=1.13.1-1 >/dev/null
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
ucx_info -v | head -1
unset UCX_RNDV_THRESH
setting() { # what UCX_RNDV_THRESH is
	ucx_info -c | sed -n 's/^UCX_RNDV_THRESH=//p'
}
without=$(setting)
echo UCX_RNDV_THRESH=12345 >ucx.conf
with=$(setting)
above=$(UCX_RNDV_THRESH=777 setting)
parent=$(mkdir sub && cd sub && setting)
echo "without ucx.conf: $without; with it: $with; with it and a variable of 777: $above; in a folder below: $parent"
[ "$without" = auto ] && [ "$with" = 12345 ] && [ "$above" = 777 ] && [ "$parent" = auto ] ||
	{ echo "changed"; exit 1; }
echo "as told: ucx.conf of the working directory counts"
