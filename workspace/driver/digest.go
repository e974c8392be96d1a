package driver

import (
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"

	"github.com/zeebo/blake3"
)

// DigestPrefix starts every digest: it names the hash.
const DigestPrefix = "b3:"

// NewDigest returns a hash whose sum SumDigest turns into a digest.
func NewDigest() hash.Hash { return blake3.New() }

// SumDigest returns the digest of what was written to h.
func SumDigest(h hash.Hash) string { return DigestPrefix + hex.EncodeToString(h.Sum(nil)) }

// DigestBytes returns the digest of data.
func DigestBytes(data []byte) string {
	sum := blake3.Sum256(data)
	return DigestPrefix + hex.EncodeToString(sum[:])
}

// DigestReader returns the digest of all that r yields.
func DigestReader(r io.Reader) (string, error) {
	h := NewDigest()
	if _, err := io.Copy(h, r); err != nil {
		return "", err
	}
	return SumDigest(h), nil
}

// ValidDigest reports whether s has the form of a digest.
func ValidDigest(s string) bool {
	const hexLen = 64
	if len(s) != len(DigestPrefix)+hexLen || s[:len(DigestPrefix)] != DigestPrefix {
		return false
	}
	_, err := hex.DecodeString(s[len(DigestPrefix):])
	return err == nil
}

// A TreeDigest computes the digest of a tree from the path, type and permission bits
// of each entry, the content of files and the targets of symlinks. Times and owners
// are not part of it. Entries are added parents first, siblings in byte order of
// their names, with paths relative to the root of the tree. The root itself is not
// added.
type TreeDigest struct {
	h   hash.Hash
	buf []byte // not in h yet
}

// NewTreeDigest returns the digest of an empty tree, to be added to.
func NewTreeDigest() *TreeDigest { return &TreeDigest{h: NewDigest()} }

// Reset makes it the digest of an empty tree again. A digest takes several KiB.
func (d *TreeDigest) Reset() {
	d.h.Reset()
	d.buf = d.buf[:0]
}

// Add adds an entry. content is the digest of a regular file's content.
func (d *TreeDigest) Add(path string, info Info, content string) {
	last := content
	if info.Type == TypeSymlink {
		last = info.Target
	}
	mode := uint64(info.Mode & 0o7777)
	if info.Type == TypeSymlink {
		mode = 0 // a symlink has no mode of its own
	}
	// Every part is preceded by its length, so that different trees have different
	// encodings.
	for _, part := range [...]string{path, string(info.Type), last} {
		d.buf = binary.BigEndian.AppendUint64(d.buf, uint64(len(part)))
		d.buf = append(d.buf, part...)
	}
	d.buf = binary.BigEndian.AppendUint64(d.buf, mode)
	const many = 16 << 10 // hash large blocks: small writes are slow
	if len(d.buf) >= many {
		d.flush()
	}
}

func (d *TreeDigest) flush() {
	d.h.Write(d.buf)
	d.buf = d.buf[:0]
}

// Sum returns the digest of what was added.
func (d *TreeDigest) Sum() string {
	d.flush()
	return SumDigest(d.h)
}
