package measure

import (
	"fmt"
	"time"

	"gobtl/cmd/btlbench/plan"
)

// Extent is the amount of work of a run, without the connection to the server.
type Extent struct {
	Lines  int         // of the report, one for each test, size, window, layer and load
	Each   plan.Amount // measured for each line, over all rounds
	Rounds int         // of each line
	Warmup plan.Amount // before each round
}

// extent returns the extent of the planned measurements.
func (b *Bench) extent(todo []combination) Extent {
	e := Extent{Each: b.Flags.Measured(), Rounds: b.Flags.RoundCount(), Warmup: b.Flags.Warmup}
	for i := range todo {
		e.Lines += len(todo[i].variants)
	}
	return e
}

// InAll returns the time of all measurements and warm-ups, or 0 if the number of messages
// determines the time.
func (e Extent) InAll() time.Duration {
	if e.Each.Time == 0 {
		return 0
	}
	return time.Duration(e.Lines) * (e.Each.Time + time.Duration(e.Rounds)*e.Warmup.Time)
}

// String returns the extent as a line for people.
func (e Extent) String() string {
	lines, rounds := counted(e.Lines, "line"), counted(e.Rounds, "round")
	if e.Each.Time == 0 {
		return fmt.Sprintf("measuring %s of %d messages, in %s", lines, e.Each.Messages, rounds)
	}
	inAll := e.InAll().Round(time.Second)
	if inAll < 10*time.Second {
		inAll = e.InAll().Round(100 * time.Millisecond)
	}
	return fmt.Sprintf("measuring %s of %v, in %s: about %v in all", lines, e.Each.Time, rounds, inAll)
}

// counted returns a number with a noun in the singular or the plural.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
