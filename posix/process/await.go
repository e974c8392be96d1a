package process

import (
	"context"
	"errors"
)

// An Await is a word that lets a command start which has a Before. Where there is one,
// the child may be made before the word is there, and wait for it by itself: making one
// takes a good part of the time that a short command does.
type Await struct {
	FD   int    // a socket, of which nobody else reads meanwhile
	Word []byte // what must come over it, of at most 8 bytes; it is left to be read by Before
}

// awaitKey is the key of a context for an Await.
type awaitKey struct{}

// Awaiting makes the next command that is run with ctx, whose Before reads the word,
// start as soon as that comes. Where the system can't do so, or the word is late, Before
// is called first, as for any other.
func Awaiting(ctx context.Context, a Await) context.Context {
	return context.WithValue(ctx, awaitKey{}, &a)
}

func awaitOf(ctx context.Context) *Await {
	a, _ := ctx.Value(awaitKey{}).(*Await)
	return a
}

// ErrNoWord is that a child was not started because the word did not come in time, or is
// not the one, or because none can wait for it here.
var ErrNoWord = errors.New("process: there is no word to start yet")
