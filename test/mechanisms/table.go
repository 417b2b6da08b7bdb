package main

import (
	"slices"
	"strings"

	"gobtl/test/patch"
)

// mechanism is a special mechanism of the transport.
type mechanism struct {
	name  string
	parts []string // the code that it consists of: see lines.go
	// off turns the mechanism off by changes of the sources. Or else swap does, which replaces a part
	// of the command line of each trial.
	off    []change
	swap   [2]string
	needed string // why the mechanism stays, whatever it brings; empty: the figures decide
	trials []trial
}

// change is a change of one place of a package.
type change struct {
	in   string // the package, from the root of the sources
	old  string // a pattern (see package patch)
	new  string
	with string // a pattern of something else in the same function
}

// trial is a measurement with and without a mechanism.
type trial struct {
	where string // the situation, in words

	// The field by is "sim NAME" of matrix.FindSituation, "bench PACKAGE NAME" of a Go benchmark, or
	// the arguments of "btlbench pair".
	by   string
	unit string // of the figure that counts
}

// simulated reports whether the trial runs in virtual time, and always has the same result.
func (t *trial) simulated() bool { return strings.HasPrefix(t.by, simPrefix) }

// title is the situation, and whether it is simulated.
func (t *trial) title() string {
	if t.simulated() {
		return t.where + " (simulated)"
	}
	return t.where
}

// inPackage is the package of the trial's Go benchmark, or empty.
func (t *trial) inPackage() string {
	if !strings.HasPrefix(t.by, benchPrefix) {
		return ""
	}
	return strings.Fields(t.by)[1]
}

const simPrefix, benchPrefix = "sim ", "bench "

// moreIsBetter lists the units of which more is better.
var moreIsBetter = []string{"MB/s", "pair-MB/s", "Jain", "landed-%"}

// switched says in words how the mechanism is turned off.
func (m *mechanism) switched() string {
	switch {
	case m.swap[1] != "":
		return "`" + m.swap[1] + "`"
	case len(m.off) == 0:
		return "-"
	}
	var in []string
	for _, c := range m.off {
		if p := "`" + c.in + "`"; !slices.Contains(in, p) {
			in = append(in, p)
		}
	}
	return "patch of " + strings.Join(in, ", ")
}

// edits finds the places of the changes that turn a mechanism off.
func (m *mechanism) edits(src *patch.Sources) (all []*patch.Edit, err error) {
	for _, c := range m.off {
		p := patch.Change{Name: m.name, In: c.in, Old: c.old, With: c.with, New: c.new}
		e, err := p.Edit(src)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// mechanisms lists all mechanisms.
func mechanisms() []mechanism {
	return slices.Concat(sendMechanisms, receiveMechanisms, waitMechanisms, ackMechanisms,
		lossMechanisms, windowMechanisms, neededMechanisms)
}
