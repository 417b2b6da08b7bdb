#!/bin/sh
# kong (github.com/alecthomas/kong), a parser of command lines for Go, carries the values of string flags through
# encoding/json. A byte of a value that is no UTF-8 comes out as U+FFFD, without an error: a path that is given so names
# another file. Package flag leaves values as they are.
# Seen with kong v1.17.0 and Go 1.26. This script exits nonzero if that changes.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat > go.mod <<'MOD'
module seen

go 1.24

require github.com/alecthomas/kong v1.17.0
MOD
cat > main.go <<'GO'
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

func main() {
	var c struct{ File string }
	p, err := kong.New(&c)
	if err == nil {
		_, err = p.Parse(os.Args[1:])
	}
	f := flag.NewFlagSet("flag", flag.ExitOnError)
	file := f.String("file", "", "")
	_ = f.Parse(os.Args[1:])
	fmt.Printf("kong %q error %v; flag %q\n", c.File, err, *file)
}
GO
GOFLAGS=-mod=mod go mod tidy >/dev/null 2>&1
echo "$(go version), $(go list -m github.com/alecthomas/kong)"
seen=$(go run . --file="$(printf 'a\377b')")
echo "given: a, byte 0xff, b; seen: $seen"
[ "$seen" = 'kong "a�b" error <nil>; flag "a\xffb"' ]
