package secret

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"math/rand/v2"
	"os"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

var update = flag.Bool("update", false, "write gitleaks.go")

// A gitleaksRule is a rule of gitleaks' file.
type gitleaksRule struct {
	ID          string
	Regex       string
	Entropy     float64
	SecretGroup int
}

func gitleaksRules(t testing.TB) []gitleaksRule {
	t.Helper()
	data, err := os.ReadFile("testdata/gitleaks/gitleaks.toml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Rules []gitleaksRule }
	if err := toml.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Rules) < 200 {
		t.Fatalf("got %d rules, want 200 or more", len(file.Rules))
	}
	return file.Rules
}

// replaced are rules that are not in the table, because a shape of this package does the
// same: the rule has no distinctive beginning, its distance from the keyword is unbounded,
// or it depends on the name of a file.
var replaced = map[string]string{
	"airtable-personnal-access-token":        "runShapes",
	"azure-ad-client-secret":                 "runShapes",
	"facebook-access-token":                  "runShapes",
	"maxmind-license-key":                    "runShapes",
	"sourcegraph-access-token":               "moreShapes; 40 hexadecimal digits alone are usually a commit",
	"square-access-token":                    "moreShapes; base64 of zeros begins like this",
	"twilio-api-key":                         "runShapes",
	"vault-service-token":                    "moreShapes; s. and 24 characters are usually code",
	"curl-auth-header":                       "authorization",
	"curl-auth-user":                         "curlUser",
	"generic-api-key":                        "assignedValue",
	"hashicorp-tf-api-token":                 "moreShapes",
	"hashicorp-tf-password":                  "assignedValue",
	"jwt":                                    "moreShapes",
	"kubernetes-secret-yaml":                 "kubernetesSecret",
	"lob-api-key":                            "moreShapes",
	"lob-pub-api-key":                        "public",
	"microsoft-teams-webhook":                "moreShapes",
	"nuget-config-password":                  "moreShapes",
	"openai-api-key":                         "moreShapes",
	"pkcs12-file":                            "CredentialFiles",
	"private-key":                            "privateKey",
	"sidekiq-sensitive-url":                  "urlPassword",
	"slack-webhook-url":                      "moreShapes",
	"aws-amazon-bedrock-api-key-short-lived": "moreShapes",
	"freemius-secret-key":                    "assignedValue",
	"adobe-client-id":                        "public",
	"asana-client-id":                        "public",
	"bitbucket-client-id":                    "public",
	"discord-client-id":                      "public",
	"flutterwave-public-key":                 "public",
	"linkedin-client-id":                     "public",
	"looker-client-id":                       "public",
	"mailgun-pub-key":                        "public",
	"messagebird-client-id":                  "public",
	"plaid-client-id":                        "public",
	"sendbird-access-id":                     "public",
	"sumologic-access-id":                    "public",
}

// tokenEnd follows the token in most rules. It is replaced by Pattern.whole, because a
// comma or a bracket may follow as well.
const tokenEnd = "(?:[\\x60'\"\\s;]|\\\\[nr]|$)"

// toPattern converts a rule to a pattern that is anchored at its heads.
func (r gitleaksRule) toPattern() (Pattern, error) {
	text := strings.NewReplacer(tokenEnd, "", "(?:[^\\w-]|\\z)", "", "(?:[^a-zA-Z0-9+/]|\\z)", "").Replace(r.Regex)
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return Pattern{}, err
	}
	re = trimLead(re)
	if r.SecretGroup > 1 {
		uncapture(re, r.SecretGroup)
	}
	begins, _ := beginnings(re)
	for i, b := range begins {
		begins[i] = strings.ToLower(b)
	}
	slices.Sort(begins)
	begins = slices.Compact(begins)
	form := re.String()
	p := Pattern{Name: r.ID, Heads: begins, Form: form, Entropy: r.Entropy, whole: text != r.Regex || strings.HasSuffix(form, `\b`)}
	p.MidWord = !strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(form, "(?i:"), "("), `\b`)
	for _, b := range begins {
		if len(b) < 3 {
			return p, fmt.Errorf("rule %s: it begins with %q, which is too short", r.ID, begins)
		}
	}
	return p, nil
}

// trimLead removes what may be absent at the beginning: what is left matches as well.
func trimLead(re *syntax.Regexp) *syntax.Regexp {
	switch re.Op {
	case syntax.OpConcat:
		for len(re.Sub) > 1 && optional(re.Sub[0]) {
			re.Sub = re.Sub[1:]
		}
		re.Sub[0] = trimLead(re.Sub[0])
	case syntax.OpAlternate:
		for i := range re.Sub {
			re.Sub[i] = trimLead(re.Sub[i])
		}
	}
	return re
}

func optional(re *syntax.Regexp) bool {
	return re.Op == syntax.OpStar || re.Op == syntax.OpQuest || re.Op == syntax.OpRepeat && re.Min == 0
}

// uncapture makes every group but one not capturing.
func uncapture(re *syntax.Regexp, keep int) {
	for i, sub := range re.Sub {
		for sub.Op == syntax.OpCapture && sub.Cap != keep {
			sub = sub.Sub[0]
		}
		re.Sub[i] = sub
		uncapture(sub, keep)
	}
}

// beginnings returns the texts one of which every match begins with, and whether these are
// whole matches.
func beginnings(re *syntax.Regexp) (list []string, whole bool) {
	const enough = 12
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}, true
	case syntax.OpCapture:
		return beginnings(re.Sub[0])
	case syntax.OpWordBoundary, syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i+1]-re.Rune[i] > 40 {
				return []string{""}, false
			}
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if r < 128 {
					list = append(list, string(r))
				}
			}
		}
		if len(list) > 40 {
			return []string{""}, false
		}
		return list, true
	case syntax.OpAlternate:
		whole = true
		for _, sub := range re.Sub {
			l, w := beginnings(sub)
			list, whole = append(list, l...), whole && w
		}
		return list, whole
	case syntax.OpConcat:
		list, whole = []string{""}, true
		for _, sub := range re.Sub {
			l, w := beginnings(sub)
			if len(list)*len(l) > 50 || slices.Contains(l, "") && len(l) > 1 {
				return list, false
			}
			var next []string
			for _, a := range list {
				for _, b := range l {
					next = append(next, a+b)
				}
			}
			if list = next; !w || len(list[0]) >= enough {
				return list, false
			}
		}
		return list, whole
	}
	return []string{""}, false
}

// TestGitleaksTable: the table is what the rule file says.
func TestGitleaksTable(t *testing.T) {
	var b bytes.Buffer
	b.WriteString(`// Code generated by go test ./secret -run TestGitleaksTable -update; DO NOT EDIT.

package secret

// gitleaksShapes are the rules of gitleaks 8.30.1, config/gitleaks.toml, which has this
// licence:
//
`)
	licence, err := os.ReadFile("testdata/gitleaks/LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(licence)) {
		b.WriteString(strings.TrimRight("// "+strings.TrimSpace(line), " ") + "\n")
	}
	b.WriteString("var gitleaksShapes = []Pattern{\n")
	for _, r := range gitleaksRules(t) {
		if replaced[r.ID] != "" {
			continue
		}
		p, err := r.toPattern()
		if err != nil {
			t.Error(err)
			continue
		}
		fmt.Fprintf(&b, "\t{Name: %q, Heads: %#v, Form: %s", p.Name, p.Heads, quoteForm(p.Form))
		if p.Entropy > 0 {
			fmt.Fprintf(&b, ", Entropy: %v", p.Entropy)
		}
		for name, set := range map[string]bool{"MidWord": p.MidWord} {
			if set {
				fmt.Fprintf(&b, ", %s: true", name)
			}
		}
		if p.whole {
			b.WriteString(", whole: true")
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	want, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("gitleaks.go", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("gitleaks.go")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("gitleaks.go differs from the rule file; run go test ./secret -run TestGitleaksTable -update (%v)", err)
	}
}

func quoteForm(form string) string {
	if strings.Contains(form, "`") {
		return strconv.Quote(form)
	}
	return "`" + form + "`"
}

// sample returns a random text that a regular expression matches.
func sample(rnd *rand.Rand, re *syntax.Regexp, b *strings.Builder) {
	times := func(low, high int) {
		if high < 0 || high > low+40 {
			high = low + 40
		}
		for range low + rnd.IntN(high-low+1) {
			sample(rnd, re.Sub[0], b)
		}
	}
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		var all []rune
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= min(re.Rune[i+1], '~'); r++ {
				if r > ' ' || re.Rune[i] == r {
					all = append(all, r)
				}
			}
		}
		b.WriteRune(all[rnd.IntN(len(all))])
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte("abc 123"[rnd.IntN(7)])
	case syntax.OpStar:
		times(0, 3)
	case syntax.OpPlus:
		times(1, 40)
	case syntax.OpQuest:
		times(0, 1)
	case syntax.OpRepeat:
		times(re.Min, re.Max)
	case syntax.OpCapture:
		sample(rnd, re.Sub[0], b)
	case syntax.OpAlternate:
		sample(rnd, re.Sub[rnd.IntN(len(re.Sub))], b)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			sample(rnd, sub, b)
		}
	}
}

// TestGitleaksRules: what a rule of gitleaks matches is found, with its rules as the
// source of random tokens.
func TestGitleaksRules(t *testing.T) {
	find := Known()
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, r := range gitleaksRules(t) {
		if replaced[r.ID] != "" {
			continue
		}
		re, err := syntax.Parse(strings.ReplaceAll(r.Regex, tokenEnd, ""), syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		missed, example := 0, ""
		const rounds = 40
		for range rounds {
			var b strings.Builder
			sample(rnd, re, &b)
			text := "x = 1\n " + b.String() + " \ny"
			if len(find.Find([]byte(text))) == 0 {
				missed, example = missed+1, text
			}
		}
		if missed > rounds/20 { // a random text may have too little entropy
			t.Errorf("%s: %d of %d tokens were missed, such as %q", r.ID, missed, rounds, example)
		}
	}
}
