package secret

import "slices"

// Providers returns patterns of the keys and tokens of well-known services: the rules of
// gitleaks, and others. Together with contexts and runShapes they are the only list of
// shapes in this program.
func Providers() []Pattern {
	list := slices.Concat(gitleaksShapes, moreShapes)
	for i := range list {
		list[i].known, list[i].longer = true, !list[i].whole
	}
	return list
}

// moreShapes are tokens with a prefix of their own that no rule of gitleaks finds, or not
// in each of their variants.
var moreShapes = []Pattern{
	{Name: "airtable-token", Heads: []string{"airtable"}, Form: `(?i)airtable[\w."' \t-]{0,20}[:=]["' \t]{0,3}(key[a-z0-9]{14})`, MidWord: true, whole: true},
	{Name: "amazon-mws-token", Heads: []string{"amzn.mws."}, Form: `amzn\.mws\.[0-9a-f-]{36}`, Entropy: 3},
	{Name: "anthropic-token", Heads: []string{"sk-ant-"}, Form: `sk-ant-[a-z]{2,10}\d{0,2}-[\w-]{20,}`, Entropy: 3},
	{Name: "atlassian-token", Heads: []string{"ATATT3", "ATCTT3", "ATBB"}, Form: `AT(?:[AC]TT3[\w=-]{100,}|BB[A-Za-z0-9]{28,})`, Entropy: 3.5},
	{Name: "aws-bedrock-api-key", Heads: []string{"bedrock-api-key-"}, Form: `bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/]{8,}={0,2}`},
	{Name: "azure-sas-signature", Heads: []string{"&sig=", "?sig="}, Form: `[?&]sig=([A-Za-z0-9%+/=_-]{30,})`, Entropy: 3, MidWord: true},
	{Name: "braintree-access-token", Heads: []string{"access_token$"}, Form: `access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}`},
	{Name: "contentful-token", Heads: []string{"CFPAT-"}, Form: `CFPAT-[\w-]{40,}`, Entropy: 3},
	{Name: "crates-io-token", Heads: []string{"cio"}, Form: `cio[a-zA-Z0-9]{32}`, Entropy: 3.5, whole: true},
	{Name: "discord-webhook", Heads: []string{"discord.com/api/webhooks/", "discordapp.com/api/webhooks/"}, Form: `discord(?:app)?\.com/api/webhooks/\d+/([\w-]{40,})`},
	{Name: "docker-token", Heads: []string{"dckr_"}, Form: `dckr_[a-z]{3}_[\w-]{20,}`, Entropy: 3},
	{Name: "dropbox-token", Heads: []string{"sl."}, Form: `sl\.(?:u\.)?[\w-]{100,}`, Entropy: 4},
	{Name: "e2b-api-key", Heads: []string{"e2b_"}, Form: `e2b_[a-zA-Z0-9]{20,}`, Entropy: 3},
	{Name: "facebook-token", Heads: []string{"EAA"}, Form: `EAA[a-zA-Z0-9]{80,}`, Entropy: 4},
	{Name: "figma-token", Heads: []string{"figd_"}, Form: `figd_[\w-]{30,}`, Entropy: 3},
	{Name: "gitlab-token", Heads: []string{"glrtr-", "glsoat-", "glwt-"}, Form: `gl(?:rtr|soat|wt)-[\w.-]{20,}`, Entropy: 3},
	{Name: "google-oauth-secret", Heads: []string{"GOCSPX-"}, Form: `GOCSPX-[\w-]{28}`, Entropy: 3},
	{Name: "google-oauth-token", Heads: []string{"ya29."}, Form: `ya29\.[\w-]{20,}(?:\.[\w-]+)*`, Entropy: 3},
	{Name: "google-refresh-token", Heads: []string{"1//0"}, Form: `1//0[\w-]{30,}`, Entropy: 3.5},
	{Name: "groq-api-key", Heads: []string{"gsk_"}, Form: `gsk_[a-zA-Z0-9]{40,}`, Entropy: 3.5},
	{Name: "hubspot-token", Heads: []string{"pat-na", "pat-eu"}, Form: `pat-(?:na|eu)\d-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`},
	{Name: "huggingface-token", Heads: []string{"hf_", "api_org_"}, Form: `(?:hf|api_org)_[a-zA-Z0-9]{30,}`, Entropy: 3, whole: true},
	{Name: "jwt", Heads: []string{"eyJ"}, Form: `ey[\w-]{17,}\.ey[\w/\\-]{17,}\.(?:[\w/\\-]{10,}={0,2})?`, Entropy: 3},
	{Name: "langsmith-api-key", Heads: []string{"lsv2_"}, Form: `lsv2_[a-z]{2}_[0-9a-f]{32}_[0-9a-f]{10}`, Entropy: 3},
	{Name: "lob-api-key", Heads: []string{"live_", "test_"}, Form: `(?:live|test)_[a-f0-9]{35}`, Entropy: 3, MidWord: true, whole: true},
	{Name: "mailgun-api-key", Heads: []string{"key-"}, Form: `key-[a-f0-9]{32}`, Entropy: 3, whole: true},
	{Name: "netlify-token", Heads: []string{"nfp_", "nfc_", "nfo_"}, Form: `nf[pco]_[a-zA-Z0-9]{30,}`, Entropy: 3},
	{Name: "new-relic-key", Heads: []string{"NRAK-", "NRII-", "NRIQ-", "NRAA-", "NRRA-"}, Form: `NR(?:AK|II|IQ|AA|RA)-[a-zA-Z0-9_-]{20,}`, Entropy: 3},
	{Name: "nuget-password", Heads: []string{"<add key="}, Form: `(?i)<add key="(?:ClearText)?Password"\s*value="([^"]{8,})"`, MidWord: true, accept: isStrongValue},
	{Name: "nvidia-api-key", Heads: []string{"nvapi-"}, Form: `nvapi-[\w-]{50,}`, Entropy: 3.5},
	{Name: "openai-api-key", Heads: []string{"sk-proj-", "sk-svcacct-", "sk-admin-", "sk-service-"}, Form: `sk-(?:proj|svcacct|admin|service)-[\w-]{40,}`, Entropy: 3},
	{Name: "openrouter-api-key", Heads: []string{"sk-or-"}, Form: `sk-or-v\d-[0-9a-f]{40,}`, Entropy: 3},
	{Name: "plaid-token", Heads: []string{"access-sandbox-", "access-development-", "access-production-"}, Form: `access-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`},
	{Name: "private-key", Heads: []string{"LS0tLS1CRUdJTi"}, Form: `LS0tLS1CRUdJTi[A-Za-z0-9+/]{2,60}?(?:UFJJVkFURSBLRVk|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW)[A-Za-z0-9+/]{16,}={0,2}`},
	{Name: "pypi-token", Heads: []string{"pypi-Ag"}, Form: `pypi-Ag[\w-]{50,}`, Entropy: 3},
	{Name: "render-api-key", Heads: []string{"rnd_"}, Form: `rnd_[a-zA-Z0-9]{24,}`, Entropy: 3.5},
	{Name: "replicate-api-token", Heads: []string{"r8_"}, Form: `r8_[a-zA-Z0-9]{30,}`, Entropy: 3.5},
	{Name: "sentry-token", Heads: []string{"sntrys_"}, Form: `sntrys_eyJ[\w+/=]{40,}`, Entropy: 3.5},
	{Name: "sk-api-key", Heads: []string{"sk-"}, Form: `sk-(?:[a-z0-9]{1,10}-){0,3}[a-zA-Z0-9]{32,}`, Entropy: 3},
	{Name: "slack-token", Heads: []string{"xapp-"}, Form: `xapp-\d-[A-Za-z0-9]+-\d+-[A-Za-z0-9]+`, Entropy: 2},
	{Name: "slack-token", Heads: []string{"xoxa-", "xoxb-", "xoxc-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-"},
		Form: `xox[a-s](?:\.xox[bp])?-[0-9a-zA-Z]+(?:-[0-9a-zA-Z]+)*[0-9a-zA-Z]{7,}`, Entropy: 2.5},
	{Name: "slack-token", Heads: []string{"xoxd-"}, Form: `xoxd-[0-9a-zA-Z%+/=_-]{20,}`, Entropy: 3},
	{Name: "slack-webhook-url", Heads: []string{"hooks.slack.com/"}, Form: `hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/]{43,56})`},
	{Name: "sonarqube-token", Heads: []string{"squ_", "sqp_", "sqa_"}, Form: `sq[upa]_[a-f0-9]{40}`, Entropy: 3},
	{Name: "sourcegraph-token", Heads: []string{"sgp_"}, Form: `sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}`, Entropy: 3, whole: true},
	{Name: "square-token", Heads: []string{"sq0atp-", "sq0csp-"}, Form: `sq0(?:atp|csp)-[\w-]{22,60}`, Entropy: 2},
	{Name: "square-token", Heads: []string{"EAAA"}, Form: `EAAA[\w-]{60}`, Entropy: 4, whole: true},
	{Name: "stripe-webhook-secret", Heads: []string{"whsec_"}, Form: `whsec_[A-Za-z0-9+/]{24,}={0,2}`, Entropy: 3},
	{Name: "supabase-token", Heads: []string{"sbp_", "sb_secret_"}, Form: `(?:sbp_(?:v\d_)?[a-f0-9]{40}|sb_secret_[\w-]{20,})`, Entropy: 3},
	{Name: "tailscale-key", Heads: []string{"tskey-"}, Form: `tskey-[a-z]+-[\w-]{20,}`, Entropy: 3},
	{Name: "teams-webhook", Heads: []string{"webhook.office.com/"}, Form: `webhook\.office\.com/webhookb2/([0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-f]{32}/[\w/-]{36,})`, MidWord: true},
	{Name: "terraform-api-token", Heads: []string{".atlasv1."}, Form: `\.atlasv1\.[\w\-=]{60,70}`, Entropy: 3.5, MidWord: true},
	{Name: "vault-token", Heads: []string{"hvs.", "hvb.", "hvr."}, Form: `hv[sbr]\.[\w-]{24,}`, Entropy: 3.5},
	{Name: "vercel-token", Heads: []string{"vcp_", "vci_", "vca_", "vcr_", "vck_"}, Form: `vc[piark]_[a-zA-Z0-9]{40,}`, Entropy: 3.5},
	{Name: "xai-api-key", Heads: []string{"xai-"}, Form: `xai-[a-zA-Z0-9]{60,}`, Entropy: 3.5},
	{Name: "yandex-token", Heads: []string{"y0_"}, Form: `y0_[\w-]{50,}`, Entropy: 3.5},

	// By context, beside package variable contexts.
	{Name: "authorization", context: true, Heads: []string{"authorization"}, MidWord: true, accept: looksRandom,
		Form: `(?i)authorization["']?[ \t]*[:=][ \t]*["']?(?:[a-z-]{3,12}[ \t]+)?([\w+/=.~-]{8,})`},
	{Name: "authorization", context: true, Heads: []string{"bearer "}, Form: `(?i)bearer +([\w+/=.~-]{16,})`, MidWord: true, accept: looksRandom},
	{Name: "authorization", context: true, Heads: []string{"basic "}, Form: `(?i)basic +([A-Za-z0-9+/]{6,}={0,2})`, MidWord: true, accept: isBasicCredential},
	{Name: "docker-auth", context: true, Heads: []string{`"auth"`, `"_auth"`}, Form: `"_?auth"[ \t]*:[ \t]*"([A-Za-z0-9+/]{6,}={0,2})"`, MidWord: true, accept: isBasicCredential},
	{Name: "npm-auth", context: true, Heads: []string{"_auth"}, Form: `_auth[ \t]*=[ \t]*"?([A-Za-z0-9+/]{6,}={0,2})`, MidWord: true, accept: isBasicCredential},
	{Name: "netrc-password", context: true, Heads: []string{"login"}, Form: `login\s+\S+\s+(?:password|passwd)\s+(\S{4,})`, accept: isStrongValue},
	{Name: "command-password", context: true, Heads: []string{"sshpass"}, Form: `sshpass\s+(?:-p\s*|--password[= ]\s*)["']?([^\s"']{4,})`, accept: isStrongValue},
	{Name: "kubeconfig-key", context: true, Heads: []string{"client-key-data"}, Form: `client-key-data["']?\s*:\s*["']?([A-Za-z0-9+/]{16,}={0,2})`, accept: looksRandom},
	{Name: "putty-key", context: true, Heads: []string{"Private-MAC"}, Form: `Private-MAC: *([0-9a-f]{32,})`},
}
