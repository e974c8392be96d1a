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

// CredentialFiles are .gitignore patterns of files that usually hold credentials.
var CredentialFiles = []string{
	".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template", "!.env.dist",
	".netrc", "_netrc", ".npmrc", ".pypirc", ".git-credentials", "**/.git/git-credentials", "**/.git/credentials", ".pgpass", ".my.cnf", ".htpasswd", ".vault-token",
	"id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk", "*.p12", "*.pfx", "*.keystore", "*.jks", "*.kdbx", "*.ppk",
	"*.key", "*-key.pem", "*.key.pem", "service-account*.json",
	".ssh/", ".aws/credentials", ".aws/config", ".azure/", ".config/gcloud/", ".config/gh/hosts.yml", ".docker/config.json",
	".kube/config", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials", ".terraform.d/credentials.tfrc.json", "terraform.tfstate",
	".croft/token",
}
