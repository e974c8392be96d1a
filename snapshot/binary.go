package snapshot

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1" // git object names
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/croft-run/croft/workspace/driver"
)

// maxBinary is the maximum size of a file whose content is put into a binary patch.
const maxBinary = 32 << 20

// fillBinaryPatch sets c.Patch for a file that is not compared as text. A file
// larger than maxBinary gets no patch.
func (d *treeDiff) fillBinaryPatch(ctx context.Context, c *FileChange) error {
	if !d.opts.Binary || slices.ContainsFunc([]*Side{c.Old, c.New}, func(s *Side) bool { return s != nil && s.Size > maxBinary }) {
		return nil
	}
	old, err := d.readSide(ctx, d.a, c.Path, c.Old)
	if err != nil {
		return err
	}
	now, err := d.readSide(ctx, d.b, c.Path, c.New)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "index %s..%s\nGIT binary patch\n", gitName(c.Old, old), gitName(c.New, now))
	writeBinaryLiteral(&b, now) // forward, then reverse
	writeBinaryLiteral(&b, old)
	c.Patch = b.String()
	return nil
}

// readSide reads the raw content of a side.
func (d *treeDiff) readSide(ctx context.Context, t Tree, name string, s *Side) ([]byte, error) {
	switch {
	case s == nil:
		return nil, nil
	case s.Type == driver.TypeSymlink:
		return []byte(s.Target), nil
	}
	return readFile(ctx, t, name, maxBinary)
}

// gitName is git's object name of a blob; zeros for a missing side.
func gitName(s *Side, data []byte) string {
	if s == nil {
		return strings.Repeat("0", 2*sha1.Size)
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return hex.EncodeToString(h.Sum(nil))
}

// writeBinaryLiteral writes a literal hunk of git's binary patch format:
// zlib-deflated data in lines of at most 52 bytes, each with a length letter and
// base 85 digits.
func writeBinaryLiteral(b *strings.Builder, data []byte) {
	var deflated bytes.Buffer
	w := zlib.NewWriter(&deflated)
	w.Write(data) //nolint:errcheck // to memory
	w.Close()     //nolint:errcheck // to memory
	fmt.Fprintf(b, "literal %d\n", len(data))
	const most = 52
	for deflated.Len() > 0 {
		line := deflated.Next(most)
		if n := byte(len(line)); n <= 26 {
			b.WriteByte('A' + n - 1)
		} else {
			b.WriteByte('a' + n - 27)
		}
		base85(b, line)
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

const digits85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// base85 writes five digits per four bytes, zero-padded.
func base85(b *strings.Builder, data []byte) {
	for ; len(data) > 0; data = data[min(4, len(data)):] {
		var v uint32
		for i := range 4 {
			v <<= 8
			if i < len(data) {
				v |= uint32(data[i])
			}
		}
		var five [5]byte
		for i := range five {
			five[4-i] = digits85[v%85]
			v /= 85
		}
		b.Write(five[:])
	}
}
