package suite

import (
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // suites compare checksums
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // suites compare checksums
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/dop251/goja"

	"github.com/croft-run/croft/fault"
)

// hashes are the algorithms of node:crypto.
var hashes = map[string]func() hash.Hash{
	"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
}

// hashNames are the names of the algorithms, sorted.
func hashNames() []string { return slices.Sorted(maps.Keys(hashes)) }

// digestOf is the digest of data, with a key if there is one. All are base64.
func (v *vm) digestOf(algorithm, data string, key goja.Value) string {
	h := hashes[algorithm]()
	if !goja.IsNull(key) {
		secret, err := base64.StdEncoding.DecodeString(key.String())
		if err != nil {
			panic(v.toJSError(fmt.Errorf("suite: hash: %w: %w", fault.InvalidArgument, err)))
		}
		h = hmac.New(hashes[algorithm], secret)
	}
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		panic(v.toJSError(fmt.Errorf("suite: hash: %w: %w", fault.InvalidArgument, err)))
	}
	h.Write(raw)
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// randomBytes returns n random bytes as base64.
func (v *vm) randomBytes(n int) string {
	if n < 0 || n > maxRead {
		panic(v.toJSError(fmt.Errorf("suite: random bytes: %w: the size must be from 0 to %d", fault.InvalidArgument, maxRead)))
	}
	data := make([]byte, n)
	rand.Read(data)
	return base64.StdEncoding.EncodeToString(data)
}
