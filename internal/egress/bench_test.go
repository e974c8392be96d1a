package egress

import (
	"io"
	"net/http"
	"testing"
)

// BenchmarkTransfer is how fast bodies of 8 MiB come through, for a tunnel that
// is passed on and for a host whose answers are scrubbed.
func BenchmarkTransfer(b *testing.B) {
	for name, u := range map[string]string{"plain": "http://plain.test/", "tunnel": "https://plain.test/", "scrubbed": "https://api.test/"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, credentialed("api.test"), nil)
			chunk := make([]byte, 64<<10)
			h := func(rw http.ResponseWriter, _ *http.Request) {
				for range 128 {
					_, _ = rw.Write(chunk)
				}
			}
			w.host("api.test", addrA, h)
			w.host("plain.test", addrB, h)
			c := w.client()
			b.SetBytes(8 << 20)
			for b.Loop() {
				resp, err := c.Get(u)
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, resp.Body); n != 8<<20 || err != nil {
					b.Fatal(n, err)
				}
				resp.Body.Close()
			}
		})
	}
}
