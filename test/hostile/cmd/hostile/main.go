// Command hostile measures honest work beside bad peers: see package layers. It prints one table.
// It fails if an honest peer has ended, or has less than a minimum share of its throughput without
// the bad peer.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"gobtl/test/hostile/layers"
)

// ratioLeast is the share of its work that an honest peer keeps.
const ratioLeast = 0.9

func main() { os.Exit(run()) }

func run() int {
	total := flag.Duration("time", 10*time.Minute, "for about how long")
	only := flag.String("load", "", "only loads whose name contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	all, err := layers.All(ctx, *total, *only)
	fmt.Print(layers.Table(all))
	bad := 0
	for _, r := range all {
		if r.Err != nil || r.Ratio < ratioLeast {
			bad++
		}
	}
	if err != nil || bad > 0 {
		fmt.Fprintf(os.Stderr, "hostile: %d of %d rows below %.1f or with an error; %v\n", bad, len(all),
			ratioLeast, err)
		return 1
	}
	return 0
}
