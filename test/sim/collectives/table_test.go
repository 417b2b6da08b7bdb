package collectives

import (
	"flag"
	"fmt"
	"math/bits"
	"os"
	"regexp"
	"strconv"
	"testing"

	"gobtl/internal/report"
	"gobtl/mpi/coll"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/mpi.md anew")

const document = "../../../docs/mpi.md"

// bound is what an algorithm may cost a rank, and how long the operation may take.
type bound struct{ steps, bytes int }

// row is an operation of the table.
type row struct {
	name, algorithm string
	bytes           int // as docs/mpi.md counts the size of an operation
	plan            func(s *coll.Schedule, ranks, bytes int)
	bound           func(ranks, bytes int) bound
}

// log is the logarithm of a number of ranks, rounded up.
func log(ranks int) int { return bits.Len(uint(ranks - 1)) }

// pool is the memory that all schedules share, for data is not moved.
var pool = make([]byte, 16<<20)

// even are equal parts.
func even(ranks, bytes int) coll.Parts {
	p := make(coll.Parts, ranks)
	for i := range p {
		p[i] = bytes
	}
	return p
}

const value = 8 // bytes

func allreduce(s *coll.Schedule, _, n int) { s.Allreduce(pool[:n], pool[:n], value, true) }

func bcast(s *coll.Schedule, _, n int) { s.Bcast(pool[:n], value, 0) }

func allgather(s *coll.Schedule, ranks, n int) {
	s.Allgather(pool[:n], pool[:ranks*n], even(ranks, n))
}

func alltoall(s *coll.Schedule, ranks, n int) {
	p := even(ranks, n)
	s.Alltoall(pool[:ranks*n], p, pool[:ranks*n], p)
}

// share is the part of bytes that all ranks but one have.
func share(ranks, bytes int) int { return bytes / ranks * (ranks - 1) }

var rows = []row{
	{
		"Barrier", "dissemination", 0,
		func(s *coll.Schedule, _, _ int) { s.Barrier() },
		func(ranks, _ int) bound { return bound{log(ranks), 0} },
	},
	{
		"Bcast", "binomial tree", 8, bcast,
		func(ranks, n int) bound { return bound{log(ranks), log(ranks) * n} },
	},
	{
		"Bcast", "scatter, ring", 64 << 10, bcast,
		func(ranks, n int) bound { return bound{log(ranks) + ranks - 1, 2 * share(ranks, n)} },
	},
	{
		"Reduce", "binomial tree", 8,
		func(s *coll.Schedule, _, n int) { s.Reduce(pool[:n], pool[:n], 0) },
		func(ranks, n int) bound { return bound{log(ranks), n} },
	},
	{
		"Allreduce", "doubling", 8, allreduce,
		func(ranks, n int) bound { return bound{log(ranks), log(ranks) * n} },
	},
	{
		"Allreduce", "halving, doubling", 32 << 10, allreduce,
		func(ranks, n int) bound { return bound{2 * log(ranks), 2 * share(ranks, n)} },
	},
	{
		"ReduceScatter", "ring", 32 << 10,
		func(s *coll.Schedule, ranks, n int) {
			s.ReduceScatter(pool[:n], pool[:n/ranks], even(ranks, n/ranks), true)
		},
		func(ranks, n int) bound { return bound{ranks - 1, share(ranks, n)} },
	},
	{
		"Scan", "doubling", 8,
		func(s *coll.Schedule, _, n int) { s.Scan(pool[:n], pool[:n]) },
		func(ranks, n int) bound { return bound{log(ranks), log(ranks) * n} },
	},
	{
		"Gather", "the root with each", 8,
		func(s *coll.Schedule, ranks, n int) {
			s.Gather(pool[:n], pool[:ranks*n], even(ranks, n), 0)
		},
		func(ranks, n int) bound { return bound{ranks - 1, n} },
	},
	{
		"Scatter", "the root with each", 8,
		func(s *coll.Schedule, ranks, n int) {
			s.Scatter(pool[:ranks*n], pool[:n], even(ranks, n), 0)
		},
		func(ranks, n int) bound { return bound{ranks - 1, share(ranks, ranks*n)} },
	},
	{
		"Allgather", "Bruck", 8, allgather,
		func(ranks, n int) bound { return bound{log(ranks), share(ranks, ranks*n)} },
	},
	{
		"Allgather", "ring", 4 << 10, allgather,
		func(ranks, n int) bound { return bound{ranks - 1, share(ranks, ranks*n)} },
	},
	{
		"Alltoall", "all at once", 7, alltoall,
		func(ranks, n int) bound { return bound{ranks - 1, share(ranks, ranks*n)} },
	},
	{
		"Alltoall", "pairs", 1 << 10, alltoall,
		func(ranks, n int) bound { return bound{ranks - 1, share(ranks, ranks*n)} },
	},
}

// cost is what an operation has come to: of the rank that has most, but for steps.
type cost struct {
	steps, bytes, peers, memory int
	counted                     bool // steps are those of one rank alone: the operation was not run
}

// runMost bounds the memory of the schedules of all ranks with which an operation is carried out,
// in bytes.
const runMost = 200 << 20

// measure counts one operation.
func (r *row) measure(ranks int) (c cost, err error) {
	var all []*coll.Schedule
	sum, s := 0, new(coll.Schedule)
	for rank := 0; rank < ranks; rank++ {
		s.Reset(rank, ranks, func([]byte, []byte, bool) {})
		r.plan(s, ranks, r.bytes)
		messages, bytes := s.Steps()
		peers, rounds := s.Peers()
		c.bytes, c.peers = max(c.bytes, bytes), max(c.peers, peers)
		c.steps, c.memory = max(c.steps, rounds, messages), max(c.memory, s.Memory())
		if sum += s.Memory(); sum <= runMost {
			all, s = append(all, s), new(coll.Schedule)
		} else { // They are much the same: some are enough.
			rank += ranks / 64
		}
	}
	if c.counted = sum > runMost; c.counted {
		return c, nil
	}
	if c.steps, err = newStage(ranks).run(all); err != nil {
		return c, err
	}
	c.memory = 0 // with the requests that were needed
	for _, s := range all {
		c.memory = max(c.memory, s.Memory())
	}
	return c, nil
}

// No operation takes more steps, or sends more bytes, than its algorithm does, among up to 4096
// ranks; the table of docs/mpi.md says what it is.
func TestTable(t *testing.T) {
	t.Parallel()
	table := report.Table{
		Heads: [][]string{{
			"operation", "algorithm", "bytes", "steps", "sent", "peers", "memory",
		}},
		Left: []int{0, 1},
	}
	for i := range rows {
		r := &rows[i]
		for _, ranks := range []int{64, 512, 4096} {
			c, err := r.measure(ranks)
			if err != nil {
				t.Fatalf("%s, %s, %d ranks: %v", r.name, r.algorithm, ranks, err)
			}
			most := r.bound(ranks, r.bytes)
			if c.steps > most.steps || c.bytes > most.bytes {
				t.Errorf("%s, %s of %d bytes, %d ranks: %d steps, %d bytes; want %+v", r.name, r.algorithm,
					r.bytes, ranks, c.steps, c.bytes, most)
			}
			if ranks != 4096 {
				continue // The table has the most ranks.
			}
			steps := strconv.Itoa(c.steps)
			if c.counted {
				steps += "*"
			}
			table.Rows = append(table.Rows, []string{
				r.name, r.algorithm, strconv.Itoa(r.bytes), steps, strconv.Itoa(c.bytes),
				strconv.Itoa(c.peers), fmt.Sprintf("%.1f KiB", float64(c.memory)/1024),
			})
		}
	}
	checkDocument(t, "```text\n"+table.String()+"```\n")
}

// memory is a figure of the table that depends on the sizes of Go's types: it may be an older one.
var memory = regexp.MustCompile(` +[0-9.]+ KiB`)

// checkDocument compares the table of the document, or writes it.
func checkDocument(t *testing.T, content string) {
	t.Helper()
	have, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want, err := report.Between(have, "collectives", content)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case *rewrite:
		if err := os.WriteFile(document, want, 0o644); err != nil {
			t.Fatal(err)
		}
	case memory.ReplaceAllString(string(have), "") != memory.ReplaceAllString(string(want), ""):
		t.Errorf("%s has another table than\n%s(go test ./test/sim/collectives -rewrite)", document,
			content)
	}
}
