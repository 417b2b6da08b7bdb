// Package stream tests the program btlstream from outside: processes that meet in every way, move
// data, are killed, stopped and interrupted, find their disk full, are watched by Prometheus and
// InfluxDB, and hosts in network namespaces whose packet filters lose what they count.
package stream
