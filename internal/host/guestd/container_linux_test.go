package guestd

import (
	"io"
	"net"
	"path/filepath"
	"testing"
)

// TestDoorLetsThoseInWhoHaveTheToken has others at the door as well, one of whom
// says nothing.
func TestDoorLetsThoseInWhoHaveTheToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	door := newTokenListener(l, "token")
	knock := func(word string) net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, word); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	silent, wrong := knock(""), knock("wrong")
	if n, err := wrong.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a wrong token is answered with %d bytes, %v", n, err)
	}
	right := knock("tokenhello")
	conn, err := door.Accept()
	if err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 5)
	if _, err := io.ReadFull(conn, said); err != nil || string(said) != "hello" {
		t.Errorf("after the token came %q, %v", said, err)
	}
	silent.Close()
	if err := door.Close(); err != nil {
		t.Error(err)
	}
	if _, err := door.Accept(); err == nil {
		t.Error("a closed door lets someone in")
	}
	right.Close()
	conn.Close()
}

func TestWarmKeepsNoGoroutine(t *testing.T) {
	reserveThreads(8) // it would wait for ever, or leave some
	reserveThreads(0)
}
