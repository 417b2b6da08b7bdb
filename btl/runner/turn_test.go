package runner

import (
	"context"
	"testing"

	"gobtl/internal/list"
)

// A goroutine gets the token at once if the token is free, and gives up if the token stays locked.
func TestTurnWant(t *testing.T) {
	var u turn
	if !u.want() {
		t.Fatal("a free token was not locked")
	}
	if u.want() || u.wanted.Load() != 0 {
		t.Error("a locked token was locked again, or an attempt is still counted")
	}
	u.token.Unlock()
	if !u.want() {
		t.Error("a released token was not locked")
	}
}

// A blocked call is woken to drive the module. The turn is vacant only while a call is blocked, and
// none is woken or asleep. A call finds a token that is free by the time it blocks.
func TestTurnPoke(t *testing.T) {
	u, r := &turn{}, new(Runner)
	c, calls := r.newCall(callAwait), &list.List[*call]{}
	defer c.recycle()
	calls.PushFront(&c.open, c)
	defer c.open.Remove()
	if u.token.Lock(); u.vacant() || u.poke(calls) {
		t.Fatal("a call was woken, and none is blocked")
	}
	got := make(chan bool)
	go func() { got <- u.block(context.Background(), c, false, false) }()
	eventually(t, "a call to wait", u.vacant)
	u.sleeping.Store(true)
	if u.vacant() {
		t.Error("the turn is vacant while a goroutine sleeps")
	}
	u.sleeping.Store(false)
	eventually(t, "a blocked call", func() bool { return u.poke(calls) })
	if <-got || c.ended() {
		t.Error("the woken call has ended, or owns the module together with another")
	}
	if u.blocked.Load() != 0 || u.poked.Load() || u.vacant() {
		t.Error("the woken call is still counted")
	}
	u.token.Unlock()
	if !u.block(context.Background(), c, false, false) || u.token.TryLock() {
		t.Error("the call does not own the module, and its token was free")
	}
}

// A blocked call returns without the token when the call has ended, and when its context ends.
func TestTurnBlockEnds(t *testing.T) {
	r := new(Runner)
	u := &r.turn
	u.token.Lock()
	got := make(chan bool)
	c := r.newCall(callAwait)
	go func() { got <- u.block(context.Background(), c, false, false) }()
	eventually(t, "a call to wait", func() bool { return c.state.Load() == callBlocked })
	if c.end(nil); <-got || !c.ended() || u.woken != 1 || u.blocked.Load() != 0 {
		t.Errorf("an ended call: %d woken, %d blocked", u.woken, u.blocked.Load())
	}
	c.recycle()
	c = r.newCall(callAwait)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { got <- u.block(ctx, c, false, false) }()
	eventually(t, "a call to wait", func() bool { return c.state.Load() == callBlocked })
	if cancel(); <-got || c.state.Load() != callRunning || u.blocked.Load() != 0 {
		t.Errorf("a cancelled call: state %d, %d blocked", c.state.Load(), u.blocked.Load())
	}
	c.recycle()
}
