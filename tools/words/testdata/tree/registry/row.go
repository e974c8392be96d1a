// Package registry stores leases.
package registry

const (
	// first is who came first.
	first = 1
	held  = 2
)

type lessor interface {
	Quiet(held int)
}

type pipe int

type state int

/*
Place is told a name,
and there is none.
*/
func Place() {}
