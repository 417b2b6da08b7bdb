// Command matrix measures the recovery profiles on many kinds of simulated paths, and writes the
// results as a table, CSV, JSON and colour maps, and into the documentation.
package main
