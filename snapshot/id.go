package snapshot

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// An ID is the BLAKE3 digest of an object's content.
type ID [32]byte

func sum(data []byte) ID { return blake3.Sum256(data) }

// String returns the id as a digest, in the form of driver.DigestBytes.
func (id ID) String() string { return driver.DigestPrefix + hex.EncodeToString(id[:]) }

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID parses a digest.
func ParseID(s string) (ID, error) {
	var id ID
	if !driver.ValidDigest(s) {
		return id, fmt.Errorf("snapshot: digest %q: %w: a digest is %q and 64 hex digits", s, fault.InvalidArgument, driver.DigestPrefix)
	}
	hex.Decode(id[:], []byte(s[len(driver.DigestPrefix):])) //nolint:errcheck // it was validated
	return id, nil
}

// MarshalText and UnmarshalText write an id as a digest, and the zero id as "".
func (id ID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText is the inverse of MarshalText.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = ID{}
		return nil
	}
	got, err := ParseID(string(text))
	if err == nil {
		*id = got
	}
	return err
}

// corruptError reports a damaged part of the store, with the cause
// fault.CauseCorrupt.
func corruptError(format string, args ...any) error {
	err := fmt.Errorf("snapshot: "+format+": %w", append(args, fault.Failed)...)
	return fault.WithCause(err, fault.CauseCorrupt)
}
