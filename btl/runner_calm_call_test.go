package btl

import (
	"runtime"
	"testing"
	"time"

	"gobtl/fabric"
)

// passlessDomain counts who goes to sleep after a call, and no pass behind that.
type passlessDomain struct {
	fabric.Domain
	m        *Module
	passes   uint64 // when the call was over; as the others under the token
	passless int
}

func (d *passlessDomain) Wait(timeout time.Duration) error {
	return d.Domain.(fabric.Waiter).Wait(timeout)
}

func (d *passlessDomain) Wake() { d.Domain.(fabric.Waiter).Wake() }

func (d *passlessDomain) Arm() bool {
	if d.passes == d.m.stats.counters[CntPasses] {
		d.passless++
	}
	return d.Domain.(fabric.Sleeper).Arm()
}

func (d *passlessDomain) Sleep(timeout time.Duration) error {
	return d.Domain.(fabric.Sleeper).Sleep(timeout)
}

// The watcher that was calm, and then had to leave the module to a call for a while, makes a pass
// before it sleeps: the module does not know else what has become due meanwhile.
func TestRunnerCalmBehindCall(t *testing.T) {
	// With one processor who is woken by a handler runs before the watcher has the token again.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := openShm(t, Config{})
	d := &passlessDomain{Domain: m.dom, m: m}
	m.dom = d
	came := make(chan struct{}, 1)
	var to *Runner
	mustHandleTag(t, m, 4, func(*Endpoint, Tag, []byte) {
		to.woken++ // as if it had ended a call
		came <- struct{}{}
	})
	to = openRunner(t, m)
	from := openRunner(t, openShm(t, Config{}))
	ep := connectTo(t, from, to)
	send := func() {
		time.Sleep(5 * time.Millisecond)
		if err := from.SendBuffered(t.Context(), ep, 4, []byte("x")); err != nil {
			t.Fatal(err)
		}
		<-came
	}
	for range 20 { // until it is calm
		send()
	}
	for range 10 {
		send()
		err := to.Do(t.Context(), func(m *Module) error {
			time.Sleep(10 * napping)
			d.passes = m.stats.counters[CntPasses]
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := to.Do(t.Context(), func(*Module) error {
		if d.passless > 0 {
			t.Errorf("%d sleeps behind a call, without a pass", d.passless)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
