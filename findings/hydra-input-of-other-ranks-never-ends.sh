#!/bin/bash
# Under MPICH's launcher hydra standard input is rank 0's. Guess: the other ranks have none, so that they
# read its end at once, as under Open MPI's mpirun. Seen (hydra 4.0.2): they have a pipe that nobody
# writes to and nobody closes, also where the launcher's own input is /dev/null. A rank that reads it waits
# for ever.
# Needs: apt-get install mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 (Debian 12).
set -euo pipefail
cd "$(mktemp -d)"
for tool in mpiexec.hydra mpirun.openmpi; do
	command -v $tool >/dev/null || apt-get install -y -qq mpich openmpi-bin >/dev/null
done
dpkg-query -W mpich openmpi-bin
cat >rank.sh <<'RANK'
rank=${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-}}
status=0
timeout 3 cat >/dev/null || status=$?
echo "rank $rank: cat ended with $status (124: it waited for 3 s)"
RANK
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ends() { # LAUNCHER... : what rank 1's cat says
	timeout 20 "$@" -n 2 sh rank.sh </dev/null | tee out.txt
	sed -n 's/^rank 1: cat ended with \([0-9]*\).*/\1/p' out.txt >ended.txt
}
echo "hydra:"
ends mpiexec.hydra
hydra=$(cat ended.txt)
echo "Open MPI:"
ends mpirun.openmpi --oversubscribe
openmpi=$(cat ended.txt)
[ "$hydra" = 124 ] || { echo "changed: under hydra rank 1 reads the end of its input"; exit 1; }
[ "$openmpi" = 0 ] || { echo "changed: under Open MPI rank 1 does not read the end of its input"; exit 1; }
echo "as told: rank 1 has an input that never ends under hydra, and none under Open MPI"
