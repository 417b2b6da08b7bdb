//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gobtl/test/netns/recovery"
)

// stand implements the test interface of a lab in a program that is not a test. A failure panics to
// the call of onStand.
type stand struct {
	ctx      context.Context
	cleanups []func()
	errs     []error
}

// failure is the reason why a measurement failed.
type failure struct{ error }

// onStand runs measurements, and always removes the network afterwards.
func onStand(ctx context.Context, o recovery.Options) (r *recovery.Result, err error) {
	s := &stand{ctx: ctx}
	defer func() {
		for _, f := range slices.Backward(s.cleanups) {
			f()
		}
		err = errors.Join(err, errors.Join(s.errs...))
	}()
	defer func() {
		switch broken := recover().(type) {
		case nil:
		case failure:
			err = broken.error
		default:
			panic(broken)
		}
	}()
	return recovery.Run(s, o)
}

func (s *stand) Helper()                  {}
func (s *stand) Cleanup(f func())         { s.cleanups = append(s.cleanups, f) }
func (s *stand) Context() context.Context { return s.ctx }
func (s *stand) Skip(args ...any)         { s.Fatal(args...) }

func (s *stand) Errorf(format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf(format, args...))
}

func (s *stand) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

func (s *stand) Fatalf(format string, args ...any) {
	panic(failure{fmt.Errorf(format, args...)})
}
