// What Croft needs of tree-sitter, for one grammar: a program that takes a text
// and leaves its syntax tree in memory as a flat list of nodes, in the order of a
// walk. The host reads the list in one go; it never calls in for a single node.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <tree_sitter/api.h>

#ifndef GRAMMAR
#error "GRAMMAR must name the grammar's function"
#endif
const TSLanguage *GRAMMAR(void);

// croft_stop is the host's: it says whether to give up.
__attribute__((import_module("croft"), import_name("stop"))) int32_t croft_stop(void);

#define EXPORT(name) __attribute__((export_name(#name))) name

enum { NAMED = 1, ERROR = 2, MISSING = 4 };

typedef struct {
  uint32_t symbol; // and flags << 16
  uint32_t field;  // of the parent, 0 for none
  uint32_t start, end;
  uint32_t parent; // index of an earlier node; of the root its own
} Node;

static TSParser *parser;
static Node *nodes;
static uint32_t count, room;
static char *text;

static int keep(TSNode n, uint32_t field, uint32_t parent) {
  if (count == room) {
    uint32_t more = room ? room * 2 : 4096;
    Node *grown = realloc(nodes, more * sizeof(Node));
    if (!grown) return 0;
    nodes = grown;
    room = more;
  }
  uint32_t flags = (ts_node_is_named(n) ? NAMED : 0) | (ts_node_is_error(n) ? ERROR : 0) | (ts_node_is_missing(n) ? MISSING : 0);
  nodes[count++] = (Node){ts_node_symbol(n) | flags << 16, field, ts_node_start_byte(n), ts_node_end_byte(n), parent};
  return 1;
}

static const char *chunk(void *len, uint32_t at, TSPoint point, uint32_t *read) {
  (void)point;
  uint32_t all = *(uint32_t *)len;
  *read = at < all ? all - at : 0;
  return at < all ? text + at : "";
}

static bool stop(TSParseState *state) {
  (void)state;
  return croft_stop() != 0;
}

// croft_text makes room for a text of the given length.
char *EXPORT(croft_text)(uint32_t len) {
  free(text);
  return text = malloc(len + 1);
}

// croft_parse parses the text and returns the number of nodes, or -1. Nodes of
// punctuation are left out unless they are errors.
int32_t EXPORT(croft_parse)(uint32_t len) {
  count = 0;
  if (!parser) {
    parser = ts_parser_new();
    if (!parser || !ts_parser_set_language(parser, GRAMMAR())) return -1;
  }
  TSInput input = {.payload = &len, .read = chunk, .encoding = TSInputEncodingUTF8};
  TSParseOptions options = {.progress_callback = stop};
  TSTree *tree = ts_parser_parse_with_options(parser, NULL, input, options);
  if (!tree) return -1;
  TSTreeCursor at = ts_tree_cursor_new(ts_tree_root_node(tree));
  uint32_t stack_room = 256, depth = 0;
  uint32_t *stack = malloc(stack_room * sizeof(uint32_t));
  int ok = stack != NULL && keep(ts_tree_cursor_current_node(&at), 0, 0);
  if (ok) stack[0] = 0;
  while (ok) {
    if (ts_tree_cursor_goto_first_child(&at)) {
      if (++depth == stack_room) {
        uint32_t *grown = realloc(stack, (stack_room *= 2) * sizeof(uint32_t));
        if (!grown) { ok = 0; break; }
        stack = grown;
      }
    } else {
      while (depth > 0 && !ts_tree_cursor_goto_next_sibling(&at)) {
        ts_tree_cursor_goto_parent(&at);
        depth--;
      }
      if (depth == 0) break;
    }
    TSNode n = ts_tree_cursor_current_node(&at);
    stack[depth] = stack[depth - 1]; // of a node that is left out
    if (ts_node_is_named(n) || ts_node_is_error(n) || ts_node_is_missing(n)) {
      ok = keep(n, ts_tree_cursor_current_field_id(&at), stack[depth - 1]);
      stack[depth] = count - 1;
    }
  }
  free(stack);
  ts_tree_cursor_delete(&at);
  ts_tree_delete(tree);
  return ok ? (int32_t)count : -1;
}

Node *EXPORT(croft_nodes)(void) { return nodes; }

uint32_t EXPORT(croft_symbols)(void) { return ts_language_symbol_count(GRAMMAR()); }
const char *EXPORT(croft_symbol)(uint32_t id) { return ts_language_symbol_name(GRAMMAR(), id); }
uint32_t EXPORT(croft_fields)(void) { return ts_language_field_count(GRAMMAR()); }
const char *EXPORT(croft_field)(uint32_t id) { return ts_language_field_name_for_id(GRAMMAR(), id); }
