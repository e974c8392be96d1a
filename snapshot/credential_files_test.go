package snapshot_test

import (
	"strings"
	"testing"

	"github.com/croft-run/croft/secret"
	"github.com/croft-run/croft/snapshot"
)

// TestCredentialTable: each row that counts in projects matches, at the top and further down.
func TestCredentialTable(t *testing.T) {
	for _, f := range secret.CredentialTable {
		if f.In&secret.Projects == 0 {
			continue
		}
		pattern, exception := strings.CutPrefix(f.Pattern, "!")
		name, isDir := strings.CutSuffix(strings.ReplaceAll(strings.TrimPrefix(pattern, "**/"), "*", "x"), "/")
		name = strings.TrimPrefix(name, "/")
		if got := snapshot.IsCredentialFile(name, isDir); got == exception {
			t.Errorf("%s: IsCredentialFile(%q) is %v", f.Pattern, name, got)
		}
		if got := snapshot.IsCredentialFile("a/b/"+name, isDir); got == exception && pattern[0] != '/' && !strings.Contains(strings.Trim(pattern, "/"), "/") {
			t.Errorf("%s: IsCredentialFile(%q) is %v", f.Pattern, "a/b/"+name, got)
		}
	}
}

// TestKnownCredentialFiles: where tools keep credentials, by what they document, and what
// is none.
func TestKnownCredentialFiles(t *testing.T) {
	for _, name := range strings.Fields(`
		.env .env.local .env.production prod.env .dev.vars .netrc _netrc .npmrc .pypirc .git-credentials .pgpass .my.cnf .htpasswd .vault-token .vault_pass ansible-vault.pass
		id_rsa id_dsa id_ecdsa id_ecdsa_sk id_ed25519 id_ed25519_sk deploy_key x.key x-key.pem x.key.pem key.pem server.pem privkey.pem x.p12 x.pfx x.ppk x.jks x.keystore x.kdbx
		.ssh/config .ssh/id_x .gnupg/secring.gpg .gnupg/private-keys-v1.d/x.key .aws/credentials .aws/config .azure/accessTokens.json .config/gcloud/x.json .config/gh/hosts.yml
		service-account.json service-account-prod.json serviceAccountKey.json gcp-key.json client_secret.json client_secret_1.json firebase-adminsdk.json x-firebase-adminsdk-1.json credentials.json
		.docker/config.json .dockercfg .kube/config kubeconfig kubeconfig.yaml x.kubeconfig .cargo/credentials .cargo/credentials.toml .gem/credentials
		.terraform.d/credentials.tfrc.json .terraformrc terraform.tfstate terraform.tfvars prod.auto.tfvars .composer/auth.json auth.json .m2/settings.xml .gradle/gradle.properties local.properties
		.claude/.credentials.json .codex/auth.json .gemini/oauth_creds.json .streamlit/secrets.toml .secrets secret.txt secrets.json secrets.yml config/secrets.yml token .password-store/x.gpg
		.snowflake/connections.toml .databrickscfg .clasprc.json .boto .s3cfg wp-config.php local.settings.json .vscode/sftp.json .idea/dataSources.local.xml .croft/token
		rclone.conf .sentryclirc kaggle.json ngrok.yml clouds.yaml credentials.tfrc.json application_default_credentials.json 1password-credentials.json firebase-tools.json .mylogin.cnf pgpass.conf
		.authinfo .msmtprc .fetchmailrc .smbcredentials .tofurc .vultr-cli.yaml .cloudflared/x.json .jfrog/jfrog-cli.conf.v6 .config/glab-cli/config.yml .config/hub .config/github-copilot/hosts.json
		.config/doctl/config.yaml .config/hcloud/cli.toml .config/scw/config.yaml .config/linode-cli .config/stripe/config.toml .config/netlify/config.json .netlify/config.json .config/op/config .op/config
		.config/containers/auth.json .config/helm/registry/config.json .config/composer/auth.json .config/pypoetry/auth.toml .wrangler/config/default.toml .config/.wrangler/config/default.toml
		.local/share/com.vercel.cli/auth.json .fly/config.yml .railway/config.json .supabase/access-token .cache/huggingface/token .cache/huggingface/stored_tokens .ansible/galaxy_token .aliyun/config.json
		.oci/config .mc/config.json .circleci/cli.yml .dbt/profiles.yml dotfiles/.aws/credentials home/.config/gh/hosts.yml`) {
		left := snapshot.IsCredentialFile(name, false)
		for i := range name {
			left = left || name[i] == '/' && snapshot.IsCredentialFile(name[:i], true)
		}
		if !left {
			t.Errorf("%s is taken along", name)
		}
	}
	for name, isDir := range map[string]bool{
		"token": true, "kubeconfig": true, "src/auth.json": false, "settings.xml": false, "gradle.properties": false, "hosts.yml": false, ".env.example": false, "example.env": false, "app.example.env": false,
		"token.go": false, "secrets.go": false, "credentials": true, "cert.pem": false, "ca.pem": false, "database.yml": false, "keys.json": false, "google-services.json": false,
		".circleci/config.yml": false, "netlify.toml": false, "wrangler.toml": false, "fly.toml": false, "dbt/profiles.yml": false, "config/default.toml": false, ".config/op": true,
	} {
		if snapshot.IsCredentialFile(name, isDir) {
			t.Errorf("%s is left out", name)
		}
	}
}
