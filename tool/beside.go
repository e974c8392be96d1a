package tool

import (
	"sync/atomic"

	"github.com/croft-run/croft/workspace/driver"
)

// A sum is the digest of a text. That of a large one is made while its call does
// something else, by somebody who is woken while the text is still being read: to
// wake takes about as long as that.
type sum struct {
	given  chan struct{} // closed when data is there, or nobody wants the digest; nil where nobody is woken
	data   []byte
	over   bool          // given is closed; for the call alone
	taken  atomic.Bool   // somebody makes it
	made   chan struct{} // closed when it was made beside the call; nil where it is not
	digest string
}

// digestBeside begins to make the digest of a text of about so many bytes. One that
// is begun has an end.
func (e *Env) digestBeside(size int64) *sum {
	s := new(sum)
	if size >= largeText {
		s.given, s.made = make(chan struct{}), make(chan struct{})
		e.beside.Go(s.make)
	}
	return s
}

// give says what the text is, which must stay as it is until the end.
func (s *sum) give(data []byte) {
	s.data, s.over = data, true
	if s.given != nil {
		close(s.given)
	}
}

func (s *sum) make() {
	<-s.given
	if s.taken.CompareAndSwap(false, true) {
		s.digest = driver.DigestBytes(s.data)
		close(s.made)
	}
}

// get returns the digest of the text that was given. Where nobody has begun to make
// it, since all processors are busy, it is made here. It is for one goroutine, which
// may call it again.
func (s *sum) get() string {
	switch {
	case s.taken.CompareAndSwap(false, true):
		s.digest, s.made = driver.DigestBytes(s.data), nil
	case s.made != nil:
		<-s.made
	}
	return s.digest
}

// end returns when nobody looks at the text any more.
func (s *sum) end() {
	switch {
	case !s.over && s.given != nil: // there is none
		s.taken.Store(true)
		close(s.given)
	case !s.taken.CompareAndSwap(false, true) && s.made != nil:
		<-s.made
	}
}
