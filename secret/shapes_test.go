package secret

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A maker makes random tokens.
type maker struct{ *rand.Rand }

const (
	lowerLetters = "abcdefghijklmnopqrstuvwxyz"
	upperLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits       = "0123456789"
	hexDigits    = digits + "abcdef"
	alphanumeric = lowerLetters + upperLetters + digits
	urlSafe      = alphanumeric + "_-"
	base64Chars  = alphanumeric + "+/"
)

func (m maker) of(n int, chars string) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = chars[m.IntN(len(chars))]
	}
	return string(b)
}

func (m maker) hex(n int) string   { return m.of(n, hexDigits) }
func (m maker) alnum(n int) string { return m.of(n, alphanumeric) }
func (m maker) safe(n int) string  { return m.alnum(1) + m.of(n-2, urlSafe) + m.alnum(1) }
func (m maker) b64(n int) string   { return m.of(n, base64Chars) }
func (m maker) uuid() string {
	return m.hex(8) + "-" + m.hex(4) + "-" + m.hex(4) + "-" + m.hex(4) + "-" + m.hex(12)
}

// password has every kind of character, as password generators make it.
func (m maker) password() string {
	p := []byte(m.of(4, lowerLetters) + m.of(4, upperLetters) + m.of(4, digits) + m.of(2, "!@#^*"))
	m.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	return string(p)
}

// commonShapes are common tokens: by prefix, or by what is around them. In the text that a
// function returns, what must be hidden is between « and ».
var commonShapes = map[string]func(m maker) string{
	// Well-known prefixes.
	"sk-ant-api03":   func(m maker) string { return "«sk-ant-api03-" + m.safe(93) + "AA»" },
	"sk-ant-admin01": func(m maker) string { return "«sk-ant-admin01-" + m.safe(93) + "AA»" },
	"sk-ant-oat01":   func(m maker) string { return "«sk-ant-oat01-" + m.safe(93) + "AA»" },
	"sk-ant-ort01":   func(m maker) string { return "«sk-ant-ort01-" + m.safe(93) + "AA»" },
	"sk-ant-sid01":   func(m maker) string { return "«sk-ant-sid01-" + m.safe(86) + "»" },
	"sk-proj":        func(m maker) string { return "«sk-proj-" + m.safe(74) + "T3Blbk" + "FJ" + m.safe(74) + "»" },
	"sk-svcacct":     func(m maker) string { return "«sk-svcacct-" + m.safe(120) + "»" },
	"sk":             func(m maker) string { return "«sk-" + m.alnum(48) + "»" },
	"sk-or-v1":       func(m maker) string { return "«sk-or-v1-" + m.hex(64) + "»" },
	"ghp":            func(m maker) string { return "«ghp_" + m.alnum(36) + "»" },
	"gho":            func(m maker) string { return "«gho_" + m.alnum(36) + "»" },
	"ghs":            func(m maker) string { return "«ghs_" + m.alnum(36) + "»" },
	"ghu":            func(m maker) string { return "«ghu_" + m.alnum(36) + "»" },
	"ghr":            func(m maker) string { return "«ghr_" + m.alnum(76) + "»" },
	"github_pat":     func(m maker) string { return "«github_pat_" + m.alnum(22) + "_" + m.alnum(59) + "»" },
	"glpat":          func(m maker) string { return "«glpat-" + m.safe(20) + "»" },
	"glrt":           func(m maker) string { return "«glrt-" + m.safe(20) + "»" },
	"gldt":           func(m maker) string { return "«gldt-" + m.safe(20) + "»" },
	"xoxb": func(m maker) string {
		return "«xoxb-" + m.of(12, digits) + "-" + m.of(13, digits) + "-" + m.alnum(24) + "»"
	},
	"xoxp": func(m maker) string {
		return "«xoxp-" + m.of(12, digits) + "-" + m.of(12, digits) + "-" + m.of(13, digits) + "-" + m.hex(32) + "»"
	},
	"xoxc": func(m maker) string {
		return "«xoxc-" + m.of(12, digits) + "-" + m.of(12, digits) + "-" + m.of(13, digits) + "-" + m.hex(64) + "»"
	},
	"xoxd": func(m maker) string { return "«xoxd-" + m.alnum(60) + "%2B" + m.alnum(30) + "%3D»" },
	"xapp": func(m maker) string {
		return "«xapp-1-A" + m.of(10, upperLetters+digits) + "-" + m.of(13, digits) + "-" + m.hex(64) + "»"
	},
	"AKIA":         func(m maker) string { return "«AKIA" + m.of(16, upperLetters+"234567") + "»" },
	"ASIA":         func(m maker) string { return "«ASIA" + m.of(16, upperLetters+"234567") + "»" },
	"AIza":         func(m maker) string { return "«AIza" + m.safe(35) + "»" },
	"npm":          func(m maker) string { return "«npm_" + m.alnum(36) + "»" },
	"pypi-AgEI":    func(m maker) string { return "«pypi-AgEIcHlwaS5vcmc" + m.safe(140) + "»" },
	"pypi-AgEN":    func(m maker) string { return "«pypi-AgENdGVzdC5weXBpLm9yZw" + m.safe(140) + "»" },
	"hf letters":   func(m maker) string { return "«hf_" + m.of(34, lowerLetters+upperLetters) + "»" },
	"hf":           func(m maker) string { return "«hf_" + m.alnum(34) + "»" },
	"sk_live":      func(m maker) string { return "«sk_live_" + m.alnum(24) + "»" },
	"rk_live":      func(m maker) string { return "«rk_live_" + m.alnum(99) + "»" },
	"whsec":        func(m maker) string { return "«whsec_" + m.alnum(32) + "»" },
	"SG.":          func(m maker) string { return "«SG." + m.safe(22) + "." + m.safe(43) + "»" },
	"dop_v1":       func(m maker) string { return "«dop_v1_" + m.hex(64) + "»" },
	"1//0":         func(m maker) string { return "«1//0" + m.safe(100) + "»" },
	"ya29":         func(m maker) string { return "«ya29.a0" + m.safe(160) + "»" },
	"GOCSPX":       func(m maker) string { return "«GOCSPX-" + m.safe(28) + "»" },
	"dckr_pat":     func(m maker) string { return "«dckr_pat_" + m.safe(27) + "»" },
	"dckr_oat":     func(m maker) string { return "«dckr_oat_" + m.safe(32) + "»" },
	"nfp":          func(m maker) string { return "«nfp_" + m.alnum(36) + "»" },
	"rnd":          func(m maker) string { return "«rnd_" + m.alnum(32) + "»" },
	"sbp":          func(m maker) string { return "«sbp_" + m.hex(40) + "»" },
	"sb_secret":    func(m maker) string { return "«sb_secret_" + m.safe(31) + "»" },
	"tskey-auth":   func(m maker) string { return "«tskey-auth-k" + m.alnum(11) + "-" + m.alnum(32) + "»" },
	"tskey-api":    func(m maker) string { return "«tskey-api-k" + m.alnum(11) + "-" + m.alnum(32) + "»" },
	"NRAK":         func(m maker) string { return "«NRAK-" + m.of(27, upperLetters+digits) + "»" },
	"ATATT3":       func(m maker) string { return "«ATATT3xFfGF0" + m.safe(170) + "=" + m.of(8, digits+"ABCDEF") + "»" },
	"ATBB":         func(m maker) string { return "«ATBB" + m.alnum(32) + "»" },
	"figd":         func(m maker) string { return "«figd_" + m.safe(40) + "»" },
	"gsk":          func(m maker) string { return "«gsk_" + m.alnum(52) + "»" },
	"r8":           func(m maker) string { return "«r8_" + m.alnum(37) + "»" },
	"xai":          func(m maker) string { return "«xai-" + m.alnum(80) + "»" },
	"nvapi":        func(m maker) string { return "«nvapi-" + m.safe(64) + "»" },
	"lsv2":         func(m maker) string { return "«lsv2_pt_" + m.hex(32) + "_" + m.hex(10) + "»" },
	"cio":          func(m maker) string { return "«cio" + m.alnum(32) + "»" },
	"sq0atp":       func(m maker) string { return "«sq0atp-" + m.safe(22) + "»" },
	"sq0csp":       func(m maker) string { return "«sq0csp-" + m.safe(43) + "»" },
	"square EAAA":  func(m maker) string { return "«EAAA" + m.safe(60) + "»" },
	"airtable pat": func(m maker) string { return "«pat" + m.alnum(14) + "." + m.hex(64) + "»" },
	"hvs":          func(m maker) string { return "«hvs." + m.safe(95) + "»" },
	"jwt":          func(m maker) string { return "«eyJ" + m.safe(33) + ".eyJ" + m.safe(80) + "." + m.safe(43) + "»" },
	"plaid":        func(m maker) string { return "«access-production-" + m.uuid() + "»" },
	"braintree": func(m maker) string {
		return "«access_token$production$" + m.of(16, lowerLetters+digits) + "$" + m.hex(32) + "»"
	},
	"paypal":      func(m maker) string { return "«E" + m.safe(79) + "»" },
	"twilio SK":   func(m maker) string { return "«SK" + m.hex(32) + "»" },
	"twilio AC":   func(m maker) string { return "«AC" + m.hex(32) + "»" },
	"telegram":    func(m maker) string { return "«" + m.of(1, "123456789") + m.of(9, digits) + ":AA" + m.safe(33) + "»" },
	"discord bot": func(m maker) string { return "«M" + m.safe(25) + "." + m.safe(6) + "." + m.safe(38) + "»" },
	"discord webhook": func(m maker) string {
		return "https://discord.com/api/webhooks/" + m.of(19, digits) + "/«" + m.safe(68) + "»"
	},
	"slack webhook": func(m maker) string {
		return "https://hooks.slack.com/services/«T" + m.of(10, upperLetters+digits) + "/B" + m.of(10, upperLetters+digits) + "/" + m.alnum(24) + "»"
	},
	"teams webhook": func(m maker) string {
		return "https://acme.webhook.office.com/webhookb2/«" + m.uuid() + "@" + m.uuid() + "/IncomingWebhook/" + m.hex(32) + "/" + m.uuid() + "»"
	},
	"aws secret, bare": func(m maker) string { return "«" + m.b64(40) + "»" },

	// Azure.
	"AccountKey": func(m maker) string {
		return "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=«" + m.b64(86) + "==»;EndpointSuffix=core.windows.net"
	},
	"SharedAccessKey": func(m maker) string {
		return "Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=«" + m.b64(43) + "=»"
	},
	"SAS": func(m maker) string {
		return "https://acme.blob.core.windows.net/c/b?sv=2024-01-01&se=2027-01-01&sr=b&sp=r&sig=«" + m.alnum(43) + "%3D»"
	},
	"azure client secret": func(m maker) string { return "«" + m.alnum(3) + "8Q~" + m.safe(34) + "»" },
	"azure sql": func(m maker) string {
		return "Server=tcp:acme.database.windows.net,1433;User ID=app;Password=«" + m.password() + "»;Encrypt=True"
	},

	// By context.
	"bearer": func(m maker) string { return "Authorization: Bearer «" + m.safe(32) + "»" },
	"basic": func(m maker) string {
		return "Authorization: Basic «" + base64.StdEncoding.EncodeToString([]byte("user:"+m.password())) + "»"
	},
	"header":     func(m maker) string { return `curl -H "Authorization: Token «` + m.hex(40) + `»" https://x.test` },
	"cookie":     func(m maker) string { return "Cookie: theme=dark; session=«" + m.safe(43) + "»; lang=en" },
	"set-cookie": func(m maker) string { return "Set-Cookie: sid=«" + m.hex(32) + "»; Path=/; HttpOnly" },
	"x-api-key":  func(m maker) string { return "x-api-key: «" + m.alnum(32) + "»" },
	"_authToken": func(m maker) string { return "//registry.test/:_authToken=«" + m.uuid() + "»" },
	"netrc":      func(m maker) string { return "machine api.test login me password «" + m.alnum(16) + "»" },
	"netrc lines": func(m maker) string {
		return "machine api.test\n  login me\n  password «" + m.password() + "»\n"
	},
	"netrc lines, of Read": func(m maker) string {
		return "     1\tmachine api.test\n     2\t  login me\n     3\t  password «" + m.password() + "»\n"
	},
	"netrc lines, of grep": func(m maker) string {
		return "my_.netrc-2-  login me\nmy_.netrc:3:  password «" + m.password() + "»\n"
	},
	"docker auth": func(m maker) string {
		return `{"auths":{"r.test":{"auth":"«` + base64.StdEncoding.EncodeToString([]byte("user:"+m.password())) + `»"}}}`
	},
	"kubeconfig token": func(m maker) string { return "users:\n- name: me\n  user:\n    token: «" + m.alnum(40) + "»\n" },
	"kubeconfig key": func(m maker) string {
		return "    client-key-data: «" + base64.StdEncoding.EncodeToString([]byte("-----BEGIN RSA PRIVATE "+"KEY-----\n"+m.b64(300))) + "»\n"
	},
	"kubernetes secret": func(m maker) string {
		return "apiVersion: v1\ndata:\n  user: «YWRtaW4t" + m.alnum(8) + "»\n  pw: «" + m.alnum(24) + "»\nkind: Secret\nmetadata:\n  name: db-credentials\n"
	},
	"kubernetes secret, of Read": func(m maker) string {
		return "     1\tapiVersion: v1\n     2\tdata:\n     3\t  user: «YWRtaW4t" + m.alnum(8) + "»\n     4\t  pw: «" + m.alnum(24) + "»\n     5\tkind: Secret\n"
	},
	"kubernetes secret, of grep": func(m maker) string {
		return "db_1.yaml-1-kind: Secret\ndb_1.yaml-2-data:\ndb_1.yaml:3:  user: «YWRtaW4t" + m.alnum(8) + "»\ndb_1.yaml-4-  pw: «" + m.alnum(24) + "»\n"
	},
	"password: yaml": func(m maker) string { return "  password: «" + m.password() + "»\n" },
	"apiKey json":    func(m maker) string { return `{"apiKey": "«` + m.alnum(32) + `»"}` },
	"api_key python": func(m maker) string { return `client = Client(api_key="«` + m.alnum(32) + `»")` },
	"client_secret":  func(m maker) string { return `client_secret = '«` + m.safe(40) + `»'` },
	"dict":           func(m maker) string { return `cfg["password"] = "«` + m.password() + `»"` },
	"xml":            func(m maker) string { return "<password>«" + m.password() + "»</password>" },
	"properties":     func(m maker) string { return "spring.datasource.password=«" + m.password() + "»" },
	"go":             func(m maker) string { return `token := "«` + m.hex(40) + `»"` },
	"escaped json":   func(m maker) string { return `"{\"apiKey\": \"«` + m.alnum(32) + `»\"}"` },
	"DB_PASS":        func(m maker) string { return "DB_PASS=«" + m.alnum(12) + "»" },
	"MYSQL_PWD":      func(m maker) string { return "MYSQL_PWD=«" + m.alnum(12) + "» mysql -u root" },
	"PGPASSWORD":     func(m maker) string { return "PGPASSWORD=«" + m.alnum(10) + "» psql" },
	"NAME=VALUE":     func(m maker) string { return "export STRIPE_SECRET_KEY=«" + m.alnum(24) + "»" },
	"quoted $([{": func(m maker) string {
		return `DB_PASSWORD="«` + m.alnum(4) + "$" + m.alnum(3) + "([{" + m.alnum(4) + `»"`
	},
	"quoted, lower case": func(m maker) string {
		return `password = "«` + m.alnum(5) + "$" + m.alnum(3) + "([{" + m.alnum(4) + `»"`
	},
	"aws credentials": func(m maker) string { return "[default]\naws_secret_access_key = «" + m.b64(40) + "»\n" },
	"aws sts": func(m maker) string {
		return `"SecretAccessKey": "«` + m.b64(40) + `»", "SessionToken": "«` + m.b64(340) + `»"`
	},
	"curl -u":             func(m maker) string { return "curl -s -u admin:«" + m.alnum(12) + "» https://x.test" },
	"curl --user":         func(m maker) string { return "curl --user 'admin:«" + m.alnum(12) + "»' https://x.test" },
	"sshpass":             func(m maker) string { return "sshpass -p «" + m.alnum(12) + "» ssh root@x.test" },
	"sshpass, quoted":     func(m maker) string { return "sshpass -p '«" + m.password() + "»' ssh root@x.test" },
	"jdbc":                func(m maker) string { return "jdbc:postgresql://db.test/app?user=app&password=«" + m.alnum(12) + "»" },
	"postgres":            func(m maker) string { return "postgres://app:«" + m.alnum(12) + "»@db.test:5432/app" },
	"redis":               func(m maker) string { return "redis://:«" + m.alnum(12) + "»@cache.test:6379" },
	"mongodb":             func(m maker) string { return "mongodb+srv://app:«" + m.alnum(12) + "»@c0.test/app" },
	"wireguard":           func(m maker) string { return "[Interface]\nPrivateKey = «" + m.b64(43) + "=»\n" },
	"wireguard preshared": func(m maker) string { return "[Peer]\nPresharedKey = «" + m.b64(43) + "=»\n" },
	"putty": func(m maker) string {
		return "Private-Lines: 2\n«" + m.b64(64) + "»\n«" + m.b64(40) + "»\nPrivate-MAC: «" + m.hex(40) + "»\n"
	},
	"pem": func(m maker) string {
		return "-----BEGIN RSA PRIVATE " + "KEY-----\n«" + m.b64(64) + "»\n«" + m.b64(40) + "»\n-----END RSA PRIVATE " + "KEY-----\n"
	},
	"pem, of grep": func(m maker) string {
		at := func(line, sep string) string { return "conf/tls key_(1)@a.pem" + sep + line + sep }
		return at("1", ":") + "-----BEGIN RSA PRIVATE " + "KEY-----\n" + at("2", ":") + "«" + m.b64(64) + "»\n" +
			at("3", "-") + "«" + m.b64(40) + "»\n" + at("4", "-") + "-----END RSA PRIVATE " + "KEY-----\n"
	},
	"pem, of grep without numbers": func(m maker) string {
		return "id_rsa:-----BEGIN RSA PRIVATE " + "KEY-----\nid_rsa:«" + m.b64(64) + "»\nid_rsa-«" + m.b64(40) + "»\nid_rsa:-----END RSA PRIVATE " + "KEY-----\n"
	},
	"openssh": func(m maker) string {
		return "-----BEGIN OPENSSH PRIVATE " + "KEY-----\n«" + m.b64(70) + "»\n-----END OPENSSH PRIVATE " + "KEY-----\n"
	},
}

// TestCommonShapes: of the random tokens of each common shape at least 39 in 40 are hidden
// whole. The rest is too short of kinds of characters by chance.
func TestCommonShapes(t *testing.T) {
	s := byForm(t)
	const rounds = 200
	for name, shape := range commonShapes {
		missed, example := 0, ""
		m := maker{rand.New(rand.NewPCG(7, 8))}
		for round := range rounds {
			text := shape(m)
			plain := strings.NewReplacer("«", "", "»", "").Replace(text)
			if isPrefix := strings.HasPrefix(text, "«") && !strings.Contains(text, "\n"); isPrefix {
				around := []string{"%s\n", "use %s.", `{"x": "%s"}`, "(%s)", "12\t%s\n", "x=%s", "<b>%s</b>", "key %s, and"}[round%8]
				plain = fmt.Sprintf(around, plain)
			}
			got := s.String(plain)
			for i, part := range strings.Split(text, "«") {
				if hidden, _, _ := strings.Cut(part, "»"); i > 0 && strings.Contains(got, hidden[max(0, len(hidden)-6):]) {
					missed, example = missed+1, plain+" -> "+got
					break
				}
			}
		}
		if missed > rounds/40 {
			t.Errorf("%s: %d of %d were not hidden, such as %s", name, missed, rounds, example)
		}
	}
}
