#!/bin/bash
# fuzz.sh TIME PACKAGE... runs every fuzz target of the packages for TIME. The tests of a package are
# compiled once for all of its targets. With GUIDED=no the inputs are random changes of known inputs,
# and nothing is compiled for the fuzzer alone; else the fuzzer looks for inputs that reach new code.
# Go's fuzzer now and then reports its own deadline as a failure ("context deadline exceeded"). After
# this report alone the target runs a second time, never after a failing input.
set -euo pipefail

go=${GO:-go}
time=$1
shift
guided=(-fuzz=.)
if [ "${GUIDED:-}" = no ]; then guided=(); fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cache=$("$go" env GOCACHE)/fuzz

fuzz() { # DIR PACKAGE TARGET
  (cd "$1" && "$tmp/fuzz.test" -test.run='^$' -test.fuzz="^$3\$" -test.fuzztime="$time" \
    -test.fuzzminimizetime=1s -test.fuzzcachedir="$cache/$2" </dev/null 2>&1)
}

list=$("$go" list -f '{{.Dir}} {{.ImportPath}}' "$@")
while read -r dir package; do
  targets=$(grep -hos '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -d' ' -f2) || continue
  "$go" test -c -vet=off -ldflags=-w "${guided[@]}" -o "$tmp/fuzz.test" "$package" </dev/null
  for target in $targets; do
    echo "$target in $package"
    if ! fuzz "$dir" "$package" "$target" | tee "$tmp/out"; then
      if ! grep -q 'context deadline exceeded' "$tmp/out" || grep -q 'Failing input' "$tmp/out"; then
        exit 1
      fi
      echo "$target again:"
      fuzz "$dir" "$package" "$target"
    fi
  done
done <<<"$list"
