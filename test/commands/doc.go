// Package commands tests the common features of all programs of cmd/: --version, --format, shell
// completion, manual pages, and the pages of the reference, which are made from their flags:
//
//	go test ./test/commands -run TestReference -rewrite
package commands
