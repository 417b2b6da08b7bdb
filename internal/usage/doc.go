// Package usage extends the command-line parser kong for all programs of this module. Package usage
// adds to kong command-line values with their exact bytes, sizes such as 64K, clearer error texts,
// and the flags --version, --completion and --man, which every program has (type Own). Package
// usage generates manual pages, shell completions and the reference manual from kong's description
// of the flags.
//
//	kong's text     --> --size: expected value value but got "-1" (short flag); perhaps ...
//	this package's  --> --size must not be negative: -1
//
// The functions of package usage are safe for concurrent use.
package usage
