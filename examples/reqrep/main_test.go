package main

import (
	"context"
	"testing"
	"time"
)

// TestDemonstrate has the clients check all that they get.
func TestDemonstrate(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := demonstrate(ctx, 3, 12, 10, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
}
