package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"unicode/utf16"
)

// encodings returns the texts that a secret shows as: itself, and each form in
// which programs usually write it into something else.
func encodings(text string) []string {
	all := []string{text}
	all = append(all, base64Forms(text)...)
	all = append(all, hexForms(text)...)
	all = append(all, urlForms(text)...)
	all = append(all, jsonForms(text)...)
	return append(all, html.EscapeString(text))
}

// base64Forms returns what base64 makes of a text that begins at each of the
// three places within a group of three bytes. A form consists of the characters
// that hold bits of the text alone; for a text that is the end of what was
// encoded there are two longer ones, with and without padding.
func base64Forms(text string) []string {
	var all []string
	for lead := range 3 {
		data := append(make([]byte, lead), text...)
		first := (lead*8 + 5) / 6 // the first character without bits of what is before
		last := len(data) * 8 / 6 // the first one with bits of what follows
		for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
			padded := enc.EncodeToString(data)
			all = append(all, padded[first:last], strings.TrimRight(padded[first:], "="), padded[first:])
		}
	}
	return all
}

// hexForms returns the text in hexadecimal digits of either case: in one piece, its
// bytes apart, in groups of two, and escaped. A dump of many lines has no form of
// its own (see folder).
func hexForms(text string) []string {
	plain := hex.EncodeToString([]byte(text))
	apart := make([]string, 0, len(text))
	for i := 0; i < len(plain); i += 2 {
		apart = append(apart, plain[i:i+2])
	}
	var all []string
	for _, f := range []string{plain, strings.Join(apart, " "), strings.Join(apart, ":")} {
		all = append(all, f, strings.ToUpper(f))
	}
	for lead := range 2 {
		var pairs strings.Builder
		for i, b := range apart {
			if i > 0 && i%2 == lead {
				pairs.WriteByte(' ')
			}
			pairs.WriteString(b)
		}
		all = append(all, pairs.String())
	}
	return append(all, `\x`+strings.Join(apart, `\x`))
}

var percentEscape = regexp.MustCompile(`%[0-9A-F]{2}`)

// urlForms returns the text percent-encoded: for a query, for a path, and as
// JavaScript's encodeURIComponent does, with digits in either case.
func urlForms(text string) []string {
	query := url.QueryEscape(text)
	script := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(query)
	forms := []string{query, strings.ReplaceAll(query, "+", "%20"), script, url.PathEscape(text)}
	for _, f := range forms[:len(forms):len(forms)] {
		forms = append(forms, percentEscape.ReplaceAllStringFunc(f, strings.ToLower))
	}
	return forms
}

// jsonForms returns the inside of the text as a JSON string: plain, safe for
// HTML, with slashes escaped, and in ASCII alone.
func jsonForms(text string) []string {
	var plain bytes.Buffer
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(text); err != nil {
		return nil
	}
	inside := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSuffix(plain.String(), "\n"), `"`), `"`)
	safe := strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`).Replace(inside)
	var ascii strings.Builder
	for _, r := range inside {
		switch {
		case r < 0x80:
			ascii.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&ascii, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&ascii, `\u%04x`, r)
		}
	}
	return []string{inside, safe, strings.ReplaceAll(inside, "/", `\/`), ascii.String(), strings.ReplaceAll(ascii.String(), "/", `\/`)}
}
