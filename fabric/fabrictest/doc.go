// Package fabrictest tests whether a provider fulfils the contract of package fabric. The tests of
// each provider run the conformance suite as in the following example.
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
// The suite requires a network that delivers each datagram exactly once, and the datagrams of each
// sender in order. The network may lose datagrams only while more than Caps.RecvCapacity datagrams
// wait at a receiver. For example, the loopback interface fulfils the suite's requirements. Only
// the tests of Wait and Sleep call functions that sleep. If an expected datagram does not arrive
// within Fixture.Patience, the test fails with a description of the failure.
//
// Every subtest keeps a record of the endpoint to which each buffer is posted. A completion for a
// buffer that was not posted, or a second completion for the same posted buffer, fails the current
// test.
//
// A Fixture lists the tests that do not apply to a provider, each with a reason that the test
// prints when it is skipped.
package fabrictest
