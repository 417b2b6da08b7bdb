// Package spare keeps unused memory for reuse, up to a bound. A Memory keeps the memory of large
// messages, and a List keeps values of one type.
//
//	Take --> in use --Give--> idle, the latest last --> Take
//	                            \
//	                             +--> dropped, if too much is idle
//
// A Memory drops its oldest idle memory above BytesMax bytes. A List drops the value that is given
// to it if it has ListMax idle values.
//
// A Memory and a List are not safe for concurrent use.
package spare
