// Command swarm runs simulated clusters under faults, one per seed, and reports the incidents of
// the runs. Command swarm can also repeat one seed and log all events.
package main
