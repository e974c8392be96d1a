// Package nested is a module of its own.
package nested

type pipe string

type state string

type lessor string

func openPipe(fn func(still int)) {}
