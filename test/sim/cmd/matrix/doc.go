// Command matrix measures the recovery profiles on simulated paths of many kinds, and writes what
// they get as a table, CSV, JSON and maps, and into the documentation.
package main
