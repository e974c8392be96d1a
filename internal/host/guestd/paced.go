package guestd

import (
	"bytes"
	"io"

	"github.com/croft-run/croft/internal/host/guestproto/guestpb"
	"github.com/croft-run/croft/workspace/driver"
)

// pacedStreams connect a session to the host chunk by chunk: output waits in a pipe until
// the host reads it with Next, so a slow host slows the process down (flow control), and
// standard input arrives with Write. After the client disconnects, output goes only to the
// log.
type pacedStreams struct {
	client  string
	readers map[driver.Stream]*io.PipeReader
	writers []*io.PipeWriter
	stdin   *io.PipeWriter // nil unless Command.StdinMore
}

// newPacedStreams connects a command to streams, as the host asks for.
func newPacedStreams(pb *guestpb.Command, cmd *driver.Command) *pacedStreams {
	p := &pacedStreams{client: pb.Client, readers: map[driver.Stream]*io.PipeReader{}}
	if len(pb.Stdin) > 0 {
		cmd.Stdin = bytes.NewReader(pb.Stdin)
	}
	if pb.StdinMore { // by Write
		r, w := io.Pipe()
		cmd.Stdin, p.stdin = io.MultiReader(bytes.NewReader(pb.Stdin), r), w
	}
	if pb.PullStdout {
		cmd.OnStdout = p.pacedCallback(driver.Stdout)
	}
	if pb.PullStderr {
		cmd.OnStderr = p.pacedCallback(driver.Stderr)
	}
	return p
}

// pacedCallback returns an output callback that blocks until the host has read the data
// or the client has disconnected.
func (p *pacedStreams) pacedCallback(stream driver.Stream) func([]byte) error {
	r, w := io.Pipe()
	p.readers[stream], p.writers = r, append(p.writers, w)
	return func(data []byte) error {
		w.Write(data) //nolint:errcheck // the log has what the client does not take
		return nil
	}
}

// readOutput waits for output.
func (p *pacedStreams) readOutput(stream driver.Stream, limit int64) (data []byte, eof bool) {
	r := p.readers[stream]
	if r == nil {
		return nil, true
	}
	const most = 64 << 10
	buf := make([]byte, min(max(limit, 1), most))
	n, err := r.Read(buf)
	return buf[:n], err != nil
}

// discardOutput unblocks the process after its client has disconnected.
func (p *pacedStreams) discardOutput() {
	for _, r := range p.readers {
		r.Close() //nolint:errcheck // it always answers nil
	}
}

// closeAll ends output, which the host has read, and input.
func (p *pacedStreams) closeAll() {
	for _, w := range p.writers {
		w.Close() //nolint:errcheck // it always answers nil
	}
	if p.stdin != nil {
		p.stdin.CloseWithError(io.ErrClosedPipe) // it always answers nil
	}
}
