// Package search implements globs, .gitignore rules and text search, independent of
// where the files are.
//
// Three things are compiled once and then used for every name or file: a [Glob], an
// [Ignore] and a [Query]. A [Plan] joins the first two into the rules of one walk,
// and [Hits] collects the results of a Grep from any number of goroutines.
// [GlobFiles] and [GrepFiles] combine them over any driver.Files, sequentially; a
// provider with direct access to the files walks faster with the same rules.
//
// # Globs
//
// "*" and "?" match within one element, "**" spans any number of elements ("a/**"
// is all below a, but not a itself), "[a-z]" is a class, "{a,b}" an alternative and
// "\" escapes the next character. Names that start with a dot match if that is
// requested, or if an element of the pattern itself starts with a dot and matches.
//
// # Text
//
// A file is searched line by line: a line ends with LF or CRLF, which is not part
// of it, and ^ and $ are its ends. The results are exactly those of package regexp
// on each line. As an optimisation, only lines that contain a literal which every
// match must contain are passed to it. With Multiline the expression is matched
// against the whole file, with (?s) and (?m) on; the search continues after the
// last line of a match.
//
// # Bounds
//
// Files and patterns are untrusted. The constants of package driver bound the size
// of a result, and the deadline and the context are checked within a file, within a
// long line and within the rules of .gitignore.
package search
