// Package jupyter runs code in Jupyter kernels inside a workspace: the Code module of
// any workspace that has a shell.
//
//	kernels := jupyter.New(ws.Shell, nil)
//	defer kernels.Close(ctx)
//	ws.Code = kernels.Module()
//
// A context is a Jupyter kernel: a process that keeps state between runs and has rich
// outputs. Any kernel that is installed where the workspace's commands run can be used;
// Python's is ipykernel (Debian's python3-ipykernel). If no kernel is installed, the
// error says what to install.
//
// # How it is reached
//
// A kernel listens on sockets. Croft can't reach sockets inside a sandbox without a
// network. So a small program, bridge.py, is started as a session of the workspace. It
// starts the kernel with Unix sockets inside the sandbox. Another one, connect.py, is a
// session that relays the bridge's own socket over its standard input and output, with
// requests and outputs as lines of JSON. All of it runs under the
// policy and limits of the workspace, and ends with the workspace. Output of the bridge
// is untrusted, because code inside can forge it: it is bounded and parsed as data.
//
// # How long a kernel lives
//
// The bridge of a context is a detached session: it lives on when the handle on the workspace is
// closed, when the workspace is paused, and when the process of Croft ends, as commands do. Its
// labels have the id and language of the context, and its log says how it is reached, so any
// later handle finds it. Code that runs while the handle is closed or the workspace is paused
// continues; its further output is not kept.
//
// A kernel ends when its context is deleted, when the workspace's processes end, or when it
// was idle for [Options.Idle], not counting pauses. Code without a context gets its own kernel,
// which ends after the run or with the handle. A kernel that dies is restarted without its state,
// and the result of the run says so (cause lost).
package jupyter
