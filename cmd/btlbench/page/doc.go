// Package page makes one HTML page of the JSON reports of several runs: tables, and plots as SVG in
// the page. The page refers to nothing outside of it.
//
//	files --> Read --> Runs --> Write --> page: what ran where, then a section for each test
package page
