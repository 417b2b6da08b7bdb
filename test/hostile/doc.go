// Package hostile runs honest programs beside one malicious peer of each kind, and compares their
// throughput with the throughput without that peer. docs/explanation/peers.md describes the rules
// that are tested.
//
//	go test ./test/hostile                 each kind once, for a moment: nobody honest ends
//	make hostile                           with and without alternately; the honest lose < 10 %
//
// The malicious peer runs in the test, and the honest programs run in processes of their own.
package hostile
