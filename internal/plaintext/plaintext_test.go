package plaintext

import "testing"

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":                     "plain\ttext\n",
		"größer 日本語 \xff":                   "größer 日本語 \xff",
		"\x1b[31mred\x1b[0m":                "red",
		"\x1b[1;38;5;9mFAIL\x1b[m x":        "FAIL x",
		"\x1b[?25l\x1b[2K\x1b[1Gdone":       "done",
		"\x1b]0;title\x07after":             "after",
		"\x1b]8;;https://x/\x1b\\link":      "link",
		"\x1bP1$r0m\x1b\\after":             "after",
		"\x1b(Bcharset\x1b=":                "charset",
		"10%\r20%\r\nend":                   "10%\n20%\nend",
		"bell\x07 back\x08space\x00 \u009b": "bell backspace ",
		"cut\x1b[3":                         "cut",
		"cut\x1b":                           "cut",
		"a [31m that is text":               "a [31m that is text",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}
