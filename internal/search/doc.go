// Package search decides what matches: globs, .gitignore rules and the text of
// files. It knows names and bytes, never an operating system, so the answers are
// the same wherever the files are.
//
// Three things are compiled once and then asked for every name or file: a [Glob],
// an [Ignore] and a [Query]. A [Plan] joins the first two into the rules of one
// walk, and [Hits] collects, from any number of goroutines, what Grep answers.
// [GlobFiles] and [GrepFiles] put them together over any driver.Files, one call
// at a time; a provider that has the files at hand walks faster and asks the same
// rules.
//
// # Globs
//
// "*" and "?" stay in one element, "**" spans any number of them ("a/**" is all
// below a, but not a itself), "[a-z]" is a class, "{a,b}" an alternative and "\" takes the next character as it is. Names
// that start with a dot match where that is asked for, and where an element of
// the pattern itself starts with a dot and matches.
//
// # Text
//
// A file is searched line by line: a line ends with LF or CRLF, which is not part
// of it, and ^ and $ are its ends. What is found is exactly what package regexp
// finds on each line; that most lines are never shown to it, because a text that
// every match must contain is not in them, is only faster. With Multiline the
// expression sees the whole file, with (?s) and (?m) on; behind the lines of one
// match the search goes on with the next line.
//
// # Bounds
//
// Whoever wrote the files or the pattern may be an enemy. What an answer holds is
// bounded by the constants of package driver, and the clock and the context are
// looked at in the midst of a file, of a long line and of the rules of .gitignore.
package search
