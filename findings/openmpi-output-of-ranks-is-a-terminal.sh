#!/bin/bash
# A program colours its output, or draws a progress line, if isatty tells it that standard output is a terminal.
# Guess: under mpirun whose output goes to a file the ranks' output is a pipe, so that the file stays clean, as
# under hydra. Seen (Open MPI 4.1.4): each rank has a pseudo terminal of its own as standard output (standard error
# is a pipe), whatever mpirun itself writes to. `ls --color=auto` puts escape sequences into the file. The bytes are
# not changed on the way: a line feed stays one.
# Needs: apt-get install mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 (Debian 12).
set -euo pipefail
cd "$(mktemp -d)"
for tool in mpiexec.hydra mpirun.openmpi; do
	command -v $tool >/dev/null || apt-get install -y -qq mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 >/dev/null
done
dpkg-query -W mpich openmpi-bin
export TERM=xterm OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir dir
cat >rank.sh <<'RANK'
for fd in 1 2; do
	if [ -t $fd ]; then echo "descriptor $fd: terminal"; else echo "descriptor $fd: no terminal"; fi
done
ls --color=auto
RANK
for launcher in mpiexec.hydra mpirun.openmpi; do
	echo "$launcher into a file:"
	timeout 20 $launcher -n 1 sh rank.sh </dev/null >$launcher.txt 2>$launcher.err
	cat -v $launcher.txt
done
says() { # LAUNCHER TERMINALS: whether its ranks have just these
	[ "$(sed -n 's/^descriptor \([12]\): terminal.*/\1/p' "$1.txt" | tr -d '\n')" = "$2" ] ||
		{ echo "changed: $1"; exit 1; }
}
says mpiexec.hydra ""
says mpirun.openmpi 1
grep -q $'\033' mpirun.openmpi.txt || { echo "changed: no escape sequences"; exit 1; }
grep -q $'\r' mpirun.openmpi.txt && { echo "changed: line feeds are translated"; exit 1; }
echo "as told: under Open MPI standard output is a terminal, and colours get into the file"
