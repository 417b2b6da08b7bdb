package runner

import (
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
)

// passlessDomain counts who goes to sleep after a call, and no pass behind that.
type passlessDomain struct {
	sleeping
	m        *btl.Module
	passes   uint64 // when the call was over; as the others under the token
	passless int
}

func (d *passlessDomain) Arm() bool {
	if d.passes == passesOf(d.m) {
		d.passless++
	}
	return d.sleeping.Arm()
}

// The watcher that was calm, and then had to leave the module to a call for a while, makes a pass
// before it sleeps: the module does not know else what has become due meanwhile.
func TestRunnerCalmBehindCall(t *testing.T) {
	// With one processor who is woken by a handler runs before the watcher has the token again.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	d := new(passlessDomain)
	m := openShm(t, func(dom fabric.Domain) fabric.Domain {
		d.Domain = dom
		return d
	})
	d.m = m
	came := make(chan struct{}, 1)
	var to *Runner
	mustHandleTag(t, m, 4, func(*btl.Endpoint, btl.Tag, []byte) {
		to.turn.woken++ // as if it had ended a call
		came <- struct{}{}
	})
	to = openRunner(t, m)
	from := openRunner(t, openShm(t, nil))
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
		err := to.Do(t.Context(), func(m *btl.Module) error {
			time.Sleep(10 * napping)
			d.passes = passesOf(m)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := to.Do(t.Context(), func(*btl.Module) error {
		if d.passless > 0 {
			t.Errorf("%d sleeps behind a call, without a pass", d.passless)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
