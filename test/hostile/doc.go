// Package hostile runs honest programs beside one bad peer of each kind, and compares their
// throughput with that without the bad peer. docs/explanation/peers.md has the underlying rules.
//
//	go test ./test/hostile                 each kind once, for a moment: nobody honest ends
//	make hostile                           in turns, and the honest lose less than a tenth
//
// A bad peer lives in the test; the honest programs are processes of their own.
package hostile
