package secret

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/croft-run/croft/fault"
)

func byForm(t testing.TB, more ...Pattern) *Scrubber {
	t.Helper()
	f, err := NewPatterns(append(Providers(), more...))
	if err != nil {
		t.Fatal(err)
	}
	return NewScrubber(nil, &ScrubOptions{Finders: []Finder{f}})
}

// noise is a text that looks like chance; the same each time.
func noise(n int) string {
	const all = "q7RkZ2mXv9TbLw4Ns8HdJc3YfGp6Ua5EtKx1"
	return strings.Repeat(all, n/len(all)+1)[:n]
}

func hexNoise(n int) string {
	return strings.Repeat("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", n/64+1)[:n]
}

func TestPatternsHide(t *testing.T) {
	s := byForm(t)
	for name, tt := range map[string]struct{ in, want string }{
		"github in a sentence": {"use ghp_" + noise(36) + ".", "use [REDACTED:github-pat]."},
		"github after escape":  {`a\nghp_` + noise(36) + `\n`, `a\n[REDACTED:github-pat]\n`},
		"fine-grained":         {"github_pat_" + noise(82), "[REDACTED:github-fine-grained-pat]"},
		"gitlab":               {"token glpat-" + noise(20), "token [REDACTED:gitlab-pat]"},
		"npm":                  {"//registry.example/:_authToken=npm_" + noise(36), "//registry.example/:_authToken=[REDACTED:npm-access-token]"},
		"aws id":               {"AKIA" + "Z7Q3MXK5LWB2NT4R", "[REDACTED:aws-access-token]"},
		"aws secret":           {"AWS_SECRET_ACCESS_KEY=" + noise(40) + "\n", "AWS_SECRET_ACCESS_KEY=[REDACTED:secret-assignment]\n"},
		"aws secret in YAML":   {"  AWS_SECRET_ACCESS_KEY: " + noise(40) + "\n", "  AWS_SECRET_ACCESS_KEY: [REDACTED:secret-assignment]\n"},
		"in JSON":              {`{"STRIPE_API_KEY": "` + noise(24) + `"}`, `{"STRIPE_API_KEY": "[REDACTED:secret-assignment]"}`},
		"env":                  {"PATH=/bin\nMY_TOKEN=hunter22\nHOME=/root\n", "PATH=/bin\nMY_TOKEN=[REDACTED:secret-assignment]\nHOME=/root\n"},
		"export":               {`export DB_PASSWORD="correct-horse"`, `export DB_PASSWORD="[REDACTED:secret-assignment]"`},
		"numbered line":        {"12\tDB_PASSWORD=correct-horse\n", "12\tDB_PASSWORD=[REDACTED:secret-assignment]\n"},
		"url":                  {"postgres://app:s3cr3t@db:5432/x", "postgres://app:[REDACTED:url-password]@db:5432/x"},
		"anthropic":            {"sk-ant-api03-" + noise(93) + "AA", "[REDACTED:anthropic-api-key]"},
		"openai":               {"sk-proj-" + noise(120), "[REDACTED:openai-api-key]"},
		"slack":                {"xoxb-" + strings.Repeat("123456789012-", 2) + noise(24), "[REDACTED:slack-bot-token]"},
		"stripe":               {"sk_live_" + noise(24), "[REDACTED:stripe-access-token]"},
		"google":               {"key=AIza" + noise(35), "key=[REDACTED:gcp-api-key]"},
		"huggingface":          {"hf_" + noise(34), "[REDACTED:huggingface-token]"},
		"digitalocean":         {"dop_v1_" + hexNoise(64), "[REDACTED:digitalocean-pat]"},
		"jwt": {"Bearer eyJhbGciOi" + noise(20) + ".eyJzdWIi" + noise(20) + "." + noise(43),
			"Bearer [REDACTED:jwt]"},
		"pem, numbered": {"1\t-----BEGIN RSA PRIVATE KEY-----\n2\t" + noise(64) + "\n3\t" + noise(30) + "=\n4\t-----END RSA PRIVATE KEY-----\n5\tnext\n",
			"1\t-----BEGIN RSA PRIVATE KEY-----\n2\t[REDACTED:private-key]\n3\t[REDACTED:private-key]\n4\t-----END RSA PRIVATE KEY-----\n5\tnext\n"},
		"pem, escaped": {`"-----BEGIN PRIVATE KEY-----\n` + noise(64) + `\n-----END PRIVATE KEY-----\n"`, `"-----BEGIN PRIVATE KEY-----\n[REDACTED:private-key]\n-----END PRIVATE KEY-----\n"`},
		"pem, cut off": {"-----BEGIN EC PRIVATE KEY-----\n" + noise(64) + "\n" + noise(64), "-----BEGIN EC PRIVATE KEY-----\n[REDACTED:private-key]\n[REDACTED:private-key]"},
	} {
		if got := s.String(tt.in); got != tt.want {
			t.Errorf("%s: %q became %q, want %q", name, tt.in, got, tt.want)
		}
	}
}

// TestPatternsKeepCode: what code says about secrets is no secret.
func TestPatternsKeepCode(t *testing.T) {
	s := byForm(t)
	for _, code := range []string{
		`password = getPassword()`, `token = parse(x)`, `const TOKEN = iota`, `PASSWORD = os.Getenv("DB_PASSWORD")`, `API_KEY=$(cat key)`,
		`TOKEN=${1:?token}`, `PASSWORD_FILE=/run/secrets/db`, `SECRET_NAME=database`, `export API_KEY=your-api-key-here`, `MY_TOKEN="<token>"`,
		`ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx`, `sk-learn`, `risk-averse-people-are-not-tokens`, `http://user:password@host/`, `https://$USER:$PASS@host`,
		`git clone https://example.com/a:b@c`, `if TOKEN == expected {`, `case SECRET: return`, `tokens["API_KEY"] = value`, `-----BEGIN CERTIFICATE-----`,
		`-----BEGIN PUBLIC KEY-----`, `regexp.MustCompile("ghp_[0-9a-zA-Z]{36}")`, `desk-projector-of-the-third-floor-in-the-east-wing-of-the-house`,
		`{"PASSWORD": null}`, `GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}`, `AIzabella`, `type TOKEN struct{}`,
	} {
		if got := s.String(code); got != code {
			t.Errorf("%q became %q", code, got)
		}
	}
}

// TestFalsePositives: in the source of Go, of this module without its tests, and of
// TypeScript at most one line in ten thousand has something hidden that is not a private
// key.
//
//croft:slow
func TestFalsePositives(t *testing.T) {
	for name, dir := range map[string]func(testing.TB) string{
		"go":         func(t testing.TB) string { return filepath.Join(goroot(t), "src") },
		"croft":      func(testing.TB) string { return ".." },
		"typescript": typescript,
	} {
		t.Run(name, func(t *testing.T) {
			lines, hits := 0, 0
			err := filepath.WalkDir(dir(t), func(path string, d fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin" || d.Name() == "gitleaks"):
					return filepath.SkipDir
				case !d.Type().IsRegular(), name == "croft" && strings.HasSuffix(path, "_test.go"): // tests contain secrets that are to be found
					return nil
				}
				data, err := os.ReadFile(path)
				if err != nil || bytes.IndexByte(data, 0) >= 0 { // a program, or an image
					return err
				}
				lines += bytes.Count(data, []byte("\n"))
				last := -1
				for _, sp := range Known().Find(data) {
					line := bytes.LastIndexByte(data[:sp.Start], '\n')
					if sp.Name != "private-key" && line != last {
						hits, last = hits+1, line
						t.Logf("%s in %s: %q", sp.Name, path, data[max(line+1, sp.Start-40):min(sp.End, sp.Start+80)])
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d of %d lines", hits, lines)
			if lines < 100_000 || hits > lines/10_000 {
				t.Errorf("%d of %d lines have something hidden, want at most %d", hits, lines, lines/10_000)
			}
		})
	}
}

// typescript is where npm installed TypeScript.
func typescript(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("npm", "root", "--global").Output()
	if err != nil {
		t.Skipf("skipped: host: it lacks npm: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "typescript")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("skipped: host: it lacks TypeScript: %v", err)
	}
	return dir
}

// goroot is where Go itself is.
func goroot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("skipped: host: it lacks the go command: %v", err)
	}
	return strings.TrimSpace(string(out))
}

func TestPatternsOfAnOperator(t *testing.T) {
	s := byForm(t, Pattern{Name: "badge", Form: `BADGE-(\d{6})`}, Pattern{Name: "pin", Form: `\bpin \d{4}\b`}, Pattern{Name: "any", Form: `[XY]{5}`})
	if diff := cmp.Diff("BADGE-[REDACTED:badge], [REDACTED:pin], [REDACTED:any]", s.String("BADGE-123456, pin 1234, XYXYX")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, bad := range []Pattern{{Name: "x", Form: "("}, {Form: "abcd"}, {Name: "x", Form: "a.*", Heads: []string{"a"}}} {
		if _, err := NewPatterns([]Pattern{bad}); fault.Of(err) != fault.InvalidArgument {
			t.Errorf("%+v: %v, want %v", bad, err, fault.InvalidArgument)
		}
	}
}

func FuzzPatterns(f *testing.F) {
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nabc"))
	f.Add([]byte(`MY_TOKEN="`))
	f.Add([]byte("s://a:b@c"))
	find, err := NewPatterns(Providers())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		for _, sp := range find.Find(p) {
			if sp.Start < 0 || sp.Start >= sp.End || sp.End > len(p) || sp.Name == "" {
				t.Fatalf("%+v in %d bytes", sp, len(p))
			}
		}
	})
}

// BenchmarkAnswer scrubs an answer of 155 KB, with all that a server searches for.
func BenchmarkAnswer(b *testing.B) {
	data, err := os.ReadFile(filepath.Join(goroot(b), "src", "net", "http", "server.go"))
	if err != nil {
		b.Skipf("skipped: host: it lacks the source of Go's standard library: %v", err)
	}
	data = append(data, data...)[:155_000]
	s := NewScrubber([]Value{NewValue("a", noise(40)), NewValue("b", "correct horse battery")}, &ScrubOptions{Finders: []Finder{Known()}})
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s.Bytes(data)
	}
}

func BenchmarkPatterns(b *testing.B) {
	data, err := os.ReadFile(filepath.Join(goroot(b), "src", "net", "http", "server.go"))
	if err != nil {
		b.Skipf("skipped: host: it lacks the source of Go's standard library: %v", err)
	}
	f, err := NewPatterns(Providers())
	if err != nil {
		b.Fatal(err)
	}
	s := NewScrubber([]Value{NewValue("a", noise(40)), NewValue("b", "correct horse battery")}, &ScrubOptions{Finders: []Finder{f}})
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s.Bytes(data)
	}
}
