package filestore

import (
	"cmp"
	"encoding/hex"
	"fmt"

	"github.com/croft-run/croft/fault"
	"github.com/croft-run/croft/workspace/driver"
)

// maxNamespace keeps the keys of objects well below what buckets allow.
const maxNamespace = 200

// namespaceOf is the namespace that spec asks for, or the one that follows from
// its session. explicit says which of the two it is.
func namespaceOf(spec driver.Spec) (ns string, explicit bool, err error) {
	var config struct {
		Namespace *string `json:"namespace"`
	}
	if err := driver.DecodeConfig(spec, &config); err != nil {
		return "", false, err
	}
	if config.Namespace != nil {
		if !validNamespace(*config.Namespace) {
			return "", false, fmt.Errorf("filestore: config: namespace %q: %w: it is a letter followed by letters, digits and underscores, at most %d in all",
				*config.Namespace, fault.InvalidArgument, maxNamespace)
		}
		return *config.Namespace, true, nil
	}
	return encodeNamespace(cmp.Or(spec.Session.ID, spec.ID)), false, nil
}

// encodeNamespace returns a session id as a namespace. One that is not valid as
// it is becomes hexadecimal, which keeps different ids different.
func encodeNamespace(session string) string {
	if validNamespace(session) {
		return session
	}
	encoded := "s_" + hex.EncodeToString([]byte(session))
	if len(encoded) > maxNamespace {
		// The prefix of keys need not tell such sessions apart, the workspace's id does.
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
