package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/internal/tail"
)

// A podStream is the standard input and output of a process in a pod, through the API server.
type podStream struct {
	in     *io.PipeWriter
	out    *io.PipeReader
	end    context.CancelFunc
	done   chan struct{} // closed when the stream has ended
	stderr tail.Buffer

	mu  sync.Mutex
	err error // why it ended
}

// attachPod attaches to the first process of a pod's container.
func (p *Provider) attachPod(ctx context.Context, pod string) (*podStream, error) {
	return p.openStream(ctx, pod, "attach", &corev1.PodAttachOptions{Container: containerName, Stdin: true, Stdout: true})
}

// execInPod starts a further process in a pod's container.
func (p *Provider) execInPod(ctx context.Context, pod string, argv ...string) (*podStream, error) {
	return p.openStream(ctx, pod, "exec", &corev1.PodExecOptions{Container: containerName, Command: argv, Stdin: true, Stdout: true, Stderr: true})
}

// openStream opens a stream, which lives until Close, whatever becomes of ctx.
func (p *Provider) openStream(ctx context.Context, pod, verb string, opts runtime.Object) (*podStream, error) {
	req := p.api.RESTClient().Post().Namespace(p.cfg.Namespace).Resource("pods").Name(pod).SubResource(verb).VersionedParams(opts, scheme.ParameterCodec)
	executor, err := remotecommand.NewSPDYExecutor(p.cfg.REST, "POST", req.URL())
	if err != nil {
		return nil, apiError(verb, err)
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	s := &podStream{in: inW, out: outR, end: end, done: make(chan struct{})}
	stream := remotecommand.StreamOptions{Stdin: inR, Stdout: outW}
	if verb == "exec" {
		stream.Stderr = &s.stderr
	}
	go func() { // ends with the process, the connection, or Close
		defer close(s.done)
		err := executor.StreamWithContext(life, stream)
		s.mu.Lock()
		s.err = err
		s.mu.Unlock()
		outW.Close() //nolint:errcheck // it never fails
		inW.Close()  //nolint:errcheck // it never fails
	}()
	return s, nil
}

func (s *podStream) Read(b []byte) (int, error)  { return s.out.Read(b) }
func (s *podStream) Write(b []byte) (int, error) { return s.in.Write(b) }

// Close ends the stream, and waits for that.
func (s *podStream) Close() error {
	s.end()
	s.in.Close()                  //nolint:errcheck // it never fails
	go io.Copy(io.Discard, s.out) //nolint:errcheck // what arrives until then; it ends with the stream
	<-s.done
	return nil
}

// errNoGuest means that the process in the pod ended: there is no guest that serves.
var errNoGuest = errors.New("no guest serves in the pod")

// whyEnded closes the stream and returns why a call over it failed with err: the error of the
// API server or of the connection to it, errNoGuest if the process in the pod ended, or else
// err itself.
func (s *podStream) whyEnded(what string, err error) error {
	select {
	case <-s.done:
	case <-time.After(endPause): // it lives: the failure is one of its content
	}
	s.mu.Lock()
	ended := s.err
	s.mu.Unlock()
	s.Close() //nolint:errcheck // it returns nil
	var exit exec.ExitError
	switch {
	case errors.As(ended, &exit):
		return fmt.Errorf("kubernetes: %s: %w: %w: it exited with status %d %s", what, fault.Unavailable, errNoGuest, exit.ExitStatus(), s.stderr.String())
	case ended != nil:
		return apiError(what, ended)
	}
	return err
}

// endPause is how long the reason of an end may take to arrive after the end.
const endPause = 200 * time.Millisecond
