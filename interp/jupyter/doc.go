// Package jupyter runs code in Jupyter kernels inside a workspace: the Code module
// of any workspace that has a shell.
//
//	kernels := jupyter.New(ws.Shell, nil)
//	defer kernels.Close(ctx)
//	ws.Code = kernels.Module()
//
// A context is a kernel: a process that keeps the state of what it ran, with
// outputs that are more than text. Any kernel that is installed where the
// workspace's commands run can be used; Python's is ipykernel (Debian's
// python3-ipykernel). Where there is none, the error says what to install.
//
// # How it is reached
//
// A kernel listens on sockets. Inside a fence without a network nobody outside can
// reach them, and that is as it should be: so a small program, bridge.py, is
// started as a session of the workspace. It starts the kernel with sockets that
// are files of the fence's own, and relays requests and outputs as lines of JSON
// over its standard input and output. All of it runs under the workspace's
// policy, is counted by its limits, and ends with it. What the bridge says is
// what code inside may have made it say: it is bounded and parsed as data.
//
// # How long a kernel lives
//
// Until its context is deleted, the workspace is closed, or nothing was run in it
// for [Options.Idle]. Code without a context gets a kernel of its own, which ends
// with it. A kernel that dies while it runs code is started again, without its
// state, and the result says so (cause lost).
package jupyter
