package secret

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode/utf16"

	"github.com/croft-run/croft/internal/lazyregexp"
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
	{Pattern: "**/.croft/token", In: Projects},

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
	{Pattern: "**/.aws/credentials", In: Projects},
	{Pattern: "**/.aws/config", In: Projects},
	{Pattern: ".azure/", In: everywhere},
	{Pattern: "**/.config/gcloud/", In: Projects},
	{Pattern: "**/.config/gh/hosts.yml", In: Projects},
	{Pattern: "service-account*.json", In: Projects},
	{Pattern: "service_account*.json", In: Projects},
	{Pattern: "serviceAccountKey.json", In: Projects},
	{Pattern: "gcp-key.json", In: Projects},
	{Pattern: "client_secret*.json", In: Projects},
	{Pattern: "*firebase-adminsdk*.json", In: Projects},
	{Pattern: ".boto", In: Projects},
	{Pattern: ".s3cfg", In: Projects},
	{Pattern: ".databrickscfg", In: Projects},
	{Pattern: "**/.snowflake/connections.toml", In: Projects},
	{Pattern: ".clasprc.json", In: Projects},
	{Pattern: "local.settings.json", In: Projects},
	{Pattern: "**/.streamlit/secrets.toml", In: Projects},
	{Pattern: "**/.terraform.d/credentials.tfrc.json", In: Projects},
	{Pattern: ".terraformrc", In: Projects},
	{Pattern: "terraform.rc", In: Projects},
	{Pattern: "terraform.tfstate", In: Projects},
	{Pattern: "terraform.tfvars", In: Projects},
	{Pattern: "*.auto.tfvars", In: Projects},

	{Pattern: ".docker/", In: Tools},
	{Pattern: "**/.docker/config.json", In: Projects},
	{Pattern: ".dockercfg", In: Projects},
	{Pattern: ".kube/", In: Tools},
	{Pattern: "**/.kube/config", In: Projects},
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
	{Pattern: "**/.cargo/credentials", In: Projects},
	{Pattern: "**/.cargo/credentials.toml", In: Projects},
	{Pattern: "**/.gem/credentials", In: Projects},
	{Pattern: "settings.xml", In: Tools, Mask: "<settings/>\n"},
	{Pattern: "settings-security.xml", In: Tools, Mask: "<settingsSecurity/>\n"},
	{Pattern: "**/.m2/settings.xml", In: Projects},
	{Pattern: "**/.m2/settings-security.xml", In: Projects},
	{Pattern: "toolchains.xml", In: Tools, Mask: "<toolchains/>\n"},
	{Pattern: "gradle.properties", In: Tools},
	{Pattern: "**/.gradle/gradle.properties", In: Projects},
	{Pattern: "local.properties", In: Projects},
	{Pattern: "nuget.config", In: Tools, Mask: "<configuration/>\n"},
	{Pattern: "auth.json", In: Tools, Mask: "{}\n"},
	{Pattern: "/auth.json", In: Projects}, // of Composer; further down it may be a translation
	{Pattern: "**/.composer/auth.json", In: Projects},
	{Pattern: "wp-config.php", In: Projects},

	{Pattern: "rclone.conf", In: Projects},
	{Pattern: ".sentryclirc", In: Projects},
	{Pattern: "kaggle.json", In: Projects},
	{Pattern: "ngrok.yml", In: Projects},
	{Pattern: "clouds.yaml", In: Projects}, // of OpenStack
	{Pattern: "credentials.tfrc.json", In: Projects},
	{Pattern: "application_default_credentials.json", In: Projects},
	{Pattern: "1password-credentials.json", In: Projects},
	{Pattern: "firebase-tools.json", In: Projects},
	{Pattern: ".mylogin.cnf", In: Projects},
	{Pattern: "pgpass.conf", In: Projects},
	{Pattern: ".authinfo", In: Projects},
	{Pattern: ".msmtprc", In: Projects},
	{Pattern: ".fetchmailrc", In: Projects},
	{Pattern: ".smbcredentials", In: Projects},
	{Pattern: ".tofurc", In: Projects},
	{Pattern: ".vultr-cli.yaml", In: Projects},
	{Pattern: ".cloudflared/", In: Projects},
	{Pattern: ".jfrog/", In: Projects},
	{Pattern: "**/.config/glab-cli/config.yml", In: Projects},
	{Pattern: "**/.config/hub", In: Projects},
	{Pattern: "**/.config/github-copilot/", In: Projects},
	{Pattern: "**/.config/doctl/config.yaml", In: Projects},
	{Pattern: "**/.config/hcloud/cli.toml", In: Projects},
	{Pattern: "**/.config/scw/config.yaml", In: Projects},
	{Pattern: "**/.config/linode-cli", In: Projects},
	{Pattern: "**/.config/stripe/config.toml", In: Projects},
	{Pattern: "**/.config/netlify/config.json", In: Projects},
	{Pattern: "**/.netlify/config.json", In: Projects},
	{Pattern: "**/.config/op/config", In: Projects},
	{Pattern: "**/.op/config", In: Projects},
	{Pattern: "**/.config/containers/auth.json", In: Projects},
	{Pattern: "**/.config/helm/registry/config.json", In: Projects},
	{Pattern: "**/.config/composer/auth.json", In: Projects},
	{Pattern: "**/.config/pypoetry/auth.toml", In: Projects},
	{Pattern: "**/.wrangler/config/default.toml", In: Projects},
	{Pattern: "**/com.vercel.cli/auth.json", In: Projects},
	{Pattern: "**/.fly/config.yml", In: Projects},
	{Pattern: "**/.railway/config.json", In: Projects},
	{Pattern: "**/.supabase/access-token", In: Projects},
	{Pattern: "**/.cache/huggingface/stored_tokens", In: Projects},
	{Pattern: "**/.ansible/galaxy_token", In: Projects},
	{Pattern: "**/.aliyun/config.json", In: Projects},
	{Pattern: "**/.oci/config", In: Projects},
	{Pattern: "**/.mc/config.json", In: Projects},
	{Pattern: "**/.circleci/cli.yml", In: Projects},
	{Pattern: "**/.dbt/profiles.yml", In: Projects},

	{Pattern: "**/.claude/.credentials.json", In: Projects},
	{Pattern: "**/.codex/auth.json", In: Projects},
	{Pattern: "**/.gemini/oauth_creds.json", In: Projects},
	{Pattern: "**/.local/share/opencode/auth.json", In: Projects},
	{Pattern: "**/.vscode/sftp.json", In: Projects},
	{Pattern: "**/.idea/dataSources.local.xml", In: Projects},
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

var (
	// keyBlock is a private key with lines of its own: PEM, or of age.
	keyBlock = lazyregexp.New(`(?m)^(?:-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----\s*\n` +
		`(?:[A-Za-z0-9+/=:, \t\r-]+\n|\s*\n)*?[A-Za-z0-9+/=]{40}[A-Za-z0-9+/=\s]*` +
		`-----END [A-Z0-9 ]*PRIVATE KEY-----|AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{50,})[ \t\r]*$`)
	// wireGuardKey is the private key of a configuration of WireGuard.
	wireGuardKey = lazyregexp.New(`(?im)^[ \t]*PrivateKey[ \t]*=[ \t]*[A-Za-z0-9+/]{43}=[ \t\r]*$`)
)

// HasPrivateKey reports whether a file, by its content, is a private key: PEM, that of PuTTY, age
// or WireGuard, or a JSON object with one, such as the key of a service account. The text may be
// UTF-16, and a PEM key may have prose around it. Source code and documents with a key in them
// do not count.
func HasPrivateKey(data []byte) bool {
	if len(data) > MaxKeyFile {
		return false
	}
	data = fromUTF16(data)
	isPEM := bytes.Contains(data, []byte("PRIVATE KEY-----"))
	if !isPEM && !bytes.HasPrefix(data, []byte("PuTTY-User-Key-File-")) && !bytes.Contains(data, []byte("AGE-SECRET-KEY-")) {
		isConfig := bytes.Contains(data, []byte("[Interface]")) || bytes.Contains(data, []byte("[WireGuard]"))
		return isConfig && wireGuardKey.Match(data) && !looksLikeCode(data)
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(data), "\ufeff"))
	switch {
	case isPEM && (strings.HasPrefix(text, "-----BEGIN ") || strings.HasPrefix(text, "Bag Attributes")), strings.HasPrefix(text, "PuTTY-User-Key-File-"):
		return true
	case isPEM && strings.HasPrefix(text, "{"):
		return strings.Contains(text, `"private_key"`)
	}
	return keyBlock.MatchString(text) && !looksLikeCode([]byte(text))
}

// looksLikeCode reports whether a text has what prose around a key has not: quotes and brackets
// of source code, and the fences of Markdown.
func looksLikeCode(text []byte) bool {
	return bytes.ContainsAny(text, "`\"{};<") || bytes.Contains(text, []byte("'''"))
}

// fromUTF16 returns a text of UTF-16 as UTF-8, and any other as it is.
func fromUTF16(data []byte) []byte {
	var order binary.ByteOrder
	switch {
	case len(data) < 2:
		return data
	case data[0] == 0xff && data[1] == 0xfe, data[0] != 0 && data[1] == 0:
		order = binary.LittleEndian
	case data[0] == 0xfe && data[1] == 0xff, data[0] == 0 && data[1] != 0:
		order = binary.BigEndian
	default:
		return data
	}
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = order.Uint16(data[2*i:])
	}
	return []byte(strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff"))
}
