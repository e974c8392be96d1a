package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// placeholder is what stands for a secret in a variable of a workspace; the
// proxy replaces it in requests.
const placeholder = "croft-secret:"

// texts are forms that only secrets have. The list need not be long: it is a
// safety net under the rule that keys with telling names hold no text at all.
var texts = regexp.MustCompile(strings.Join([]string{
	`-----BEGIN [A-Z ]*PRIVATE KEY`,
	`\b(AKIA|ASIA)[0-9A-Z]{16}\b`,
	`\bgh[pousr]_[A-Za-z0-9]{30,}`,
	`\bgithub_pat_[A-Za-z0-9_]{30,}`,
	`\bglpat-[A-Za-z0-9_-]{20,}`,
	`\bnpm_[A-Za-z0-9]{30,}`,
	`\bsk-[A-Za-z0-9_-]{20,}`,
	`\bsk_live_[A-Za-z0-9]{20,}`,
	`\bxox[abprs]-[A-Za-z0-9-]{10,}`,
	`\bAIza[A-Za-z0-9_-]{35}`,
	`\be2b_[A-Za-z0-9]{20,}`,
	`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.`,
	`://[^/\s:@]+:[^/\s:@]+@`,
}, "|"))

// telling are the last words of names that stand for the text of a secret.
var telling = []string{"token", "password", "passwd", "passphrase", "secret", "apikey", "accesskey", "privatekey", "secretkey", "credential", "credentials"}

// tells reports whether a name says that it holds a secret: API_KEY, authToken.
func tells(name string) bool {
	flat := strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(name))
	return slices.ContainsFunc(telling, func(w string) bool { return strings.HasSuffix(flat, w) })
}

// checkTexts refuses secrets. Its messages never repeat what they refuse.
func (c *Config) checkTexts() error {
	if err := c.walkTexts(reflect.ValueOf(c).Elem(), "", ""); err != nil {
		return err
	}
	return nil
}

// walkTexts judges every text below v. key is the free name that v stands under,
// in env or in options, "" where names are ours.
func (c *Config) walkTexts(v reflect.Value, at, key string) error {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return c.walkTexts(v.Elem(), at, key)
	case reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			if err := c.walkTexts(v.FieldByIndex(f.index), strings.TrimPrefix(at+"."+f.key, "."), ""); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := c.walkTexts(v.Index(i), item(at, i), key); err != nil {
				return err
			}
		}
	case reflect.Map:
		free := v.Type().Elem().Kind() != reflect.Struct
		for _, k := range sortedKeys(v) {
			name := ""
			if free {
				name = k.String()
			}
			if err := c.walkTexts(v.MapIndex(k), at+"."+k.String(), name); err != nil {
				return err
			}
		}
	case reflect.String:
		return c.checkSecretText(v.String(), at, key)
	}
	return nil
}

func sortedKeys(v reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

func (c *Config) checkSecretText(text, at, key string) error {
	const advice = "secrets are never in this file; put it where the section secrets says, and write its name here"
	switch {
	case c.origin[at] != "": // a variable or a flag may hold one
		return nil
	case at == "store.url", strings.HasPrefix(at, "secrets.hosts."): // judged on their own
		return nil
	case texts.MatchString(text):
		return c.bad(at, "this looks like the text of a secret; %s", advice)
	case key == "" || !tells(key) || text == "":
		return nil
	case strings.HasPrefix(text, placeholder) && validSecret.MatchString(text[len(placeholder):]):
		return nil
	case strings.HasSuffix(strings.ToLower(key), "secret") && validSecret.MatchString(text) && len(text) <= 32:
		return nil // the name of one
	}
	return c.bad(at, "a key of this name would hold a secret; %s, as %s", advice, fmt.Sprintf("%sNAME", placeholder))
}
