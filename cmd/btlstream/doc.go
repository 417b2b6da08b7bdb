// Command btlstream transfers the messages of an instrument from one process to one or several
// other processes, through rings of memory regions. btlstream reports each missing message. The
// command is the command line of package stream, and docs/stream.md describes it.
//
//	cli.go       options                       sample.go   what metrics, bar and reports show
//	run.go       life of the process           metrics.go  Prometheus; influx.go: InfluxDB
//	transfer.go  ring, port, meeting           record.go   arrivals as pcap, list of what is missing
//	send.go      receive.go                    report.go   the closing report, as text and JSON
//
// The goroutine of the port transfers the data. For each receiver, one goroutine reads the
// completed regions. One further goroutine takes samples of the counters. The goroutines share only
// data that package stream makes safe for concurrent use.
package main
