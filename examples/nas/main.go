package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"math"
	"os"
	"strings"
	"time"

	_ "gobtl/fabric/shm"
	_ "gobtl/fabric/udp"
	"gobtl/mpi"
)

// verdict is the verification of a kernel's results.
type verdict struct {
	what      string // that was compared
	compared  int
	wrong     int
	worst     float64 // relative error
	got, want float64 // with that error, or the first that was wrong
}

// compare notes a value beside the published one, which may differ by tolerance, relatively.
func (v *verdict) compare(got, want, tolerance float64) {
	off := math.Abs(got - want)
	if want != 0 {
		off /= math.Abs(want)
	}
	v.compared++
	wrong := !(off <= tolerance) // a NaN is wrong too
	if wrong && v.wrong == 0 || v.wrong == 0 && off >= v.worst {
		v.got, v.want, v.worst = got, want, off
	}
	if wrong {
		v.wrong++
	}
}

// kernels are the programs, by name.
var kernels = map[string]func(ctx context.Context, c *mpi.Comm, class string) (verdict, error){
	"ep": ep, "is": is, "cg": cg, "ft": ft,
}

func main() {
	kernel := flag.String("kernel", "ep,is,cg,ft", "which kernels, in turn")
	class := flag.String("class", "S", "how large: S or W")
	provider := flag.String("provider", "",
		"the fabric: udp or shm; empty is shm if all ranks are on one host, else udp")
	limit := flag.Duration("limit", 10*time.Minute, "time after which the job is given up")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	if err := run(ctx, os.Stdout, strings.Split(*kernel, ","), *class, *provider); err != nil {
		log.Fatal(err)
	}
}

// run runs kernels in a world of their own. Rank 0 prints the results.
func run(ctx context.Context, out io.Writer, names []string, class, provider string) (err error) {
	for _, name := range names {
		if kernels[name] == nil {
			return fmt.Errorf("no kernel %q", name)
		}
	}
	if class != "S" && class != "W" {
		return fmt.Errorf("no class %q", class)
	}
	var cfg mpi.Config
	cfg.Fabric.Provider = provider
	world, err := mpi.Init(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		if e := world.Finalize(ctx); err == nil {
			err = e
		}
	}()
	for _, name := range names {
		if err := mpi.Barrier(ctx, &world.Comm); err != nil {
			return err
		}
		begin := time.Now()
		v, err := kernels[name](ctx, &world.Comm, class)
		took := time.Since(begin)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if v.wrong > 0 {
			return fmt.Errorf("%s class %s: %d of %d %s are wrong: %.13g, published is %.13g",
				name, class, v.wrong, v.compared, v.what, v.got, v.want)
		}
		if world.Rank() != 0 {
			continue
		}
		if _, err := fmt.Fprintf(out, "%s class %s, %d ranks: %.3f s, %d %s verified (off by %.1g)\n",
			name, class, world.Size(), took.Seconds(), v.compared, v.what, v.worst); err != nil {
			return err
		}
	}
	return nil
}
