wc -w < "$1" > "$OUTPUT_DIR/count.txt"
