/* The texts that a vocabulary turns into tokens of their own before anything else is tokenized: what a template uses to
 * say where a turn begins, who speaks and what is a thought or a call. A user who writes one must not get its token.
 *
 * Control tokens all count, and so do the one for the unknown and those in the form <|...|>, whatever the vocabulary
 * calls them (llama.cpp takes gpt-oss's <|start|> for a token "defined by the user"). Of the other tokens defined by
 * the user, which are also runs of spaces and HTML tags in some vocabularies, and honest text, the ones count that the
 * chat template itself writes. */
#ifndef VR_ENGINE_CONTENT_SPECIALS_H
#define VR_ENGINE_CONTENT_SPECIALS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/own.h"

enum { VR_SPECIAL_CONTROL = 1, VR_SPECIAL_DEFINED = 2, VR_SPECIAL_ANY = 3 };

struct vr_special {
    const char *text;
    unsigned kind;
};

struct vr_specials;
/* A set of these texts; which ones count is decided here, and by the source of the chat template. */
struct vr_specials *vr_specials_new(const struct vr_special *all, size_t n, const char *chat_template,
                                    struct vr_err *err) VR_MUST_CHECK;
void vr_specials_free(struct vr_specials *s);
VR_DEFINE_AUTO(vr_specials);

/* The length of the longest one that a text of n bytes begins with, of these kinds; 0: none. */
size_t vr_specials_begin(const struct vr_specials *s, unsigned kinds, const char *text, size_t n);
/* Whether any begins with this byte. */
bool vr_specials_first(const struct vr_specials *s, char byte);
/* How much of a text is special: over all places where one begins, the bytes of the longest. */
size_t vr_specials_weigh(const struct vr_specials *s, const char *text, size_t n);
/* Some have characters that JSON writes as an escape. */
bool vr_specials_hide(const struct vr_specials *s);
/* The template takes words out of what it is given, which may join two harmless ends into a special text. */
bool vr_specials_may_join(const struct vr_specials *s);

#endif
