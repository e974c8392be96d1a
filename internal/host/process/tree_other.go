//go:build !linux

package process

func defaultTree() Tree { return Group{} }
