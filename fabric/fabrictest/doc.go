// Package fabrictest tests that a provider fulfils the contracts of package fabric. The tests of
// each provider run the same suite:
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
// The suite assumes a network on which each datagram arrives once and in its sender's order.
// Datagrams beyond Caps.RecvCapacity at one receiver may be lost. The loopback interface is a
// network of this kind, and a fault injector without faults preserves these properties. The suite
// sleeps only in tests of sleeping. A missing arrival fails a test after a deadline
// (Fixture.Patience), with a sentence that describes the failure.
//
// Every subtest follows the owner of each buffer. A completion for a buffer that was not posted, or
// a second completion for a posted buffer, fails the current test.
//
// A Fixture lists the abilities that a provider lacks, each with a reason that the skip shows.
package fabrictest
