package session

import (
	"fmt"
	"sync"

	"gobtl/cmd/btlbench/plan"
)

// memory is the memory that the clients of a server cause together, for the contents of messages.
type memory struct {
	most int64 // 0 means no limit
	kept int64 // the part of most that one host cannot take

	lock  sync.Mutex       // guards what follows
	used  int64            // by all clients
	hosts map[string]int64 // by the clients of a host
}

// newMemory returns the memory of a server. One host gets at most three quarters of it, unless the
// server serves only one run.
func newMemory(most int64, once bool) *memory {
	m := &memory{most: most, hosts: make(map[string]int64)}
	if !once {
		m.kept = most / hostShare
	}
	return m
}

// loan is the part of the memory of one client.
type loan struct {
	of   *memory
	host string
	held int64
}

// grow makes the part of a client at least as large as the given number of bytes, or returns the
// reason why the client cannot have it.
func (l *loan) grow(bytes int64) error {
	m, more := l.of, bytes-l.held
	if more <= 0 {
		return nil
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	switch {
	case m.most == 0:
	case m.used+more > m.most:
		return fmt.Errorf("memory for the messages of this round: this server has %s for all clients, "+
			"%s of it free (serve --memory)", plan.SizeText(int(m.most)), plan.SizeText(int(m.most-m.used)))
	case m.hosts[l.host]+more > m.most-m.kept:
		return fmt.Errorf("memory for the messages of this round: this server keeps %s of its %s for "+
			"other hosts (serve --memory)", plan.SizeText(int(m.kept)), plan.SizeText(int(m.most)))
	}
	m.used += more
	m.hosts[l.host] += more
	l.held = bytes
	return nil
}

// giveBack ends the loan.
func (l *loan) giveBack() {
	m := l.of
	m.lock.Lock()
	defer m.lock.Unlock()
	m.used -= l.held
	if m.hosts[l.host] -= l.held; m.hosts[l.host] == 0 {
		delete(m.hosts, l.host)
	}
	l.held = 0
}
