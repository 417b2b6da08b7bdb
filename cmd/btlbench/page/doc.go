// Package page makes one HTML page from the JSON reports of several runs, with tables, and plots as
// SVG in the page. The page refers to no other files.
//
//	files --> Read --> Runs --> Write --> page: what ran where, then a section for each test
package page
