#!/bin/bash
# hydra's -prepend-rank and Open MPI's --tag-output put a rank's number in front of its output, so that one can tell
# the ranks apart. Guess: in front of each line, once the line is complete. Seen (hydra 4.0.2, Open MPI 4.1.4): in
# front of each piece that the launcher happens to read. A rank that writes a line word by word, as a progress
# display does, has a tag in front of each word, and the words of two ranks stand in one line. A long line that is
# written at once has tags inside, too. So the output of a rank cannot be had back by looking for its tag at the
# beginnings of lines.
# Needs: python3, apt-get install mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 (Debian 12).
set -euo pipefail
for tool in mpiexec.hydra mpirun.openmpi; do
	command -v $tool >/dev/null || apt-get install -y -qq mpich=4.0.2-3+b1 openmpi-bin=4.1.4-3+b1 >/dev/null
done
dpkg-query -W mpich openmpi-bin
dir=$(mktemp -d)
trap 'rm -rf $dir' EXIT
cd "$dir"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >words.py <<'PY'
import os, time
for word in ("one ", "two ", "three\n"):
    os.write(1, word.encode())
    time.sleep(.3)
PY
cat >long.py <<'PY'
print("x" * 200000)
PY
# tags PATTERN PROGRAM LAUNCHER... is the number of tags in the one line that one rank writes.
tags() {
	local pattern=$1 program=$2
	shift 2
	timeout 20 "$@" -n 1 python3 "$program" </dev/null >out.txt
	[ "$(wc -l <out.txt)" = 1 ] || { echo "changed: more than one line" >&2; exit 1; }
	grep -o "$pattern" out.txt | wc -l
}
hydra="mpiexec.hydra -prepend-rank" openmpi="mpirun.openmpi --tag-output"
for c in "$hydra|\[0\]" "$openmpi|<stdout>"; do
	words=$(tags "${c#*|}" words.py ${c%|*})
	sed 's/^/  /' out.txt
	long=$(tags "${c#*|}" long.py ${c%|*})
	echo "${c%|*}: tags in a line of three words: $words; in one of 200000 bytes: $long"
	[ "$words" -gt 1 ] && [ "$long" -gt 1 ] || { echo "changed"; exit 1; }
done
echo "as told: tags stand inside lines"
