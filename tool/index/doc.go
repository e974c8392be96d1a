// Package index finds code by what it is about: search_code.
//
// An [Index] holds the declarations of a workspace's source files (symbol,
// signature, the comment at it, file and line) in an inverted index, and ranks
// them by BM25. Words are split as programmers build them: "parseHTTPRequest" is
// found by parse, http, request, and by its whole.
//
// Declarations are found by a scanner of lines that knows strings, comments and
// braces, not by a parser: it is ten times as fast, needs no file to be free of
// errors, and a declaration that it misses costs a hit, never a file. What edits
// files (package ast) parses.
//
// # Freshness
//
// The first search reads all files that .gitignore does not leave out. From then
// on a watch tells what changed, and only that is read again; where the provider
// can't watch, each search compares times and sizes first. Before hits are shown
// their files are looked at once more, so that no hit tells of what is gone.
//
// # Bounds
//
// Files, their size, declarations and the lengths of texts are bounded by the
// constants of this package; an answer says when something was left out.
package index

// Bounds of one Index.
const (
	MaxFiles     = 200_000
	MaxFileSize  = 2 << 20 // larger ones are not read
	MaxUnits     = 1_000_000
	maxSignature = 200 // bytes
	maxDoc       = 200
)
