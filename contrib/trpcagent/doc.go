// Package trpcagent lets agents of trpc-agent-go work in Croft's workspaces: an
// Executor is its code executor, engine and interactive runner on top of any
// provider.
//
//	exec, err := trpcagent.NewSandbox()
//	defer exec.Close(ctx)
//	agent := llmagent.New("coder", llmagent.WithCodeExecutor(exec))
//
// A program that used its local executor changes that one line, and gets what the
// provider enforces: paths that don't leave, time-outs and kills that end whole
// trees, limits that hold or are refused, sessions whose output comes exactly once.
//
// Its wrappers (init hooks, injected environments) and its workspace registry work
// over an Executor as over any other. Artifacts are those of the service in the
// context, as trpc-agent-go puts it there.
//
// host:// inputs read only below Options.HostRoots. A model chooses the inputs of a skill,
// so the default is none.
package trpcagent
