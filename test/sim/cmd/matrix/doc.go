// Command matrix measures the recovery profiles on simulated paths of many kinds, and writes the
// results as a table, CSV, JSON and maps, and into the documentation.
package main
