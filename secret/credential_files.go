package secret

import (
	"bytes"
	"strings"
)

// A CredentialFile is a row of the table of files that usually hold credentials.
type CredentialFile struct {
	// Pattern is a pattern of .gitignore: "!" begins an exception from the rows above it.
	Pattern string

	// In says where the row counts.
	In Places

	// Mask is the content that a tool accepts instead, for Tools.
	Mask string
}

// Places are where a row of CredentialTable counts.
type Places int

// Projects are directories with the user's work: the names there are narrow, since a file
// that is left out may be missed. Tools are installations and homes, of which programs
// need little: their rows are plain names.
const (
	Projects Places = 1 << iota
	Tools

	everywhere = Projects | Tools
)

// CredentialTable is the one list of files that usually hold credentials: what is left out
// of copies of a project, what is masked in toolchains that are shown, and what a profile of
// sandbox-exec hides.
var CredentialTable = []CredentialFile{
	{Pattern: ".env", In: everywhere},
	{Pattern: ".env.*", In: Projects},
	{Pattern: "*.env", In: Projects},
	{Pattern: "!.env.example", In: Projects},
	{Pattern: "!.env.sample", In: Projects},
	{Pattern: "!.env.template", In: Projects},
	{Pattern: "!.env.dist", In: Projects},
	{Pattern: "!example.env", In: Projects},
	{Pattern: "!sample.env", In: Projects},
	{Pattern: "!template.env", In: Projects},
	{Pattern: "!*.example.env", In: Projects},
	{Pattern: ".dev.vars", In: Projects},

	{Pattern: ".netrc", In: everywhere},
	{Pattern: "_netrc", In: everywhere},
	{Pattern: ".git-credentials", In: everywhere},
	{Pattern: "**/.git/git-credentials", In: Projects},
	{Pattern: "**/.git/credentials", In: Projects},
	{Pattern: ".pgpass", In: everywhere},
	{Pattern: ".my.cnf", In: Projects},
	{Pattern: ".htpasswd", In: Projects},
	{Pattern: ".vault-token", In: everywhere},
	{Pattern: ".vault_pass", In: Projects},
	{Pattern: ".vault_pass.txt", In: Projects},
	{Pattern: "ansible-vault.pass", In: Projects},
	{Pattern: ".password-store/", In: Projects},
	{Pattern: "secret.txt", In: Projects},
	{Pattern: "secrets.txt", In: Projects},
	{Pattern: ".secrets", In: Projects},
	{Pattern: "secrets.json", In: Projects},
	{Pattern: "secrets.yml", In: Projects},
	{Pattern: "secrets.yaml", In: Projects},
	{Pattern: "secrets.toml", In: Projects},
	{Pattern: "token", In: Projects},
	{Pattern: "!token/", In: Projects}, // a package of that name
	{Pattern: ".croft/token", In: Projects},

	{Pattern: "id_rsa", In: everywhere},
	{Pattern: "id_dsa", In: everywhere},
	{Pattern: "id_ecdsa", In: everywhere},
	{Pattern: "id_ecdsa_sk", In: Projects},
	{Pattern: "id_ed25519", In: everywhere},
	{Pattern: "id_ed25519_sk", In: Projects},
	{Pattern: "deploy_key", In: Projects},
	{Pattern: "*.key", In: Projects},
	{Pattern: "*-key.pem", In: Projects},
	{Pattern: "*.key.pem", In: Projects},
	{Pattern: "key.pem", In: Projects},
	{Pattern: "privkey.pem", In: Projects},
	{Pattern: "server.pem", In: Projects},
	{Pattern: "*.p12", In: Projects},
	{Pattern: "*.pfx", In: Projects},
	{Pattern: "*.ppk", In: Projects},
	{Pattern: "*.jks", In: Projects},
	{Pattern: "*.keystore", In: Projects},
	{Pattern: "*.kdbx", In: Projects},
	{Pattern: "secring.gpg", In: Projects},
	{Pattern: ".ssh/", In: everywhere},
	{Pattern: ".gnupg/", In: everywhere},

	{Pattern: ".aws/", In: Tools},
	{Pattern: ".aws/credentials", In: Projects},
	{Pattern: ".aws/config", In: Projects},
	{Pattern: ".azure/", In: everywhere},
	{Pattern: ".config/gcloud/", In: Projects},
	{Pattern: ".config/gh/hosts.yml", In: Projects},
	{Pattern: "service-account*.json", In: Projects},
	{Pattern: "service_account*.json", In: Projects},
	{Pattern: "serviceAccountKey.json", In: Projects},
	{Pattern: "gcp-key.json", In: Projects},
	{Pattern: "client_secret*.json", In: Projects},
	{Pattern: "*firebase-adminsdk*.json", In: Projects},
	{Pattern: ".boto", In: Projects},
	{Pattern: ".s3cfg", In: Projects},
	{Pattern: ".databrickscfg", In: Projects},
	{Pattern: ".snowflake/connections.toml", In: Projects},
	{Pattern: ".clasprc.json", In: Projects},
	{Pattern: "local.settings.json", In: Projects},
	{Pattern: ".streamlit/secrets.toml", In: Projects},
	{Pattern: ".terraform.d/credentials.tfrc.json", In: Projects},
	{Pattern: ".terraformrc", In: Projects},
	{Pattern: "terraform.rc", In: Projects},
	{Pattern: "terraform.tfstate", In: Projects},
	{Pattern: "terraform.tfvars", In: Projects},
	{Pattern: "*.auto.tfvars", In: Projects},

	{Pattern: ".docker/", In: Tools},
	{Pattern: ".docker/config.json", In: Projects},
	{Pattern: ".dockercfg", In: Projects},
	{Pattern: ".kube/", In: Tools},
	{Pattern: ".kube/config", In: Projects},
	{Pattern: "kubeconfig", In: Projects},
	{Pattern: "!kubeconfig/", In: Projects}, // a package of that name
	{Pattern: "kubeconfig.yaml", In: Projects},
	{Pattern: "kubeconfig.yml", In: Projects},
	{Pattern: "*.kubeconfig", In: Projects},

	{Pattern: ".npmrc", In: everywhere},
	{Pattern: "npmrc", In: Tools},
	{Pattern: ".yarnrc", In: Tools},
	{Pattern: ".yarnrc.yml", In: Tools},
	{Pattern: "bunfig.toml", In: Tools},
	{Pattern: ".bunfig.toml", In: Tools},
	{Pattern: ".pypirc", In: everywhere},
	{Pattern: "pip.conf", In: Tools},
	{Pattern: "pip.ini", In: Tools},
	{Pattern: ".condarc", In: Tools},
	{Pattern: "uv.toml", In: Tools},
	{Pattern: "credentials", In: Tools},
	{Pattern: "credentials.toml", In: Tools},
	{Pattern: "credentials.json", In: everywhere, Mask: "{}\n"},
	{Pattern: ".cargo/credentials", In: Projects},
	{Pattern: ".cargo/credentials.toml", In: Projects},
	{Pattern: ".gem/credentials", In: Projects},
	{Pattern: "settings.xml", In: Tools, Mask: "<settings/>\n"},
	{Pattern: "settings-security.xml", In: Tools, Mask: "<settingsSecurity/>\n"},
	{Pattern: ".m2/settings.xml", In: Projects},
	{Pattern: ".m2/settings-security.xml", In: Projects},
	{Pattern: "toolchains.xml", In: Tools, Mask: "<toolchains/>\n"},
	{Pattern: "gradle.properties", In: Tools},
	{Pattern: ".gradle/gradle.properties", In: Projects},
	{Pattern: "local.properties", In: Projects},
	{Pattern: "nuget.config", In: Tools, Mask: "<configuration/>\n"},
	{Pattern: "auth.json", In: Tools, Mask: "{}\n"},
	{Pattern: "/auth.json", In: Projects}, // of Composer; further down it may be a translation
	{Pattern: ".composer/auth.json", In: Projects},
	{Pattern: "wp-config.php", In: Projects},

	{Pattern: ".claude/.credentials.json", In: Projects},
	{Pattern: ".codex/auth.json", In: Projects},
	{Pattern: ".gemini/oauth_creds.json", In: Projects},
	{Pattern: ".local/share/opencode/auth.json", In: Projects},
	{Pattern: ".vscode/sftp.json", In: Projects},
	{Pattern: ".idea/dataSources.local.xml", In: Projects},
}

// CredentialFiles are the patterns, of .gitignore, of CredentialTable that count in projects.
var CredentialFiles = func() []string {
	var list []string
	for _, f := range CredentialTable {
		if f.In&Projects != 0 {
			list = append(list, f.Pattern)
		}
	}
	return list
}()

// MaxKeyFile bounds the files in which HasPrivateKey looks.
const MaxKeyFile = 64 << 10

// HasPrivateKey reports whether a file, by its content, is a private key: PEM, that of PuTTY,
// or a JSON object with one, such as the key of a service account. Source code and
// documents with a key in them do not count.
func HasPrivateKey(data []byte) bool {
	if len(data) > MaxKeyFile || !bytes.Contains(data, []byte("PRIVATE KEY-----")) && !bytes.HasPrefix(data, []byte("PuTTY-User-Key-File-")) {
		return false
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	switch {
	case strings.HasPrefix(text, "-----BEGIN "), strings.HasPrefix(text, "Bag Attributes"), strings.HasPrefix(text, "PuTTY-User-Key-File-"):
		return true
	case strings.HasPrefix(text, "{"):
		return strings.Contains(text, `"private_key"`)
	}
	return false
}
