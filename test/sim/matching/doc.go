// Package matching runs package pml on simulated hosts, with random programs that are compared with
// a simple model of MPI's matching, with floods, and with peers that violate the protocol.
package matching
