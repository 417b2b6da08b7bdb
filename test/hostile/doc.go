// Package hostile runs honest programs beside one bad peer of each kind, and compares what they get
// done with what they get done alone: docs/explanation/peers.md has the rules that this rests on.
//
//	go test ./test/hostile                 each kind once, for a moment: nobody honest ends
//	make hostile                           in turns, and the honest lose less than a tenth
//
// A bad peer lives in the test; the honest programs are processes of their own.
package hostile
