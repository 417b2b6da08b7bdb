package swarm

import "errors"

// Lie is a way to falsify what the judge hears.
type Lie struct {
	kind  lieKind
	after int // how many chances to lie pass before the one that is taken
	told  bool
}

type lieKind uint8

const (
	lieNone         lieKind = iota
	lieDeliverTwice         // a delivery is told twice
	lieForgetDelivery
	lieAlter      // a bit of a message is flipped
	lieCut        // the last byte of a message is missing
	lieDoneTwice  // OnDone is told twice
	lieForgetDone // OnDone is not told
	lieWrongError // a send that went well is told to have failed
	lieEventTwice // an endpoint's event is told twice
	lieWrongEvent // an endpoint's end is told with an error that cannot be
	lieMisroute   // a message is told to have come to another connection
	lieScribble   // a byte beside a put changes
	lieRestart    // a send is told to have failed because of a restart that never was
	numLies
)

var errLie = errors.New("swarm: a lie")

// lying says whether to lie now.
func (w *world) lying(kind lieKind) bool {
	l := &w.opts.Lie
	if l.kind != kind || l.told {
		return false
	}
	if l.after--; l.after >= 0 {
		return false
	}
	l.told = true
	return true
}

// lieTwice returns how often to tell something.
func (w *world) lieTwice(kind lieKind) int {
	if w.opts.Lie.kind == lieNone {
		return 1
	}
	if w.lying(kind) {
		return 2
	}
	if kind == lieDeliverTwice && w.lying(lieForgetDelivery) {
		return 0
	}
	return 1
}

func (w *world) lieError(kind lieKind, err error) error {
	if w.opts.Lie.kind != lieNone && w.lying(kind) {
		return errLie
	}
	return err
}

func (w *world) lieBytes(data []byte) []byte {
	if w.opts.Lie.kind == lieNone || len(data) < smallBytes {
		return data
	}
	switch {
	case w.lying(lieAlter):
		data = append([]byte(nil), data...)
		data[w.d.IntN(len(data))] ^= 1 << w.d.IntN(8)
	case w.lying(lieCut):
		data = data[:len(data)-1]
	}
	return data
}
