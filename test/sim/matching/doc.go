// Package matching runs layers of package pml on simulated hosts: random programs of sends,
// receives with wildcards, from and into layouts, probes and cancels, under loss, reordering and
// deaths, held against a naive model of MPI's matching; floods, and peers that do not keep to the
// protocol.
package matching
