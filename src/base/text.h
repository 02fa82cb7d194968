/* Numbers and names as people write them. Formatting functions write into the caller's buffer and return it. */
#ifndef VR_BASE_TEXT_H
#define VR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VR_MIB ((uint64_t)1 << 20)
#define VR_GIB ((uint64_t)1 << 30)

/* Big enough for every vr_fmt_ function. */
struct vr_num {
    char s[48];
};

/* 1234567 -> "1,234,567" */
const char *vr_fmt_count(struct vr_num *out, uint64_t n);
/* 2015.62 -> "2,015.6" with one digit of `decimals` */
const char *vr_fmt_real(struct vr_num *out, double x, int decimals);
/* bytes -> MiB with thousands separators and `decimals` digits: "27,682.28" */
const char *vr_fmt_mib(struct vr_num *out, uint64_t bytes, int decimals);
/* bytes in the unit that reads best: "867.06 MiB", "49.35 GiB", "512 B" */
const char *vr_fmt_bytes(struct vr_num *out, uint64_t bytes);
/* 70553706560 -> "70.55 B": thousands K, millions M, billions B, trillions T */
const char *vr_fmt_short(struct vr_num *out, double n);

/* A whole number and nothing else, decimal, within [min, max]. */
bool vr_parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *out);
/* A finite decimal number and nothing else. */
bool vr_parse_double(const char *s, double *out);

/* The index of the candidate that reads most like `word` (case and punctuation ignored), or -1 when none is close
 * enough to be what was meant. get(i, ctx) is candidate i. */
int vr_nearest(const char *word, size_t n, const char *(*get)(size_t i, const void *ctx), const void *ctx);
/* get() for an array of const char *. */
const char *vr_nearest_in_array(size_t i, const void *array);

/* Copies as much of a UTF-8 string as finds room in n bytes, up to the end of a character. */
void vr_text_fit(char *out, size_t n, const char *s);

/* How many terminal columns a UTF-8 string takes (one per code point; combining marks are not used here). */
size_t vr_text_width(const char *s);

#endif
