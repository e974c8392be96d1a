set -m; trap 'echo "[exit status $?]"' ERR
