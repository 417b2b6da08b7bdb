// Package readme does what the README and docs/how-to/installing.md say, as a stranger would. In
// modules of their own beside the tree it runs the commands of each way of installing, and with
// each of them it builds and runs the two programs of the section "Hello".
package readme
