package main

import (
	"testing"

	"gobtl/stream"
)

// BenchmarkSample is what a sample costs the thread that moves the messages.
func BenchmarkSample(b *testing.B) {
	s := &session{c: &cli{Every: 1, Log: logInfo}}
	var cfg stream.Config
	s.sampled(&cfg, 0)
	go func() {
		for range s.samples {
		}
	}()
	for b.Loop() {
		cfg.Sample(stream.Stats{})
	}
	close(s.samples)
}
