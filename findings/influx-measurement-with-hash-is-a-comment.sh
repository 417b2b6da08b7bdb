#!/bin/bash
# A line of InfluxDB's line protocol that begins with "#" is a comment. The encoder of
# github.com/influxdata/line-protocol/v2 refuses what cannot be written: an empty measurement, a backslash at the
# end, a line feed. Guess: it refuses a measurement that begins with "#", too, or escapes the sign. Seen (v2.2.1):
# it writes "#sends f=1" without an error, and the decoder of the same module skips the line, again without an
# error. So does NewPoint of github.com/influxdata/influxdb1-client/v2. "#" in the middle of the name does no harm.
# Needs: Go 1.26, and the modules in the version below.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >go.mod <<'MOD'
module seen

go 1.26

require (
	github.com/influxdata/influxdb1-client v0.0.0-20220302092344-a9ab5670611c
	github.com/influxdata/line-protocol/v2 v2.2.1
)
MOD
cat >main.go <<'GO'
package main

import (
	"fmt"
	"os"
	"time"

	client "github.com/influxdata/influxdb1-client/v2"
	"github.com/influxdata/line-protocol/v2/lineprotocol"
)

var at = time.Unix(1700000000, 0)

// encoded is a line of this measurement, and the encoder's error.
func encoded(measurement string) ([]byte, error) {
	var e lineprotocol.Encoder
	e.SetPrecision(lineprotocol.Nanosecond)
	e.StartLine(measurement)
	e.AddField("f", lineprotocol.MustNewValue(1.0))
	e.EndLine(at)
	return e.Bytes(), e.Err()
}

// lines is the number of lines that the decoder finds.
func lines(text []byte) (n int) {
	for d := lineprotocol.NewDecoderWithBytes(text); d.Next(); n++ {
		if _, err := d.Measurement(); err != nil {
			panic(err)
		}
	}
	return n
}

func main() {
	ok := true
	for _, c := range []struct {
		measurement string
		refused     bool
		lines       int
	}{{"sends", false, 1}, {"sends#", false, 1}, {"", true, 0}, {`sends\`, true, 0}, {"#sends", false, 0}} {
		text, err := encoded(c.measurement)
		n := lines(text)
		fmt.Printf("%q: written %q, error %v, lines read %d\n", c.measurement, text, err, n)
		ok = ok && c.refused == (err != nil) && n == c.lines
	}
	p, err := client.NewPoint("#sends", nil, map[string]any{"f": 1.0}, at)
	if err != nil {
		fmt.Println("changed: NewPoint:", err)
		os.Exit(1)
	}
	fmt.Printf("NewPoint: written %q, lines read %d\n", p, lines([]byte(p.String())))
	if !ok || lines([]byte(p.String())) != 0 {
		fmt.Println("changed")
		os.Exit(1)
	}
	fmt.Println("as told: a point with such a name is written as a comment, and lost")
}
GO
export GOFLAGS=-mod=mod
go mod tidy >/dev/null 2>&1
go run .
