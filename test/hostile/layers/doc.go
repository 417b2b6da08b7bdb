// Package layers runs honest work beside one bad peer of each kind in turn, and compares what the
// honest peers get done with what they get done without it.
//
//	honest clients ---work---> server <---bad peer
//
// A Load is honest work that goes on until it is closed, and checks itself: nothing is lost,
// nothing is changed, nobody honest ends. A Bad is a kind of bad peer; it knows what any peer can
// know, and does a bounded number of things a second, so that it does not merely take the
// processor. A window without a bad peer and one with it take turns.
//
// A Load's methods but Close may be called by any goroutine.
package layers
