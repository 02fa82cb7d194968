/* Writing JSON by hand where a tree would be waste. Trees are jansson's. */
#ifndef VR_BASE_JSON_H
#define VR_BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"

/* Appends s as a JSON string with its quotes. Bytes that are not UTF-8 become U+FFFD, so the result is always valid. */
void vr_json_add_string(struct vr_buf *b, const char *s);
/* The same of n bytes, among which may be NULs. */
void vr_json_add_text(struct vr_buf *b, const char *s, size_t n);
/* The same for a tree: a path is any bytes, and json_string() and json_pack() fail at what is not UTF-8. NULL: null. */
json_t *vr_json_text(const char *s);
/* Whether v is text that has room in out; what is there of it is copied. */
bool vr_json_read_text(const json_t *v, char *out, size_t n);

/* Length of the valid UTF-8 sequence at s (n bytes are there), 0 if there is none. */
size_t vr_utf8_len(const unsigned char *s, size_t n);
/* Whether all of s is valid. */
bool vr_utf8_is(const char *s);
/* Whether the character of `len` bytes at s commands a terminal instead of being shown: C0, DEL, C1. */
bool vr_utf8_is_control(const unsigned char *s, size_t len);
/* '?' for every byte of what is no character or commands a terminal. */
void vr_utf8_mask(char *s);

/* What n > 0 bytes begin with: a character; bytes that are none; or some that may become one with more to come. */
enum vr_utf8 { VR_UTF8_CHARACTER, VR_UTF8_BROKEN, VR_UTF8_MORE };
/* *len is the length of the character, or of what one U+FFFD stands for. */
enum vr_utf8 vr_utf8_look(const unsigned char *s, size_t n, size_t *len);

#endif
