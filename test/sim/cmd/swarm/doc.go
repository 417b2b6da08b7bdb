// Command swarm runs simulated clusters under faults, one per seed, and reports what they went
// through; or it runs one seed again and writes down everything that happens.
package main
