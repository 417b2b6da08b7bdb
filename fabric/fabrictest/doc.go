// Package fabrictest holds every provider to the contracts of package fabric: one suite, run by
// each provider's tests against itself.
//
//	func TestConformance(t *testing.T) {
//		nw := mem.New(mem.Config{})
//		fabrictest.Run(t, fabrictest.Fixture{
//			Name: "mem",
//			Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
//				d, err := nw.Open(cfg)
//				if err != nil {
//					tb.Fatal(err)
//				}
//				return d
//			},
//		})
//	}
//
// The suite assumes a network on which a datagram arrives, once and in its sender's order, unless
// the receiver holds more unread ones than Caps.RecvCapacity: the loopback interface does that, and
// a wrapper that injects faults does it when told to inject none. It sleeps only where sleeping is
// the subject, and waits for arrivals with a deadline (Fixture.Patience) that fails with a
// sentence.
//
// Every subtest follows the owner of each buffer: a completion for a buffer that was not posted, or
// a second one for a buffer that was, fails whichever test happens to see it.
//
// What a provider cannot do is said in its Fixture, each time with a reason that the skip shows.
package fabrictest
