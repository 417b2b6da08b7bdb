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
	peer := flag.String("peer", "", "only malicious peers whose name contains this")
	bad := flag.String("be", "", "for the command itself: be this malicious peer")
	share := flag.Float64("compute", -1, "for the command itself: use this share of a core")
	flag.Parse()
	switch {
	case *bad != "":
		if err := be(*bad); err != nil {
			fmt.Fprintln(os.Stderr, "hostile:", err)
			return 1
		}
		return 0
	case *share >= 0:
		compute(*share)
		return 0
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	all, err := layers.All(ctx, *total, *only, children(*peer))
	fmt.Print(layers.Table(all))
	failed := 0
	for i := range all {
		r := &all[i]
		if !r.Harmless(ratioLeast) {
			failed++
		}
	}
	if err != nil || failed > 0 {
		fmt.Fprintf(os.Stderr, "hostile: %d of %d rows below %.1f or with an error; %v\n", failed,
			len(all), ratioLeast, err)
		return 1
	}
	return 0
}
