package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
)

// loopRunner is a module with a loop of its own.
type loopRunner struct {
	*runner.Runner
	name []byte
	mod  *btl.Module // for use inside Do and by callbacks
}

// openRunner opens a module on a real network and starts its loop.
func openRunner(t *testing.T, nw network, cfg btl.Config, rc runner.Config,
	setup func(m *btl.Module),
) *loopRunner {
	t.Helper()
	dom, err := nw.station(t).open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if setup != nil {
		setup(m)
	}
	r := &loopRunner{name: m.Name(), mod: m, Runner: runner.New(m, rc, nil)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// patient is the time that a scenario with threads has.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patienceReal)
	t.Cleanup(cancel)
	return ctx
}

// waits are the ways in which a loop waits, and the sizes to try: two loops that never sleep get
// little done on a machine with few cores.
var waits = []struct {
	name  string
	cfg   runner.Config
	sizes []int
}{
	{"spin", runner.Config{Spin: time.Hour}, []int{0, 745, 1 << 16}},
	{"sleep", runner.Config{Spin: -1}, []int{0, 1, 64, 744, 745, 1448, 4096, 1 << 16, 1 << 20}},
	{"spin_then_sleep", runner.Config{}, []int{0, 64, 744, 745, 1448, 1449, 1 << 16, 1 << 20}},
}

const (
	tagEcho btl.Tag = 10
	tagSeen btl.Tag = 11
)

// testUber, model: fabtests ubertest. The matrix of ways to send, ways to wait and sizes. Every
// message is verified where it arrives, and answered.
func testUber(t *testing.T, fx *fixture) {
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			nw := fx.open(t, opts{})
			u := newUber(t, nw, w.cfg)
			for _, send := range u.ways() {
				for _, size := range w.sizes {
					if u.tooLarge(send.name, size) {
						continue
					}
					t.Run(fmt.Sprintf("%s/%d", send.name, size), func(t *testing.T) {
						u.ctx = patient(t)
						for range 2 {
							u.round(t, size, send.fn)
						}
					})
				}
			}
		})
	}
}

// uber is a client and a server of the matrix.
type uber struct {
	ctx            context.Context
	client, server *loopRunner
	ep             *btl.Endpoint
	region         *btl.Region
	key            atomic.Uint64
	seen           chan seen
}

// seen is what the server tells of a message.
type seen struct {
	bytes  int
	intact bool
}

func newUber(t *testing.T, nw network, rc runner.Config) *uber {
	t.Helper()
	u := &uber{ctx: patient(t), seen: make(chan seen, 4)}
	u.server = openRunner(t, nw, btl.Config{}, rc, func(m *btl.Module) {
		err := m.Handle(tagEcho, func(ep *btl.Endpoint, _ btl.Tag, data []byte) {
			u.seen <- seen{len(data), intact(data, u.key.Load())}
		})
		if err != nil {
			t.Fatal(err)
		}
		if u.region, err = m.Expose(make([]byte, 1<<20), btl.RemoteWrite); err != nil {
			t.Fatal(err)
		}
	})
	u.client = openRunner(t, nw, btl.Config{}, rc, nil)
	var err error
	if u.ep, err = u.client.Connect(u.ctx, u.server.name); err != nil {
		t.Fatal(err)
	}
	return u
}

type uberWay struct {
	name string
	fn   func(b []byte) error
}

func (u *uber) tooLarge(way string, size int) bool {
	return way == "immediate" && size > u.server.mod.Limits().TinyBytes
}

// ways are the ways to send: each returns when the memory is the caller's again.
func (u *uber) ways() []uberWay {
	fragment := func(lend func(b []byte) (*btl.Fragment, error)) func(b []byte) error {
		return func(b []byte) error {
			ended := make(chan error, 1)
			err := u.client.Do(u.ctx, func(*btl.Module) error {
				f, err := lend(b)
				if err != nil {
					return err
				}
				f.Signal = true
				f.OnDone = func(_ *btl.Fragment, err error) { ended <- err }
				if _, err := u.ep.Send(u.ep.Now(), f); err != nil {
					return errors.Join(err, u.ep.Free(f))
				}
				return nil
			})
			if err != nil {
				return err
			}
			select {
			case err := <-ended:
				return err
			case <-u.ctx.Done():
				return u.ctx.Err()
			}
		}
	}
	return []uberWay{
		{"send", func(b []byte) error { return u.client.Send(u.ctx, u.ep, tagEcho, b) }},
		{"prepare", fragment(func(b []byte) (*btl.Fragment, error) { return u.ep.Prepare(tagEcho, b) })},
		{"alloc", fragment(func(b []byte) (*btl.Fragment, error) {
			f, err := u.ep.Alloc(tagEcho, len(b))
			if err == nil {
				copy(f.Bytes(), b)
			}
			return f, err
		})},
		{"immediate", func(b []byte) error {
			return u.client.Do(u.ctx, func(m *btl.Module) error {
				return u.ep.SendImmediate(m.Now(), tagEcho, b)
			})
		}},
		{"put", func(b []byte) error {
			if err := u.client.Put(u.ctx, u.ep, b, u.region.Handle(), 0); err != nil {
				return err
			}
			return u.server.Do(u.ctx, func(*btl.Module) error {
				u.seen <- seen{len(b), intact(u.region.Bytes()[:len(b)], u.key.Load())}
				return nil
			})
		}},
	}
}

// round sends one message and waits for what the server saw.
func (u *uber) round(t *testing.T, size int, send func(b []byte) error) {
	t.Helper()
	b := make([]byte, size)
	pattern(b, u.key.Add(1))
	if err := send(b); err != nil {
		t.Fatal(err)
	}
	clear(b)
	select {
	case s := <-u.seen:
		if s.bytes != size || !s.intact {
			t.Fatalf("%d bytes arrived as %d, intact: %v", size, s.bytes, s.intact)
		}
	case <-u.ctx.Done():
		t.Fatal("did not arrive")
	}
	if len(u.seen) > 0 {
		t.Fatal("arrived twice")
	}
}

// testMultiDomainThreads, model: fabtests functional/rdm_multi_domain and the threaded tests. Pairs
// of modules, each with its own thread, in one process, and several goroutines on each of them.
func testMultiDomainThreads(t *testing.T, fx *fixture) {
	const pairs, senders, messages = 3, 4, 25
	ctx := patient(t)
	nw := fx.open(t, opts{})
	var wg sync.WaitGroup
	for p := range pairs {
		var mu sync.Mutex
		got := map[string]int{}
		server := openRunner(t, nw, btl.Config{}, runner.Config{}, func(m *btl.Module) {
			err := m.Handle(tagEcho, func(_ *btl.Endpoint, _ btl.Tag, data []byte) {
				mu.Lock()
				defer mu.Unlock()
				got[string(data)]++
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		client := openRunner(t, nw, btl.Config{}, runner.Config{}, nil)
		wg.Go(func() {
			ep, err := client.Connect(ctx, server.name)
			if err != nil {
				t.Errorf("pair %d: %v", p, err)
				return
			}
			var all sync.WaitGroup
			for s := range senders {
				all.Go(func() {
					for i := range messages {
						msg := fmt.Appendf(nil, "pair %d, sender %d, message %d", p, s, i)
						if err := client.Send(ctx, ep, tagEcho, msg); err != nil {
							t.Errorf("%s: %v", msg, err)
							return
						}
					}
				})
			}
			all.Wait()
			mu.Lock()
			defer mu.Unlock()
			for s := range senders {
				for i := range messages {
					msg := fmt.Sprintf("pair %d, sender %d, message %d", p, s, i)
					if got[msg] != 1 {
						t.Errorf("%s arrived %d times", msg, got[msg])
					}
				}
			}
			if len(got) != senders*messages {
				t.Errorf("pair %d: %d different messages, %d were sent", p, len(got),
					senders*messages)
			}
		})
	}
	wg.Wait()
}
