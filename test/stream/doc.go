// Package stream tests the program btlstream in its own processes, with all ways of meeting, with
// signals and full disks, with Prometheus and InfluxDB, and with packet loss between network
// namespaces.
package stream
