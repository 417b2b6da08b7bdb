#!/bin/bash
# A list of hosts, of -hosts or a host file, can name a host more than once: a,b,a,b is what one writes to deal ranks
# out in turn. Guess: hydra, MPICH's launcher, counts two nodes, as for a,b with four ranks, which are on the same hosts
# in the same order. Seen (hydra and MPICH 4.0.2): a name becomes one node with the same name just before it (a,a,b,b
# is two nodes) and a new node otherwise. With a,b,a,b PMI_process_mapping has four nodes, MPI_Comm_split_type with
# MPI_COMM_TYPE_SHARED gives each rank a communicator of one, and the ranks of one host have no shared memory between
# them. Nothing is said, and the status is 0.
# Needs: python3, apt-get install mpich=4.0.2-3+b1 (Debian 12).
set -euo pipefail
command -v mpiexec.hydra >/dev/null || apt-get install -y -qq mpich=4.0.2-3+b1 >/dev/null
dpkg-query -W mpich libmpich12
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
# The launcher "fork" starts all ranks on this machine, whatever their host is called.
cat >"$dir/rank.sh" <<'SH'
ask() {
	echo "$1" >&"$PMI_FD"
	read -r answer <&"$PMI_FD"
}
ask "cmd=init pmi_version=1 pmi_subversion=1"
ask cmd=get_my_kvsname
ask "cmd=get kvsname=${answer##*kvsname=} key=PMI_process_mapping"
echo "rank $PMI_RANK: ${answer##*value=}"
ask cmd=barrier_in
ask cmd=finalize
SH
cat >"$dir/rank.py" <<'PY'
import ctypes

WORLD, INFO_NULL, SHARED = 0x44000000, 0x1C000000, 1  # of MPICH's mpi.h
mpich = ctypes.CDLL("libmpich.so.12", ctypes.RTLD_GLOBAL)
rank, size, node = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpich.MPI_Init(None, None)
mpich.MPI_Comm_rank(WORLD, ctypes.byref(rank))
mpich.MPI_Comm_split_type(WORLD, SHARED, 0, INFO_NULL, ctypes.byref(node))
mpich.MPI_Comm_size(node, ctypes.byref(size))
with open("rank%d" % rank.value, "w") as f:
    f.write("%d" % size.value)
mpich.MPI_Finalize()
PY
cd "$dir"
seen=$(for hosts in a,b a,a,b,b a,b,a,b; do
	timeout 60 mpiexec.hydra -launcher fork -hosts $hosts -n 4 -prepend-pattern 'host %h ' bash rank.sh \
		</dev/null >mapping.txt
	timeout 60 mpiexec.hydra -launcher fork -hosts $hosts -n 4 python3 rank.py </dev/null
	sort -k 4 mapping.txt | awk -v hosts=$hosts '
		{ names = names $2; mapping = $5 }
		END { printf "%s: ranks on %s, mapping %s, ", hosts, names, mapping }'
	echo "ranks of the own node:" "$(cat rank0)" "$(cat rank1)" "$(cat rank2)" "$(cat rank3)"
done)
echo "$seen"
diff - <(echo "$seen") <<'TOLD' || { echo "changed"; exit 1; }
a,b: ranks on abab, mapping (vector,(0,2,1)), ranks of the own node: 2 2 2 2
a,a,b,b: ranks on aabb, mapping (vector,(0,2,2)), ranks of the own node: 2 2 2 2
a,b,a,b: ranks on abab, mapping (vector,(0,4,1)), ranks of the own node: 1 1 1 1
TOLD
echo "as told: a host that is named again later in the list is another node"
