package filestore

import (
	"cmp"
	"encoding/hex"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// maxNamespace keeps the keys of objects below the limits of buckets.
const maxNamespace = 200

// namespaceOf returns the namespace of spec, or the one derived from its session.
// explicit is true for the former.
func namespaceOf(spec driver.Spec) (ns string, explicit bool, err error) {
	var config struct {
		Namespace *string `json:"namespace"`
	}
	if err := driver.DecodeConfig(spec, &config); err != nil {
		return "", false, err
	}
	if config.Namespace != nil {
		if !validNamespace(*config.Namespace) {
			return "", false, fmt.Errorf("filestore: config: namespace %q: %w: a namespace is a letter followed by letters, digits and underscores, at most %d characters",
				*config.Namespace, fault.InvalidArgument, maxNamespace)
		}
		return *config.Namespace, true, nil
	}
	return encodeNamespace(cmp.Or(spec.Session.ID, spec.ID)), false, nil
}

// encodeNamespace converts a session id to a namespace. An invalid one becomes
// hexadecimal, so different ids stay different.
func encodeNamespace(session string) string {
	if validNamespace(session) {
		return session
	}
	encoded := "s_" + hex.EncodeToString([]byte(session))
	if len(encoded) > maxNamespace {
		// The prefix of keys need not be unique; the id of the workspace is.
		encoded = encoded[:maxNamespace]
	}
	return encoded
}

func validNamespace(s string) bool {
	if len(s) == 0 || len(s) > maxNamespace {
		return false
	}
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return true
}
