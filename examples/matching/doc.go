// Command matching is a layer over package btl, with a progress loop of its own: its messages have
// tags, keep their order, and are matched with receives, as those of MPI.
//
//	matching listen 127.0.0.1:4000      receives messages and prints them
//	matching send 127.0.0.1:4000        sends some
//
// layer.go is the layer, main.go is the loop around it. All of it belongs to one goroutine.
package main
