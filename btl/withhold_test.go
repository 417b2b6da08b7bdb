package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/seq"
)

// oftenWithheld is a configuration in which a packet is withheld whenever a number is left out.
func oftenWithheld() Config {
	cfg := regressConfig()
	count := uint64(0)
	cfg.Random = func() uint64 {
		count++
		return count * 0x9E3779B9 & 0xFFFF_FF00 >> 3 // the upper half is 0
	}
	return cfg
}

// A receiver that acknowledges all that it has heard of, lost or not, has a sender never slow down.
// It is found out when it acknowledges what was withheld; an honest one never is.
func TestLyingReceiver(t *testing.T) {
	for name, lies := range map[string]bool{"honest": false, "lies": true} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, mem.Config{}, 2, oftenWithheld())
			s := l.newScript(0)
			mustHandle(t, l.mods[1], func() {})
			a, b := l.pair()
			newest, number, forging, packets := seq.Num(0), uint32(0), false, 0
			l.net.SetFilter(func(_, to, pkt []byte) mem.Verdict {
				var h frag.Header
				if _, err := frag.Decode(pkt, &h); err != nil || forging {
					return mem.Deliver
				}
				switch {
				case h.Conn == tagOf(b) && h.Kind.HasSeq():
					if packets++; packets == 1 || newest.Before(h.Seq) {
						newest, number = h.Seq, h.Number
					}
					if packets%8 == 0 {
						return mem.Drop
					}
				case lies && h.Conn == tagOf(a) && h.Kind == frag.KindAck && packets > 0:
					forged := make([]byte, 256)
					sack := frag.Sack{Last: newest, LastNumber: number, LastData: true}
					h.Ack, h.PayloadLen = newest, uint16(sack.Bytes())
					n := h.Encode(forged) + sack.Encode(forged[frag.AckBytes:])
					forging = true
					l.inject(s, to, forged[:n])
					forging = false
					return mem.Drop
				}
				return mem.Deliver
			})
			const sends = 100
			for range sends {
				ended := send(t, a, 40_000)
				for range 4000 {
					if l.step(20 * time.Microsecond); !errors.Is(*ended, errPending) || a.Err() != nil {
						break
					}
				}
				if a.Err() != nil {
					break
				}
			}
			withheld, told := counter(l.mods[0], CntWithheld), new(errs.EndedError)
			switch {
			case withheld == 0:
				t.Errorf("of %d packets none was withheld", packets)
			case !lies && a.Err() != nil:
				t.Errorf("an honest receiver: %v", a.Err())
			case lies && !errors.Is(a.Err(), ErrBroken):
				t.Errorf("%d packets, %d withheld: %v", packets, withheld, a.Err())
			}
			if l.idleFor(time.Second); lies && (!errors.As(b.Err(), &told) || told.Code != frag.ByeBroken) {
				t.Errorf("the liar is told %v", b.Err())
			}
			l.net.SetFilter(nil)
		})
	}
}
