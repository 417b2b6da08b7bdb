// Package spare keeps unused memory for reuse, up to a bound. A Memory keeps the memory of large
// messages, and a List keeps values of one type.
//
//	Take --> in use --Give--> idle, the latest last --> Take
//	                            \
//	                             +--> dropped: above BytesMax the oldest of a Memory,
//	                                           above ListMax the newest of a List
//
// Only one goroutine may use a Memory or a List.
package spare
