#!/bin/sh
# Installs croft for this user, without root: downloads the archive of a release, compares it
# with the release's checksums, and copies the program, its manual pages and its completions.
#
#   install.sh [--prefix DIR] [--version vX.Y.Z]
#
# The prefix is ~/.local, the version the latest one. CROFT_INSTALL_URL names another place
# that has SHA256SUMS and the archives.
set -eu

releases=https://github.com/croft-run/croft/releases

fail() {
	echo "install.sh: $1" >&2
	exit 1
}

download() { # URL, file
	case $fetch in
	curl) curl -fsSL "$1" -o "$2" ;;
	wget) wget -q "$1" -O "$2" ;;
	esac || fail "can't download $1"
}

install_file() { # mode, file of the archive, destination
	mkdir -p "$(dirname "$3")"
	# A program that runs can be replaced, and not overwritten.
	cp "$2" "$3.new"
	chmod "$1" "$3.new"
	mv -f "$3.new" "$3"
}

main() {
	prefix=""
	version=""
	while [ $# -gt 0 ]; do
		case $1 in
		--prefix | --version)
			[ $# -gt 1 ] || fail "$1 needs a value"
			if [ "$1" = --prefix ]; then prefix=$2; else version=$2; fi
			shift 2
			;;
		-h | --help)
			echo "usage: install.sh [--prefix DIR] [--version vX.Y.Z]"
			return
			;;
		*) fail "unknown argument $1; usage: install.sh [--prefix DIR] [--version vX.Y.Z]" ;;
		esac
	done
	if [ -z "$prefix" ]; then
		[ -n "${HOME:-}" ] || fail "HOME is not set; give --prefix"
		prefix=$HOME/.local
	fi

	url=$releases/latest/download
	[ -z "$version" ] || url=$releases/download/$version
	url=${CROFT_INSTALL_URL:-$url}
	url=${url%/}

	for tool in uname mktemp tar gzip awk; do
		command -v "$tool" >/dev/null 2>&1 || fail "the program $tool is missing"
	done
	if command -v curl >/dev/null 2>&1; then
		fetch=curl
	elif command -v wget >/dev/null 2>&1; then
		fetch=wget
	else
		fail "curl or wget is missing"
	fi
	if command -v sha256sum >/dev/null 2>&1; then
		sha256="sha256sum"
	elif command -v shasum >/dev/null 2>&1; then
		sha256="shasum -a 256"
	else
		fail "sha256sum or shasum is missing; without it the archive can't be verified"
	fi

	os=$(uname -s)
	case $os in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "no archive for $os; Croft runs on Linux and macOS" ;;
	esac
	arch=$(uname -m)
	case $arch in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "no archive for the processor $arch" ;;
	esac

	temp=$(mktemp -d)
	trap 'rm -rf "$temp"' EXIT
	trap 'exit 1' INT TERM
	download "$url/SHA256SUMS" "$temp/SHA256SUMS"
	want=${version#v}
	line=$(awk -v want="$want" -v suffix="_${os}_$arch.tar.gz" '
		length($1) == 64 && $2 ~ /^croft_[0-9A-Za-z.+-]+_[a-z]+_[a-z0-9]+\.tar\.gz$/ {
			v = substr($2, 7, length($2) - 6 - length(suffix))
			if ($2 == "croft_" v suffix && (want == "" || v == want)) print $1, $2
		}' "$temp/SHA256SUMS")
	case $line in
	"") fail "$url/SHA256SUMS lists no archive for $os/$arch${version:+ of $version}" ;;
	*"
"*) fail "$url/SHA256SUMS lists several archives for $os/$arch; give --version" ;;
	esac
	sum=${line% *}
	archive=${line#* }
	echo "downloading $url/$archive"
	download "$url/$archive" "$temp/$archive"
	got=$($sha256 "$temp/$archive")
	[ "${got%% *}" = "$sum" ] || fail "$archive has the SHA-256 ${got%% *}, but SHA256SUMS says $sum; nothing was installed"
	tar -xzf "$temp/$archive" -C "$temp"
	from=$temp/${archive%.tar.gz}
	# Started before it is installed: it may be for another system.
	"$from/croft" --version >/dev/null || fail "the program does not run on this machine; nothing was installed"

	for page in "$from"/man/man1/*.1; do
		install_file 644 "$page" "$prefix/share/man/man1/${page##*/}"
	done
	install_file 644 "$from/completions/croft.bash" "$prefix/share/bash-completion/completions/croft"
	install_file 644 "$from/completions/_croft" "$prefix/share/zsh/site-functions/_croft"
	install_file 644 "$from/completions/croft.fish" "$prefix/share/fish/vendor_completions.d/croft.fish"
	install_file 755 "$from/croft" "$prefix/bin/croft"

	echo "installed $("$prefix/bin/croft" --version) as $prefix/bin/croft"
	case :$PATH: in
	*:"$prefix/bin":*) echo "try: croft doctor" ;;
	*) echo "$prefix/bin is not on PATH; add it: export PATH=\"$prefix/bin:\$PATH\"" ;;
	esac
	completions=$prefix/share/zsh/site-functions
	if command -v zsh >/dev/null && ! zsh -ic 'print -l -- $fpath' </dev/null 2>/dev/null | grep -qxF "$completions"; then
		echo "for completion in zsh, add to ~/.zshrc before compinit: fpath=($completions \$fpath)"
	fi
}

main "$@" # last, so that a part of this file does nothing
