// Package layers runs honest programs beside one malicious peer of each kind in turn, and compares
// their throughput with the throughput without that peer.
//
//	honest clients ---work---> server <---bad peer
//
// A Load is an honest program that runs until it is closed. Each Load checks that no data is lost
// or changed, and that no honest peer ends. A Bad is a kind of malicious peer, which knows only
// what any peer can know. The number of its actions per second is limited, so that it does not just
// use up the CPU. Measurements with and without the malicious peer alternate.
//
// Any goroutine may call the methods of a Load, except Close.
package layers
