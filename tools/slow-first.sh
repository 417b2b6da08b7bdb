#!/bin/bash
# slow-first.sh reads names of packages, one a line, and prints them with the slowest ones first. Then
# no slow package begins when all others have ended, and leaves processors without work.
set -euo pipefail

slow=(
  test/launch test/vnic test/netns/recovery test/netns test/conformance mpi test/sim test/sim/matrix
  test/stream test/cli test/readme test/stranger fabric/udp fabric/ofi fabric/shm fabric/fabrictest
  stream btl btl/conn btl/runner btl/call cmd/btlbench cmd/btlbench/session cmd/btlbench/systems
  test/hostile test/troubleshooting test/wireshark test/commands test/host internal/tidy examples/nas
)

packages=$(cat)
for name in "${slow[@]}"; do
  grep -x "gobtl/$name" <<<"$packages" || true
done
grep -vxF -f <(printf 'gobtl/%s\n' "${slow[@]}") <<<"$packages" || true
