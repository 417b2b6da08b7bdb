// Package commands tests what all programs of cmd/ have alike: --version, --format, shell
// completion, manual pages, and the pages of the reference, which are made from their flags:
//
//	go test ./test/commands -run TestReference -rewrite
package commands
