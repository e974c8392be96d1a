package driver

import "context"

type stepKey struct{}

// WithSteps returns a context under which Step calls f. Package workspacetest
// uses it to kill a process between any two effects of Open and Destroy.
func WithSteps(ctx context.Context, f func(step string)) context.Context {
	return context.WithValue(ctx, stepKey{}, f)
}

// Step marks a point between two effects outside the process: a provider calls
// it after each one in Open, Destroy, Update and Sweep. It does nothing unless
// a test asked for it.
func Step(ctx context.Context, step string) {
	if f, ok := ctx.Value(stepKey{}).(func(string)); ok {
		f(step)
	}
}
