package guestproto

import (
	"bytes"
	"testing"
)

func FuzzMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 'o', 'k', 'x'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		const most = 1 << 10
		got, err := ReadMessage(bytes.NewReader(data), most)
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := WriteMessage(&again, got); err != nil || len(got) > most || !bytes.HasPrefix(data, again.Bytes()) {
			t.Errorf("%q was read from %q, %v", got, data, err)
		}
	})
}
