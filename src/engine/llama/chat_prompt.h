/* The prompt of a chat, in which only what the template wrote can become special tokens.
 *
 * llama.cpp renders a conversation to one text and tokenizes it whole: a message that spells <|im_end|> would end its
 * turn. (Its Jinja engine can tell input from template, but loses it where strings are split, joined or dumped as JSON,
 * and hands out one string.) So a conversation that has such a text somewhere is rendered a second time with marks in
 * them (content/marks.h), and cut at the marks. All others are rendered and tokenized once, as ever. */
#ifndef VR_ENGINE_LLAMA_CHAT_PROMPT_H
#define VR_ENGINE_LLAMA_CHAT_PROMPT_H

#include "base/buf.h"
#include "engine/content/specials.h"
#include "engine/llama/bridge.h"

/* Texts of special tokens that one conversation may spell: each costs a call of the tokenizer. */
#define VR_MOST_SPELLED 10000

/* The special texts of a vocabulary and the template that is used with it: `own`, or the model's if that is NULL. */
struct vr_specials *vr_chat_specials(const struct llama_model *model, const char *own, struct vr_err *err);

struct vr_chat_prompt {
    struct vr_buf text;
    char mark[4]; /* where the text is to be cut; "": nowhere */
    bool bare;    /* nothing is added at the beginning and the end */
};
void vr_chat_prompt_done(struct vr_chat_prompt *p);

/* The prompt of `chat`, which was made of `ask`. */
bool vr_chat_prompt_make(struct vr_chat_prompt *out, const struct vr_specials *s, const struct vr_chats *chats,
                         const struct llama_vocab *vocab, const struct vr_chat_ask *ask, const struct vr_chat *chat,
                         struct vr_err *err) VR_MUST_CHECK;
/* As vr_bridge_tokenize(). */
int vr_chat_prompt_tokenize(const struct vr_chat_prompt *p, const struct llama_vocab *vocab, llama_token **out,
                            struct vr_err *err);

#endif
