#!/bin/bash
# MPICH's launcher hydra ends with a status made of those of its ranks. Guess: the status of the first rank that
# failed, or the highest, as with other launchers. Seen (hydra 4.0.2): it is the bitwise OR of all. Ranks that end
# with 1 and 2 give 3, a status that no rank had. Ranks that end with 3, 3 and 4 give 7. Open MPI's mpirun gives the
# status of one of its ranks. So a script cannot tell from hydra's status what happened, only that it did.
# Needs: apt-get install mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 (Debian 12).
set -euo pipefail
for tool in mpiexec.hydra mpirun.openmpi; do
	command -v $tool >/dev/null || apt-get install -y -qq mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 >/dev/null
done
dpkg-query -W mpich openmpi-bin
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# status LAUNCHER... -- STATUS... is the launcher's status, with a rank for each STATUS. No rank ends before all run.
status() {
	local launcher=()
	while [ "$1" != -- ]; do
		launcher+=("$1")
		shift
	done
	shift
	local got=0
	timeout 20 "${launcher[@]}" -n $# sh -c '
		shift "${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-}}"
		sleep .5
		exit "$1"' rank "$@" </dev/null >/dev/null 2>&1 || got=$?
	echo $got
}
one=$(status mpiexec.hydra -- 1 2)
two=$(status mpiexec.hydra -- 3 3 4)
openmpi=$(status mpirun.openmpi --oversubscribe -- 1 2)
echo "hydra: ranks that end with 1, 2: $one; with 3, 3, 4: $two"
echo "Open MPI: ranks that end with 1, 2: $openmpi"
[ "$one" = 3 ] && [ "$two" = 7 ] || { echo "changed: hydra's status is no OR"; exit 1; }
[ "$openmpi" = 1 ] || [ "$openmpi" = 2 ] || { echo "changed: Open MPI's status is of no rank"; exit 1; }
echo "as told: hydra's status is the OR of those of all ranks"
