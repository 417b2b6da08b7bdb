// Package fabrictest tests that a provider of package fabric fulfils its contract. The tests of
// each provider call the suite as in the example.
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
// The suite requires a network on which each datagram arrives exactly once, and the datagrams of
// one sender arrive in the order in which they were sent. Datagrams beyond Caps.RecvCapacity at one
// receiver may be lost. Suitable networks are the loopback interface and a fault injector without
// faults. No tests other than those of Wait and Sleep sleep. If an expected datagram does not
// arrive within Fixture.Patience, the test fails with a description of the failure.
//
// Every subtest records which endpoint each buffer is posted to. A completion for a buffer that was
// not posted, or a second completion for a posted buffer, fails the current test.
//
// A Fixture lists the tests that do not apply to a provider, each with a reason that the skipped
// test shows.
package fabrictest
