package conn_test

import (
	"context"
	"errors"
	"net"
	"regexp"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/conn"
)

// full returns a pair whose Listener has a full backlog, and the Conns that this side has opened.
func full(t *testing.T, backlog int) (p *pair, opened []*conn.Conn) {
	t.Helper()
	p = overNetwork(t, conn.Config{Backlog: backlog})
	p.client.SetDialMost(0)
	for {
		c, err := p.client.Dial(t.Context(), p.ep, "service")
		if errors.Is(err, conn.ErrBacklog) {
			return p, opened
		}
		must(t, err)
		opened = append(opened, c)
	}
}

// A Dial that finds a full backlog tries again until there is a place. Its context decides how
// long, and without a deadline the Node does.
func TestDialTriesAgain(t *testing.T) {
	for _, deadline := range []bool{false, true} {
		p, _ := full(t, 1)
		ctx := t.Context()
		if deadline {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Hour)
			defer cancel()
		} else {
			p.client.SetDialMost(time.Hour)
		}
		before := p.client.Dialed()
		dialled := make(chan error, 1)
		go func() {
			c, err := p.client.Dial(ctx, p.ep, "service")
			if err == nil {
				err = c.Close()
			}
			dialled <- err
		}()
		eventually(t, "a third attempt", func() bool { return p.client.Dialed() >= before+3 })
		_, err := p.listener.Accept()
		must(t, err)
		if err := <-dialled; err != nil {
			t.Errorf("deadline %v: %v", deadline, err)
		}
	}
}

// A Dial that gives up says how often and how long it has tried.
func TestDialGivesUp(t *testing.T) {
	for _, tc := range []struct {
		most time.Duration
		want string
	}{
		{0, `conn: backlog is full: tried once$`},
		{100 * time.Millisecond, `conn: backlog is full: tried (once|[0-9]+ times in [0-9.]+m?s)$`},
	} {
		p, _ := full(t, 1)
		p.client.SetDialMost(tc.most)
		_, err := p.client.Dial(t.Context(), p.ep, "service")
		if !errors.Is(err, conn.ErrBacklog) || !regexp.MustCompile(tc.want).MatchString(err.Error()) {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

// A Dial between two attempts ends with its context, its peer and its Node.
func TestDialEndsBetweenAttempts(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(p *pair, cancel context.CancelFunc)
		text string
		want []error
	}{
		{
			"context", func(_ *pair, cancel context.CancelFunc) { cancel() },
			`backlog is full: tried [2-9][0-9]* times in [0-9.]+m?s: context canceled$`,
			[]error{conn.ErrBacklog, context.Canceled},
		},
		{
			"peer", func(p *pair, _ context.CancelFunc) { abort(t, p) }, `^dial btl /service: btl: `,
			[]error{btl.ErrClosed},
		},
		{
			// The end of the Node, or that of its endpoint, is noticed first.
			"node", func(p *pair, _ context.CancelFunc) { p.client.end() },
			`^dial btl /service: (btl: closed|use of closed network connection$)`, nil,
		},
	} {
		p, _ := full(t, 1)
		p.client.SetDialMost(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before := p.client.Dialed()
		dialled := make(chan error, 1)
		go func() {
			_, err := p.client.Dial(ctx, p.ep, "service")
			dialled <- err
		}()
		eventually(t, "a second attempt", func() bool { return p.client.Dialed() >= before+2 })
		tc.end(p, cancel)
		err := <-dialled
		if !regexp.MustCompile(tc.text).MatchString(err.Error()) {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.text)
		}
		for _, want := range tc.want {
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", tc.name, err, want)
			}
		}
	}
}

// The pauses between attempts grow up to a second, and their random part is half of them.
func TestDialPause(t *testing.T) {
	const most = time.Second
	longest := time.Duration(0)
	for tries := 1; tries < 100; tries++ {
		low, high := conn.DialPause(tries, 0), time.Duration(0)
		for random := uint64(1); random > 0; random *= 3 {
			pause := conn.DialPause(tries, random)
			if pause < low || pause >= 2*low {
				t.Fatalf("attempt %d: a pause of %v, the shortest is %v", tries, pause, low)
			}
			if high = max(high, pause); random > 1<<62 {
				break
			}
		}
		switch {
		case tries == 1 && (low < time.Millisecond || high > 10*time.Millisecond):
			t.Errorf("the first pause is %v to %v", low, high)
		case low < longest || high > most:
			t.Errorf("attempt %d: %v to %v, and %v before", tries, low, high, longest)
		case high < low*3/2:
			t.Errorf("attempt %d: all dialers wait %v to %v", tries, low, high)
		}
		longest = low
	}
	if longest != most/2 {
		t.Errorf("the last pause is at least %v", longest)
	}
}

// A hundred dialers get through a backlog of two, which never holds more.
func TestDialersOfFullBacklog(t *testing.T) {
	const dialers, backlog = 100, 2
	p, opened := full(t, backlog)
	p.client.SetDialMost(time.Hour)
	var all sync.WaitGroup
	before := p.client.Dialed()
	for range dialers {
		all.Go(func() {
			c, err := p.client.Dial(t.Context(), p.ep, "service")
			if err != nil {
				t.Error(err)
				return
			}
			_ = c.Close() // The peer may have gone.
		})
	}
	eventually(t, "all dialers", func() bool { return p.client.Dialed() >= before+dialers })
	for range dialers + len(opened) {
		if _, waiting := p.server.Held("service"); waiting > backlog {
			t.Errorf("%d Conns are in the backlog", waiting)
		}
		var c net.Conn
		c, err := p.listener.Accept()
		must(t, err)
		_ = c.Close() // The peer may have gone.
	}
	all.Wait()
}
