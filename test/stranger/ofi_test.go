package stranger

import (
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/ofi"
	"gobtl/internal/testenv"
)

// TestOfi speaks to the provider of libfabric, whose addresses are of another form.
func TestOfi(t *testing.T) {
	at := fabric.Hints{Provider: "ofi/udp", Node: "127.0.0.1"}
	_, err := fabric.GetInfo(at)
	if errors.Is(err, fabric.ErrUnavailable) && !withCgo {
		t.Skip("built without cgo, hence without libfabric")
	}
	if err != nil {
		testenv.Missing(t, "libfabric's provider udp: %v", err)
	}
	r := realAt(t, at, btl.Config{MTUBytes: 1400})
	h := stranger(t, options{provider: "ofi/udp", features: featSack | featOps, faults: 5})
	n := 0
	h.do(func() { h.handlers[tagEcho] = func(*conn, []byte) { n++ } })
	c := h.to(t, r)
	h.do(func() {
		for i := range 200 {
			c.send(tagEcho, text(i, i*i))
		}
	})
	eventually(t, "all echoes", func() (ok bool) {
		h.do(func() { ok = n == 200 })
		return ok
	})
	h2 := stranger(t, options{provider: "ofi/udp", features: featSack})
	if _, err := r.run.Connect(bg, h2.name()); err != nil {
		t.Error(err)
	}
}
