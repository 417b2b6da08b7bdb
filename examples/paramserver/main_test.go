package main

import (
	"context"
	"testing"
	"time"
)

func TestTrain(t *testing.T) {
	const workers, steps, size = 3, 5, 50_000
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	first, err := train(ctx, workers, steps, size)
	if err != nil {
		t.Fatal(err)
	}
	if first < steps-0.01 || first > steps+0.01 {
		t.Errorf("after %d steps the first parameter is %g", steps, first)
	}
}
