package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// idleServerMost bounds the memory of an idle MCP server.
const idleServerMost = 40 << 20

// mcpReference is the reference server for files, from npm.
const mcpReference = "mcp-server-filesystem"

// benchMCP compares croft mcp with the protocol's reference server for files: the
// same client over stdio, on the same trees.
func benchMCP(ctx context.Context, b *bench) error {
	if _, err := exec.LookPath(mcpReference); err != nil {
		return fmt.Errorf("%s (npm install --global @modelcontextprotocol/server-filesystem) is the reference: %w", mcpReference, err)
	}
	bin, err := b.buildCroft(ctx)
	if err != nil {
		return err
	}
	for _, n := range []int{200, 1_000, 10_000} {
		if err := b.mcpTree(ctx, bin, n); err != nil {
			return err
		}
	}
	return b.mcpBash(ctx, bin)
}

func (b *bench) buildCroft(ctx context.Context) (string, error) {
	dir, err := b.tempDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "croft")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin, "github.com/croft-run/croft/cmd/croft")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build croft: %w: %s", err, out)
	}
	return bin, nil
}

// An mcpClient is a client of a server that it has started: it writes a line and reads
// the line that answers it. It does not decode answers, because decoding takes a real
// client far longer than the servers need, and equally long for both.
type mcpClient struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	last int
}

// startServer starts an MCP server and initializes it.
func (b *bench) startServer(ctx context.Context, argv ...string) (*mcpClient, error) {
	c := &mcpClient{cmd: exec.CommandContext(context.WithoutCancel(ctx), argv[0], argv[1:]...)}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 1<<20)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	// Fd makes the descriptors blocking: with Go's poller the client would take as long
	// as the faster server.
	for _, end := range []any{c.in, out} {
		if f, ok := end.(interface{ Fd() uintptr }); ok {
			f.Fd()
		}
	}
	b.addCleanup(c.stop)
	_, err = c.sendRequest("initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": struct{}{}, "clientInfo": map[string]string{"name": "bench", "version": "1"},
	})
	if err == nil {
		_, err = io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	}
	return c, err
}

// stop closes the input of the server and waits for its end.
func (c *mcpClient) stop() {
	c.in.Close()
	_ = c.cmd.Wait() // how it ends is not what is measured
}

// sendRequest sends a request and returns the line that answers it.
func (c *mcpClient) sendRequest(method string, params any) ([]byte, error) {
	c.last++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.last, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	if _, err := c.in.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	answer, err := c.out.ReadSlice('\n')
	if err == nil && len(answer) < maxError && bytes.Contains(answer, []byte(`"isError":true`)) {
		err = fmt.Errorf("%s: %.300s", line, answer)
	}
	return answer, err
}

// maxError is more than the size of an error of any server. Larger answers are not
// searched, because that takes as long as reading the file.
const maxError = 8 << 10

// serveCroft starts croft mcp on a directory.
func (b *bench) serveCroft(ctx context.Context, bin, dir string) (*mcpClient, error) {
	data, err := b.tempDir()
	if err != nil {
		return nil, err
	}
	return b.startServer(ctx, bin, "mcp", "--data", filepath.Join(data, "data"), "--dir", dir, "--max-text", "1000000") // Read of 155 KB
}

// callTool calls a tool, whose answer must contain want.
func (c *mcpClient) callTool(name, want string, args map[string]any) error {
	answer, err := c.sendRequest("tools/call", map[string]any{"name": name, "arguments": args})
	if err == nil && !bytes.Contains(answer, []byte(want)) {
		err = fmt.Errorf("%s: %.300q, want %q within", name, answer, want)
	}
	return err
}

// A Read or an Edit of a small file may take smallCallBound of the reference's
// time, or smallCallMost.
const (
	smallCallBound = 1.5
	smallCallMost  = int64(2 * time.Millisecond)
)

// bigFile has 155 KB in 1,550 lines.
const bigFile = "big.txt"

// mcpTree compares reading, editing and finding in a tree of n files.
func (b *bench) mcpTree(ctx context.Context, bin string, n int) error {
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	if err := sourceTree(dir, n); err != nil {
		return err
	}
	big := strings.Repeat(strings.Repeat("lorem ipsum ", 8)+"abc\n", 1550)
	for name, text := range map[string]string{bigFile: big, "ours.txt": edited, "theirs.txt": edited} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	theirs, err := b.startServer(ctx, mcpReference, dir)
	if err != nil {
		return err
	}
	ours, err := b.serveCroft(ctx, bin, dir)
	if err != nil {
		return err
	}
	return b.mcpRows(ctx, dir, n, ours, theirs)
}

const edited = "a line before\nthe value is one\na line after\n"

func (b *bench) mcpRows(ctx context.Context, dir string, n int, ours, theirs *mcpClient) error {
	in := fmt.Sprintf(", %d files", n)
	file := filepath.Join("mod00", "pkg00", "file00007.go")
	type args = map[string]any
	read := func(name, want string) (side, side) {
		return repeatSide(func() error { return ours.callTool("Read", want, args{"file_path": name}) }),
			repeatSide(func() error {
				return theirs.callTool("read_text_file", want, args{"path": filepath.Join(dir, name)})
			})
	}
	a, t := read(file, needle)
	if err := b.compareSides(ctx, "Read"+in, mcpReference, smallCallBound, a, t); err != nil {
		return err
	}
	b.orAtMost(smallCallMost)
	if err := ours.callTool("Read", "one", args{"file_path": "ours.txt"}); err != nil {
		return err
	}
	a = alternateEdits(func(old, now string) error {
		return ours.callTool("Edit", "replaced 1", args{"file_path": "ours.txt", "old_string": old, "new_string": now})
	})
	t = alternateEdits(func(old, now string) error {
		return theirs.callTool("edit_file", now, args{"path": filepath.Join(dir, "theirs.txt"), "edits": []args{{"oldText": old, "newText": now}}})
	})
	if err := b.compareSides(ctx, "Edit"+in, mcpReference, smallCallBound, a, t); err != nil {
		return err
	}
	b.orAtMost(smallCallMost)
	a, t = read(bigFile, "lorem")
	if err := b.compareSides(ctx, "Read of 155 KB"+in, mcpReference, 1, a, t); err != nil {
		return err
	}
	bound := 0.0
	if n == 10_000 {
		bound = 1.0 / 10
	}
	return b.compareSides(ctx, "Glob"+in, mcpReference, bound,
		repeatSide(func() error {
			return ours.callTool("Glob", "file00107.go", args{"pattern": "**/*07.go", "limit": n})
		}),
		repeatSide(func() error {
			return theirs.callTool("search_files", "file00107.go", args{"path": dir, "pattern": "**/*07.go"})
		}))
}

// alternateEdits changes a text back and forth.
func alternateEdits(edit func(old, now string) error) side {
	old, now := "is one", "is two"
	return repeatSide(func() error {
		err := edit(old, now)
		old, now = now, old
		return err
	})
}

// mcpBash compares a command in the sandbox with a shell alone, and measures the memory
// of the server afterwards.
func (b *bench) mcpBash(ctx context.Context, bin string) error {
	dir, err := b.tempDir()
	if err != nil {
		return err
	}
	ours, err := b.serveCroft(ctx, bin, dir)
	if err != nil {
		return err
	}
	sandboxed := repeatSide(func() error { return ours.callTool("Bash", "", map[string]any{"command": "true"}) })
	plain := repeatSide(func() error { return exec.CommandContext(ctx, "bash", "-c", "true").Run() })
	if err := b.compareSides(ctx, "Bash true in the sandbox", "bash -c true", 2.5, sandboxed, plain); err != nil {
		return err
	}
	return b.mcpMemory(ctx, bin, dir)
}

// mcpMemory measures servers after tools/list and one command.
func (b *bench) mcpMemory(ctx context.Context, bin, dir string) error {
	var anon []int64
	for range 5 {
		c, err := b.serveCroft(ctx, bin, dir)
		if err != nil {
			return err
		}
		if _, err := c.sendRequest("tools/list", struct{}{}); err != nil {
			return err
		}
		if err := c.callTool("Bash", "", map[string]any{"command": "true"}); err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // until it is idle
		held, _, err := processMemory(strconv.Itoa(c.cmd.Process.Pid))
		if err != nil {
			return err
		}
		anon = append(anon, held)
	}
	row := Row{Family: b.family, Name: "idle server, RssAnon", OursNS: medianBytes(anon), Ref: "what we promise", RefNS: idleServerMost,
		N: len(anon), Unit: bytesUnit, Most: idleServerMost}
	row.Ratio = float64(row.OursNS) / float64(row.RefNS)
	b.addRow(row)
	return nil
}
