// Package commands tests features that all programs of cmd/ have: --version, --format, shell
// completion, manual pages, and the reference pages, which are made from the flags:
//
//	go test ./test/commands -run TestReference -rewrite
package commands
