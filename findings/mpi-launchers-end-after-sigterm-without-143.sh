#!/bin/bash
# A batch system ends a job by SIGTERM to the launcher, and looks at its status. Guess: the launcher ends its ranks
# and then with 143, or by the signal, so that an ended job is no finished one. Seen (hydra 4.0.2): the signal is
# passed on to the ranks and nothing more. A rank that catches it goes on, and if it then exits with 0 the status is
# 0. Seen (Open MPI 4.1.4): the ranks get SIGCONT and SIGTERM, and the status is 1, though the rank exits with 0.
# Needs: apt-get install mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 (Debian 12).
set -euo pipefail
for tool in mpiexec.hydra mpirun.openmpi; do
	command -v $tool >/dev/null || apt-get install -y -qq mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 >/dev/null
done
dpkg-query -W mpich openmpi-bin
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >rank.sh <<'RANK'
trap 'echo TERM >>seen.$$' TERM
trap 'echo CONT >>seen.$$' CONT
echo "runs" >>seen.$$
i=0
while [ $i -lt 100 ]; do # ten seconds
	sleep .1
	i=$((i + 1))
	if grep -q TERM seen.$$ && [ $i -lt 95 ]; then i=95; fi # the rest of its work takes half a second
done
echo finished >>seen.$$
RANK
# ended LAUNCHER... prints what the rank saw and the launcher's status after SIGTERM.
ended() {
	rm -f seen.*
	"$@" -n 1 sh rank.sh </dev/null >/dev/null 2>&1 &
	local status=0 tries=0
	until ls seen.* >/dev/null 2>&1 || [ $tries = 100 ]; do
		sleep .1
		tries=$((tries + 1))
	done
	kill -TERM $!
	wait $! || status=$?
	echo "$(LC_ALL=C sort -u seen.* | xargs), status $status"
}
hydra=$(ended mpiexec.hydra)
openmpi=$(ended mpirun.openmpi)
echo "hydra: $hydra"
echo "Open MPI: $openmpi"
[ "$hydra" = "TERM finished runs, status 0" ] || { echo "changed: hydra"; exit 1; }
case $openmpi in
*TERM*", status 1") ;;
*) echo "changed: Open MPI"; exit 1 ;;
esac
echo "as told: neither ends with 143, and hydra's status is that of its ranks"
