// Package index searches the declarations of a workspace by words, for the tool
// search_code.
//
// An [Index] holds the declarations of a workspace's source files (symbol, signature,
// comment, file and line) in an inverted index, ranked by BM25. Identifiers are split into
// words: "parseHTTPRequest" is found by parse, http, request, and as a whole. Words are
// stemmed: "parser" is found by parsing. Declarations of tests and examples rank lower, and
// so do constants, variables and macros.
//
// Declarations are found by a line scanner that knows strings, comments and braces, not by
// a parser: it is ten times as fast, tolerates syntax errors, and a missed declaration
// costs only a search hit. Package ast, which edits files, parses.
//
// # Freshness
//
// The first search reads all files that .gitignore does not exclude. After that a file
// watch reports changes, and only changed files are read again; if the provider can't
// watch, each search compares times and sizes first. The files of hits are checked again
// before hits are returned.
//
// # Bounds
//
// Files, their size, declarations and text lengths are bounded by the constants of this
// package; an answer says if something was left out.
package index

// Bounds of one Index.
const (
	MaxFiles     = 200_000
	MaxFileSize  = 2 << 20 // larger ones are not read
	MaxUnits     = 1_000_000
	maxSignature = 200 // bytes
	maxDoc       = 200
)
