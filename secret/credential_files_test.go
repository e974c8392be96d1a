package secret_test

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/secret"
)

func TestHasPrivateKey(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----\n" //nolint:gosec // no key
	for text, want := range map[string]bool{
		pem: true, "\ufeff\n" + pem: true, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n" + pem: true, strings.ReplaceAll(pem, "PRIVATE", "OPENSSH PRIVATE"): true,
		"Bag Attributes\n  friendlyName: x\n" + pem: true, "PuTTY-User-Key-File-3: ssh-rsa\n": true,
		`{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"}`: true,
		"-----BEGIN PUBLIC KEY-----\nMII\n-----END PUBLIC KEY-----\n":                                                 false, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n": false,
		"package x\n\nconst key = `" + pem + "`\n": false, "# How to make a key\n\n" + pem: false, `{"private_key": "see the vault"}`: false, "": false,
		strings.Repeat("x", secret.MaxKeyFile) + pem: false,
	} {
		if got := secret.HasPrivateKey([]byte(text)); got != want {
			t.Errorf("HasPrivateKey(%.60q) is %v, want %v", text, got, want)
		}
	}
}
