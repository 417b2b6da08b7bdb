// Package troubleshooting provokes each message of docs/how-to/troubleshooting.md, with programs
// and nodes over real sockets, and compares the words. A message that needs a lab of its own is
// provoked by the test beside that lab. Package troubleshooting then checks that this test exists
// and names the error.
package troubleshooting
