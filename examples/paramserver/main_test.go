package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
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

// TestWorkerLeaves has a worker leave without a step: the others take all of theirs.
func TestWorkerLeaves(t *testing.T) {
	const stays, steps, size = 3, 5, 1000
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s := newServer(stays+1, size)
	runner, name, err := s.start(ctx, btl.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range stays {
		go func() {
			first, err := work(ctx, name, steps, size)
			if err == nil && (first < steps-0.01 || first > steps+0.01) {
				t.Errorf("the first parameter is %g", first)
			}
			ended <- err
		}()
	}
	go func() {
		_, err := work(ctx, name, 0, size)
		ended <- err
	}()
	for range stays + 1 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if err := runner.Close(ctx); err != nil {
		t.Error(err)
	}
}

// TestTell has a server say more at once than there is room for.
func TestTell(t *testing.T) {
	const count = 2000
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	nobody := func(*btl.Endpoint, error) {}
	heard, came := 0, make(chan struct{})
	other, name, err := start(btl.Config{}, func(m *btl.Module) error {
		return m.Handle(tagStep, func(*btl.Endpoint, btl.Tag, []byte) {
			if heard++; heard == count {
				close(came)
			}
		})
	}, nobody)
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(1, 1)
	runner, _, err := s.start(ctx, btl.Config{SendBuffers: 64})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := runner.Connect(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Do(ctx, func(*btl.Module) error {
		for range count {
			s.tell(ep, tagStep, make([]byte, 1000))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := next(ctx, came); err != nil {
		t.Error(err)
	}
	if err := errors.Join(runner.Close(ctx), other.Close(ctx)); err != nil {
		t.Error(err)
	}
}
