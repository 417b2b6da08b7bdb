// Command store keeps values in three processes, its members, and works while one of them is gone:
// store serve METRICS OWN OTHER OTHER, store put A B C KEY VALUE, store get A B C KEY.
//
//	put -> two of three members       a member that starts: a stream <- all values of each other one
//	get <- two of three members, of which one has the newest value
//
// A lock guards the values, and handlers run on goroutines of their own.
package main
