//go:build linux

package netns

import (
	"fmt"
	"testing"

	"gobtl/fabric"
)

// Datagrams to hosts of the own network that do not exist stay in the send buffer, and the provider
// tells how much of the buffer they use.
func TestBacklogOfAbsentHosts(t *testing.T) {
	for _, provider := range []string{"udp", "net"} {
		l := New(t)
		a, _ := l.Cable(l.Host("a"), l.Host("b"), 1500)
		e := openEnd(t, a.Host, provider, a.V4.String())
		backlog := e.ep.(fabric.Backlogger)
		if used, size := backlog.Backlog(); used != 0 || size <= 0 {
			t.Errorf("%s: %d of %d bytes in use before", provider, used, size)
		}
		const hosts, sizeBytes = 200, 96
		for i := range hosts {
			name, _, err := e.dom.(fabric.Addresser).ParseAddress(fmt.Sprintf("10.99.1.%d:4000", 10+i))
			if err != nil {
				t.Fatal(err)
			}
			to, err := e.dom.Insert(name)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := e.post(to, i, 1, sizeBytes); err != nil {
				t.Fatal(err)
			}
		}
		if used, size := backlog.Backlog(); used < hosts*sizeBytes || used > size {
			t.Errorf("%s: %d of %d bytes in use behind %d datagrams", provider, used, size, hosts)
		}
		if err := e.ep.Close(); err != nil {
			t.Fatal(err)
		}
		if used, size := backlog.Backlog(); used != 0 || size != 0 {
			t.Errorf("%s: %d of %d bytes in use at a closed endpoint", provider, used, size)
		}
	}
}
