package driver

import "context"

type progressKey struct{}

// WithProgress returns a context under which whoever does long work tells f now
// and then how far it is. f is called from many goroutines, and returns at once.
func WithProgress(ctx context.Context, f func(files, bytes int64)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// Progress returns the function that wants to know how far work under ctx is, nil
// where nobody does.
func Progress(ctx context.Context) func(files, bytes int64) {
	f, _ := ctx.Value(progressKey{}).(func(files, bytes int64))
	return f
}
