// Package readme follows the instructions of the README and of docs/how-to/installing.md, as a new
// user would. In modules of their own beside the tree it runs the commands of each way of
// installing, and with each of them it builds and runs the two programs of the section "Hello".
package readme
