package secret

import "testing"

func TestIsSecretName(t *testing.T) {
	for name, want := range map[string]bool{
		"API_KEY": true, "authToken": true, "my.pass-word": true, "db-password": true, "aws_secret_access_key": true, "clientSecret": true,
		"GOOGLE_CREDENTIAL": true, "signingKey": true, "KEYBOARD": false, "TOKENIZER": false, "PRIMARY_KEY": false, "PATH": false, "": false,
	} {
		if got := IsSecretName(name); got != want {
			t.Errorf("IsSecretName(%q) = %v, want %v", name, got, want)
		}
	}
}
