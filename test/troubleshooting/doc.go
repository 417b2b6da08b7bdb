// Package troubleshooting causes each error of docs/how-to/troubleshooting.md, with programs and
// nodes over real sockets, and compares the messages. For a message that needs its own lab, the
// package checks that the test of that lab exists and names the error.
package troubleshooting
