// Command btlstream transfers the messages of an instrument from one process to one or several
// others, through rings of memory, and reports each missing message. It is package stream for the
// command line, with the options of the SKA's RDMA data transport. docs/stream.md describes it.
//
//	cli.go       options                       sample.go   what metrics, bar and reports show
//	run.go       life of the process           metrics.go  Prometheus; influx.go: InfluxDB
//	transfer.go  ring, port, meeting           record.go   arrivals as pcap, list of what is missing
//	send.go      receive.go                    report.go   the closing report, as text and JSON
//
// The stream's work is done on the port's goroutine. One goroutine reads the completed regions of
// each receiver, one takes samples; they share nothing but what package stream makes safe.
package main
