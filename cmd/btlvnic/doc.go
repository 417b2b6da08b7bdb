// Command btlvnic runs virtual Ethernet switches over a fabric. Its subcommands are the Ethernet
// Manager, the agent of a host, and queries of the state of both. Package vnic contains the
// protocol, and package cmd/btlvnic/agent contains the threads. btlvnic needs Linux.
//
//	cli.go        the command line
//	agent.go      the command agent
//	em.go         the command em: the manager's loop, file, TCP port
//	api.go        what both tell on a unix socket: HTTP, JSON
//	show.go       the commands that ask there: show, ping-mac, dump
//	metrics.go    counters for Prometheus
//	run.go        signals, errors, exit status
package main
