package tool

import (
	"sync/atomic"

	"github.com/croft-run/croft/workspace/driver"
)

// A sum is the digest of a text. That of a large one is made while its call does
// something else.
type sum struct {
	data   []byte
	taken  atomic.Bool   // somebody makes it
	made   chan struct{} // closed when it was made beside the call; nil where it is not
	digest string
}

// digestBeside begins to make the digest of a text, which must stay as it is until
// get was called.
func (e *Env) digestBeside(data []byte) *sum {
	s := &sum{data: data}
	if len(data) >= largeText {
		s.made = make(chan struct{})
		e.beside.Go(s.make)
	}
	return s
}

func (s *sum) make() {
	if s.taken.CompareAndSwap(false, true) {
		s.digest = driver.DigestBytes(s.data)
		close(s.made)
	}
}

// get returns the digest. Where nobody has begun to make it, since all processors
// are busy, it is made here. It is for one goroutine, which may call it again.
func (s *sum) get() string {
	switch {
	case s.taken.CompareAndSwap(false, true):
		s.digest, s.made = driver.DigestBytes(s.data), nil
	case s.made != nil:
		<-s.made
	}
	return s.digest
}
