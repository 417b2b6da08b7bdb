// Package readme follows the instructions of the README and of docs/how-to/installing.md, as a new
// user would. The tests run the commands of each way of installing in a separate module, and build
// and run the two programs of the section "Hello".
package readme
