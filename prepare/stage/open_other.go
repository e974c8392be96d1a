//go:build !unix

package stage

const nonBlocking = 0
