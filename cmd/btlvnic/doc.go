// Command btlvnic runs virtual Ethernet switches over a fabric. The command btlvnic contains the
// Ethernet Manager, the agent of a host, and commands that show the state of the manager and the
// agent. Package vnic implements the rules, and package cmd/btlvnic/agent implements the threads.
// btlvnic needs Linux.
//
//	cli.go        the command line
//	agent.go      the command agent
//	em.go         the command em: the manager's loop, file, TCP port
//	api.go        what both tell on a unix socket: HTTP, JSON
//	show.go       the commands that ask there: show, ping-mac, dump
//	metrics.go    counters for Prometheus
//	run.go        signals, errors, exit status
package main
