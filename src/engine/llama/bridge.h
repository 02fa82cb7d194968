/* The parts of llama.cpp that are only there in C++, behind C functions. No exception passes; llama.cpp promises
 * nothing about these, so they are pinned with it. */
#ifndef VR_ENGINE_LLAMA_BRIDGE_H
#define VR_ENGINE_LLAMA_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>

#include <ggml-backend.h>
#include <llama.h>

#include "engine/llama/forms.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "engine/grammar/grammar.h"

struct vr_bridge_use {
    ggml_backend_buffer_type_t buft;
    uint64_t model_bytes, context_bytes, compute_bytes;
};
/* What the context's memory is made of, by buffer type: how many rows there are, of which the first `max` are in
 * out. -1 and err on failure. */
int vr_bridge_breakdown(const struct llama_context *ctx, struct vr_bridge_use *out, int max, struct vr_err *err);

/* Builds and reserves the graph for a batch, as decoding would; valid until the next call. NULL on failure. */
struct ggml_cgraph *vr_bridge_reserve(struct llama_context *ctx, uint32_t n_tokens, uint32_t n_seqs, uint32_t n_outputs,
                                      struct vr_err *err);
ggml_backend_sched_t vr_bridge_sched(const struct llama_context *ctx);

/* llama.cpp's own fit of a placement to the free memory. 0 fits, 1 does not, -1 failed (err is set). The buffers are
 * as common_fit_params wants them: split and margins for llama_max_devices(), overrides for
 * llama_max_tensor_buft_overrides(). */
int vr_bridge_fit(const char *path, struct llama_model_params *model, struct llama_context_params *context,
                  float *split, struct llama_model_tensor_buft_override *overrides, size_t *margins, uint32_t n_ctx_min,
                  struct vr_err *err);

/* An mmproj with its buffers reserved and nothing loaded, as llama-server makes it: on `dev`, or on the CPU when it is
 * NULL. It stays until the process ends, so that the device can be asked what it has allocated. */
struct vr_bridge_clip {
    uint32_t n_embd;    /* the width of what it makes; the model's embeddings must be as wide */
    uint64_t cpu_bytes; /* on the CPU: weights (without padding) if it is there, and buffers for computing */
};
bool vr_bridge_clip_reserve(const char *path, ggml_backend_dev_t dev, enum llama_flash_attn_type flash,
                            struct vr_bridge_clip *out, struct vr_err *err);

/* llama.cpp's helper library has a log of its own; it says nothing after this. */
void vr_bridge_quiet(void);

/* --- running a model --- */

/* llama_decode(), whose failures may also be exceptions: those are -3, with err set. */
int vr_bridge_decode(struct llama_context *ctx, struct llama_batch batch, struct vr_err *err);

/* Does what the context's memory has put off until the next computation: copies between sequences. */
bool vr_bridge_memory_update(struct llama_context *ctx, struct vr_err *err);

/* The tokens of a text of n bytes, in *out (the caller frees it): how many, or -1. `special` adds what the model wants
 * at the beginning and the end. */
int vr_bridge_tokenize(const struct llama_vocab *vocab, const char *text, size_t n, bool special, llama_token **out,
                       struct vr_err *err);

/* The same; texts of special tokens are those only if `parse`. */
int vr_bridge_tokenize_as(const struct llama_vocab *vocab, const char *text, size_t n, bool special, bool parse,
                          llama_token **out, struct vr_err *err);
/* The text of n tokens, special ones included, in *out (the caller frees it): its bytes, or -1. */
int vr_bridge_detokenize(const struct llama_vocab *vocab, const llama_token *tokens, size_t n, char **out,
                         struct vr_err *err);

/* --- grammars --- */

/* The regular expressions among a lazy grammar's triggers, for vr_grammar_new(); words are passed over. */
struct vr_patterns;
struct vr_patterns *vr_bridge_patterns_new(const struct vr_trigger *triggers, size_t n, struct vr_err *err);
void vr_bridge_patterns_free(struct vr_patterns *p);
/* A vr_pattern_find_fn. The text must be short: the search is a recursion. */
size_t vr_bridge_pattern_find(const void *patterns, size_t i, const char *text, size_t n, bool begins);

/* A JSON schema as GBNF, in *out (the caller frees it). Fails where it can not; passes over what it does not know. */
bool vr_bridge_schema_grammar(const char *schema_json, char **out, struct vr_err *err);
/* Whether a regular expression can be a grammar. False and err: why not. */
bool vr_bridge_pattern_ok(const char *pattern, struct vr_err *err);

/* --- chats --- */

/* The model's chat template, or another. */
struct vr_chats;
struct vr_buf;
struct vr_chat_caps {
    bool given; /* the model has a template; else the most common one is used */
    bool tools, parallel_tools, system, reasoning;
};
struct vr_chats *vr_bridge_chats_open(const struct llama_model *model, const char *template_or_null,
                                      struct vr_chat_caps *caps, struct vr_err *err);
void vr_bridge_chats_close(struct vr_chats *c);
/* What a model with this template is told, and asked, to write down what it hears. */
bool vr_bridge_asr_words(const struct vr_chats *c, struct vr_buf *system, struct vr_buf *user, struct vr_err *err);

struct vr_chat_ask {
    const char *messages, *tools; /* JSON as in the API; tools may be NULL */
    const char *tool_choice;      /* "auto", "required", "none" */
    const char *schema;           /* of the answer; JSON or NULL */
    const char *kwargs;           /* JSON object for the template, or NULL */
    const char *effort;           /* reasoning_effort, or NULL */
    bool parallel;                /* several tool calls in one answer */
    bool keep_reasoning;          /* leave it in the text, with its tags */
    bool continues;               /* the last message is the beginning of the answer */
    bool unopened;                /* the prompt ends with the last message */
};

/* One conversation, written out. Safe to make and use in different threads, one at a time. */
struct vr_chat;
struct vr_chat *vr_bridge_chat_new(const struct vr_chats *c, const struct llama_vocab *vocab,
                                   const struct vr_chat_ask *ask, struct vr_err *err);
void vr_bridge_chat_free(struct vr_chat *c);
const char *vr_bridge_chat_prompt(const struct vr_chat *c, size_t *n);
/* Strings that end an answer in this template; NULL behind the last. */
const char *vr_bridge_chat_stop(const struct vr_chat *c, size_t i);
/* A special token that is part of the answer, such as the one before a tool call. */
bool vr_bridge_chat_keeps(const struct vr_chat *c, llama_token token);
/* The answer is text and nothing else: it needs no parser. */
bool vr_bridge_chat_plain(const struct vr_chat *c);
/* The answer may begin with a thought. */
bool vr_bridge_chat_thinks(const struct vr_chat *c);
/* What its answer must look like; NULL: anything. It is the chat's. */
const struct vr_grammar_spec *vr_bridge_chat_grammar(const struct vr_chat *c);
/* How its answer is taken apart, which points into the chat; and a chat of that: all but its prompt, stop strings and
 * grammar. */
void vr_bridge_chat_form(const struct vr_chat *c, struct vr_chat_form *out);
struct vr_chat *vr_bridge_chat_from(const struct vr_chat_form *form, struct vr_err *err);

/* --- pictures --- */

/* An mmproj that is up. */
struct vr_vision;
/* dev NULL: on the CPU. */
struct vr_vision *vr_bridge_vision_open(const char *path, const struct llama_model *model, ggml_backend_dev_t dev,
                                        enum llama_flash_attn_type flash, int n_threads, ggml_log_callback log,
                                        struct vr_err *err);
void vr_bridge_vision_close(struct vr_vision *e);
/* What stands for a picture in a prompt; no user can guess it. */
/* Whether it takes pictures; and sounds, of so many samples in a second; 0: none. */
bool vr_bridge_vision_sees(const struct vr_vision *e);
uint32_t vr_bridge_vision_rate(const struct vr_vision *e);
const char *vr_bridge_vision_marker(const struct vr_vision *e);

/* A prompt whose markers became pictures: parts of text and of picture, in order. */
struct vr_media_prompt;
struct vr_media_part {
    const llama_token *tokens; /* NULL: a picture */
    uint32_t n_tokens;         /* cells that it takes */
    uint32_t n_pos;            /* positions that it takes: fewer than tokens where pictures have two dimensions */
    uint64_t id;               /* of a picture: the same for the same part of the same file */
    bool whole;                /* of a picture: must be computed in one piece */
};
/* Decodes a file that vr_picture_size() lets through; its pixels are malloc'd. Needs no mmproj. */
/* The same for a sound (WAV, MP3, FLAC) of at most so many samples at that rate; VR_ENOFIT: it has more. */
bool vr_bridge_sound_decode(const uint8_t *file, size_t n, uint32_t rate, size_t most, struct vr_rgb *out,
                            struct vr_err *err);
bool vr_bridge_picture_decode(const uint8_t *file, size_t n, struct vr_rgb *out, struct vr_err *err);
/* The fewest tokens that a sound of so many samples can take, without looking at it. */
uint32_t vr_bridge_sound_least(const struct vr_vision *e, size_t n_samples);
/* Safe to make in another thread than the one that decodes. The text is cut at each `cut`, unless that is empty: no
 * token is made of both sides. */
struct vr_media_prompt *vr_bridge_media_new(const struct vr_vision *e, struct vr_span text, struct vr_span cut,
                                            const struct vr_rgb *pictures, size_t n_pictures, struct vr_err *err);
void vr_bridge_media_free(struct vr_media_prompt *s);
size_t vr_bridge_media_parts(const struct vr_media_prompt *s);
struct vr_media_part vr_bridge_media_part(const struct vr_media_prompt *s, size_t i);
/* Between pieces of a long computation. False: nobody wants the rest. */
typedef bool vr_pause_fn(void *ctx);
/* Computes part i, a picture: what comes of it is kept until the next one is. 0, 2 when it was left, -3. */
int vr_bridge_media_encode(const struct vr_media_prompt *s, size_t i, vr_pause_fn *pause, void *ctx,
                           struct vr_err *err);
/* Puts it into a sequence from position `pos` on, some tokens at a time unless it must be whole. As llama_decode(). */
int vr_bridge_media_decode(const struct vr_media_prompt *s, size_t i, struct llama_context *llama, llama_pos pos,
                           llama_seq_id seq, uint32_t n_batch, vr_pause_fn *pause, void *ctx, struct vr_err *err);

/* Takes an answer apart while it grows. `say` gets what is new: text, reasoning, or one entry of delta.tool_calls as
 * JSON. */
enum vr_said { VR_PART_TEXT, VR_PART_REASONING, VR_PART_TOOL };
typedef void vr_say_fn(void *ctx, enum vr_said part, const char *text, size_t n);
struct vr_answer;
struct vr_answer *vr_bridge_answer_new(const struct vr_chat *c, struct vr_err *err);
void vr_bridge_answer_free(struct vr_answer *a);
bool vr_bridge_answer_add(struct vr_answer *a, const char *text, size_t n, struct vr_err *err);
/* Parses all that was added; the cost grows with it. `last`: no more will come. Never fails: what the template does not
 * foresee is text in the end. */
void vr_bridge_answer_say(struct vr_answer *a, bool last, vr_say_fn *say, void *ctx);
/* From here on everything is text: adding can be left out. */
bool vr_bridge_answer_only_text(const struct vr_answer *a);
bool vr_bridge_answer_has_tools(const struct vr_answer *a);
/* One call was wanted and a second one begins: it is not said, and the answer can end. */
bool vr_bridge_answer_is_full(const struct vr_answer *a);
bool vr_bridge_answer_reasons(const struct vr_answer *a); /* and has said nothing else yet */

#ifdef __cplusplus
}
#endif
#endif
