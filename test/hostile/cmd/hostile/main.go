// Command hostile measures honest programs beside malicious peers, with package layers. The output
// is one table. The command fails if an honest peer has ended, or has less than a minimum share of
// its throughput without the malicious peer.
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

// ratioLeast is the minimum share of its throughput that an honest peer must keep.
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
