package main

import (
	"slices"

	"gobtl/test/patch"
)

// mutation is one deliberate fault.
type mutation struct {
	name  string // what it is called: lower case and hyphens
	fault string // what the module does wrong
	in    string // the package, from the root of the sources
	old   string // a pattern (see package patch) of what stands in one place of it
	with  string // a pattern of something else in the same function, where old alone is in several
	new   string // what takes its place: the parts of old, metavariables or not, as they are there
	test  string // arguments of the "go test" that notices it if the swarm does not
}

// The method edit finds the place of a fault.
func (m *mutation) edit(s *patch.Sources) (*patch.Edit, error) {
	c := patch.Change{Name: m.name, In: m.in, Old: m.old, With: m.with, New: m.new}
	return c.Edit(s)
}

// mutations lists all faults.
func mutations() []mutation {
	return slices.Concat(btlMutations, packMutations, pieceMutations, flowMutations, memoryMutations,
		reliableMutations, recoveryMutations, partMutations, sizeMutations, endMutations,
		remoteMutations, numberMutations, placeMutations, matchingMutations, callMutations,
		loneMutations, requestMutations)
}
