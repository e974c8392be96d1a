package secret

import (
	"slices"
	"strings"
	"sync"
)

// secretWords are suffixes of the names of variables and keys that hold secrets.
var secretWords = []string{"SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "API_KEY", "APIKEY", "ACCESS_KEY", "SECRET_KEY", "PRIVATE_KEY",
	"AUTH_KEY", "ENCRYPTION_KEY", "SIGNING_KEY", "ACCOUNT_KEY", "SHARED_KEY", "PRESHARED_KEY", "CREDENTIAL", "CREDENTIALS"}

var withoutSeparators = strings.NewReplacer("_", "", "-", "", ".", "")

// flatWords are secretWords without separators.
var flatWords = strings.Split(withoutSeparators.Replace(strings.Join(secretWords, " ")), " ")

// IsSecretName reports whether a name denotes a secret: API_KEY, authToken.
func IsSecretName(name string) bool {
	name = strings.ToUpper(name)
	if strings.HasSuffix(name, "_PASS") || strings.HasSuffix(name, "_PWD") {
		return true
	}
	name = withoutSeparators.Replace(name)
	return slices.ContainsFunc(flatWords, func(w string) bool { return strings.HasSuffix(name, w) })
}

// Known finds secrets by the patterns of Providers.
var Known = sync.OnceValue(func() *Patterns {
	p, err := NewPatterns(Providers())
	if err != nil {
		panic(err) // the list is a constant
	}
	return p
})
