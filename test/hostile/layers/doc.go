// Package layers runs honest work beside one bad peer of each kind in turn, and compares the
// throughput of the honest peers with that without the bad peer.
//
//	honest clients ---work---> server <---bad peer
//
// A Load is honest work that runs until it is closed. It checks that no data is lost or changed,
// and that no honest peer ends. A Bad is a kind of bad peer. It knows only what any peer can know.
// It does a bounded number of actions per second, so that it does not merely use up the processor.
// Windows with and without the bad peer alternate.
//
// A Load's methods but Close may be called by any goroutine.
package layers
