package duplex

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestBothDirections(t *testing.T) {
	a, b := Pipe()
	data := bytes.Repeat([]byte("0123456789"), bufferSize/5) // twice what the buffer holds
	go func() {
		a.Write(data)
		a.CloseWrite()
	}()
	if got, err := io.ReadAll(b); err != nil || !bytes.Equal(got, data) {
		t.Errorf("ReadAll = %d bytes, %v", len(got), err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("Write after CloseWrite: %v", err)
	}
	io.WriteString(b, "answer")
	b.Close()
	if got, err := io.ReadAll(a); err != nil || string(got) != "answer" {
		t.Errorf("ReadAll = %q, %v", got, err)
	}
	select {
	case <-a.PeerClosed():
	default:
		t.Error("PeerClosed is open after Close of the other end")
	}
	if _, err := b.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Read after Close: %v", err)
	}
}

func TestAbort(t *testing.T) {
	a, b := Pipe()
	why := errors.New("why")
	io.WriteString(a, "part")
	a.Abort(why)
	if got, err := io.ReadAll(b); string(got) != "part" || !errors.Is(err, why) {
		t.Errorf("ReadAll = %q, %v", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, why) {
		t.Errorf("Write: %v", err)
	}
}

func TestDeadlines(t *testing.T) {
	a, _ := Pipe()
	a.SetReadDeadline(time.Now().Add(time.Hour))
	go func() { // moves the deadline of a Read that waits
		time.Sleep(10 * time.Millisecond)
		a.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	}()
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Read: %v", err)
	}
	a.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := a.Write(make([]byte, 2*bufferSize)); n != bufferSize || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Write = %d, %v", n, err)
	}
	a.SetWriteDeadline(time.Time{})
	if err := a.CloseRead(); err != nil {
		t.Error(err)
	}
}
