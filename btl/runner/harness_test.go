package runner

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/fabric/shm"
	"gobtl/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench opens modules on one in-process network.
type bench struct {
	tb   testing.TB
	net  *mem.Network
	wrap func(fabric.Domain) fabric.Domain // put between a module and its domain; may be nil
}

func (b *bench) open(cfg btl.Config) *btl.Module {
	b.tb.Helper()
	infos, err := b.net.Provider().GetInfo(fabric.Hints{})
	if err != nil || len(infos) == 0 {
		b.tb.Fatalf("mem provider: %v", err)
	}
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		b.tb.Fatal(err)
	}
	dom, err := b.net.Open(dc)
	if err != nil {
		b.tb.Fatal(err)
	}
	return openOn(b.tb, dom, cfg, b.wrap)
}

// sleeping is a domain in which a goroutine sleeps that does not own the module, to build others
// on.
type sleeping struct{ fabric.Domain }

func (d sleeping) Wait(timeout time.Duration) error {
	return d.Domain.(fabric.Waiter).Wait(timeout)
}

func (d sleeping) Wake() { d.Domain.(fabric.Waiter).Wake() }

func (d sleeping) Arm() bool { return d.Domain.(fabric.Sleeper).Arm() }

func (d sleeping) Sleep(timeout time.Duration) error {
	return d.Domain.(fabric.Sleeper).Sleep(timeout)
}

// openShm opens a module over shared memory. wrap is put between it and its domain; it may be nil.
func openShm(t testing.TB, wrap func(fabric.Domain) fabric.Domain) *btl.Module {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: shm.ProviderName})
	if errors.Is(err, fabric.ErrUnavailable) {
		testenv.Missing(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var cfg btl.Config
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		t.Fatal(err)
	}
	dom, err := fabric.Open(infos[0], dc)
	if err != nil {
		t.Fatal(err)
	}
	m := openOn(t, dom, cfg, wrap)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func openOn(tb testing.TB, dom fabric.Domain, cfg btl.Config,
	wrap func(fabric.Domain) fabric.Domain,
) *btl.Module {
	tb.Helper()
	if wrap != nil {
		dom = wrap(dom)
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func mustHandleTag(t *testing.T, m *btl.Module, tag btl.Tag, h btl.Handler) {
	t.Helper()
	if err := m.Handle(tag, h); err != nil {
		t.Fatal(err)
	}
}

// filled returns bytes that differ from those of another seed.
func filled(size int, seed byte) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = seed + byte(i*7) + byte(i>>8)
	}
	return b
}

// passesOf counts the module's passes until now. Call it only in callbacks and in Do.
func passesOf(m *btl.Module) uint64 {
	m.Hooks().PublishStats()
	s := m.Stats()
	return s.Get(btl.CntPasses)
}

// asksMax is how many operations on a peer's memory the transport has under way at once; it refuses
// more with ErrAgain.
const asksMax = 256
