package secret_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/croft-run/croft/secret"
)

func TestHasPrivateKey(t *testing.T) {
	pem := "-----BEGIN PRIVATE KEY-----\nMIIEvQ==\n-----END PRIVATE KEY-----\n"                                                  //nolint:gosec // no key
	long := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat(strings.Repeat("Ab1+", 16)+"\n", 3) + "-----END PRIVATE KEY-----\n" //nolint:gosec // no key
	rsa := strings.ReplaceAll(strings.Replace(long, "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00AA\n\n", 1), "PRIVATE", "RSA PRIVATE")
	age := "AGE-SECRET-KEY-1" + strings.Repeat("Q", 58) + "\n"
	wg := "[Interface]\nAddress = 10.0.0.1/24\nPrivateKey = " + strings.Repeat("a", 43) + "=\n\n[Peer]\nPublicKey = x\n"
	for text, want := range map[string]bool{
		"The key of Bob's server (prod):\n" + long: true, "Key: 1\r\n\r\n" + strings.ReplaceAll(long, "\n", "\r\n") + "\r\nend": true, "Private-Key: (2048 bit)\nmodulus:\n    00:aa\n" + rsa: true,
		age: true, "# created: 2024\n# public key: age1x\n" + age: true, wg: true, "# home\n" + wg: true, strings.Replace(wg, "[Interface]", "[WireGuard]", 1): true,
		utf16Of(pem, false, true): true, utf16Of(pem, true, true): true, utf16Of(pem, false, false): true, utf16Of("My key\n"+long, false, true): true, utf16Of("words", false, true): false,
		"# How to\n\n```\n" + long + "```\n": false, "KEY = \"\"\"\n" + long + "\"\"\"\n": false, "cat <<EOF\n" + long + "EOF\n": false, "tls.key: |\n  " + strings.ReplaceAll(long, "\n", "\n  "): false,
		"const k = `" + age + "`": false, "An AGE-SECRET-KEY-1 is a line": false, "```\n" + wg + "```\n": false, "[Interface]\nPrivateKey = <yours>\n": false,
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

// utf16Of returns a text in UTF-16.
func utf16Of(text string, big, mark bool) string {
	if mark {
		text = "\ufeff" + text
	}
	var out []byte
	for _, unit := range utf16.Encode([]rune(text)) {
		if big {
			out = binary.BigEndian.AppendUint16(out, unit)
		} else {
			out = binary.LittleEndian.AppendUint16(out, unit)
		}
	}
	return string(out)
}
