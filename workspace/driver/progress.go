package driver

import "context"

type progressKey struct{}

// WithProgress returns a context under which long operations report their progress to
// f. f is called from many goroutines and must return at once.
func WithProgress(ctx context.Context, f func(files, bytes int64)) context.Context {
	return context.WithValue(ctx, progressKey{}, f)
}

// Progress returns the function of WithProgress, or nil.
func Progress(ctx context.Context) func(files, bytes int64) {
	f, _ := ctx.Value(progressKey{}).(func(files, bytes int64))
	return f
}
