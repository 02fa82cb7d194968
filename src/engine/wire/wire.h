/* The wire between the front and an engine process: frames on a stream socket.
 *
 *     frame = u32 payload bytes, u8 kind, u32 id, payload          all numbers little-endian, floats IEEE
 *
 * `id` names a request: the front chooses it, any number that is not in use by a request that is still running; it is
 * 0 in frames that belong to none. A frame of an unknown kind, from the wrong side or past its kind's cap (wire.def)
 * is malformed, and so is a payload that does not decode: the reader closes the connection.
 *
 * LOAD: {
 *   "model": "/path/first-part.gguf",  a file's name that is not UTF-8: {"hex":"2f746d70..."}
 *   "devices": ["CUDA1","CUDA0"],      the engine's names, in placement order; [] or absent: CPU only
 *   "n_gpu_layers": 81, "tensor_split": [26,47,8], "split_mode": "layer"|"none"|"tensor", "pipeline": false,
 *   "overrides": [{"pattern":"ffn_.*_exps","device":"CPU"}],
 *   "n_ctx": 4096, "n_seq": 4, "n_batch": 512, "n_ubatch": 512, "n_outputs": 0, "kv_unified": false, "swa_full": false,
 *   "n_rollback": 0, "load_mtp": false,
 *   "type_k": "f16", "type_v": "f16", "flash_attn": "auto"|"on"|"off", "kv_offload": true, "op_offload": true,
 *   "offload_min": 32,                 tokens of a batch from which on weights in host memory are sent to a device
 *   "threads": 0, "threads_batch": 0,  0: one per physical core
 *   "mmap": true, "mlock": false,
 *   "extra_bufts": true,               repacked weights on the CPU; false gives the very bits of the virtual GPUs
 *   "cpu": "/path/libggml-cpu-x.so",   a variant that was proven already; "auto": proven here
 *   "chat_template": "...",            instead of the model's own
 *   "spec": "off",                     who guesses tokens: a name of engine/speculate/kinds.def
 *   "n_draft": 0, "steer": true,       guesses at a time, at most (0: usual for the kind); false: always as many
 *   "draft": "/path/small.gguf", "draft_device": "CUDA0",   "" for a device: the CPU
 *   "mmproj": "/path/mmproj.gguf", "mmproj_device": "CUDA0",   pictures
 *   "loras": [{"path":"/path/adapter.gguf","scale":1}],        adapters, and how strong they are unless a request says
 *   "embeddings": false,               true: embeddings also from a model that is made for text
 *   "cache_mib": 8192,                 host memory for checkpoints and cached prompts
 *   "cache_file": "/path/x.prompts", "cache_disk_mib": 16384,   where they outlive the process
 *   "keep_billing_header": false,
 *   "vgpus": [{"name":"CUDA0","about":"RTX 3090","mib":24576,"cap_mib":24000,"run_mib":0,"like_cuda":false,"cc":860}] }
 *                                      devices that this process makes up
 * Everything but "model" may be absent; what is not listed is refused. engine/params reads and writes it.
 *
 * REQUEST: a body that passed vr_request_check(), with the fields that request_fields.def marks TAKE, under OpenAI's
 * names, and "kind": "chat" | "completion" | "embedding" | "rerank". The engine relies on their types and ranges.
 * "client" and "tenant" are numbers for whoever sent it (absent: 0): slots are shared fairly between clients, and what
 * was computed for one tenant is never used again for another. They are the last fields, so that they can be read
 * without the others.
 * "look" asks for something about a request instead of its answer (look.h): one BEGIN, perhaps one DELTA of text, one
 * END; it takes no slot. "ids" true tells {"id":N} of each token as LOGPROBS, where there are none. "stream" true sends
 * every piece of text as soon as it is sure; otherwise pieces are collected. "asr" says that it came as a file of
 * speech: its only message is a text and a sound, and with "ask" the words that such a model is asked with come before
 * that text; with "asked" they are there.
 *
 * A text request has n choices per prompt: choice = prompt * n + k. What comes back: one BEGIN, then DELTAs, and one
 * END per choice; or one ERROR instead of everything that would still have come. An embedding: BEGIN, a RESULT per
 * input, one END; reranking the same, with one number per document, the higher the more relevant. After CANCEL all
 * remaining ENDs come at once with VR_END_CANCELLED (none if the request was over; one, of choice 0, if it was still
 * being prepared).
 *
 * READY: {"engine","arch","desc","n_ctx","n_ctx_seq","n_ctx_train","n_seq","n_vocab","n_embd","n_layers","n_params",
 *   "model_bytes","kind":"text"|"embedding"|"rerank","embeddings":bool,
 *   "loras":[{"id","path","scale","task_name","prompt_prefix"}],"vision":bool,"audio":bool,"chat":{"template":bool,"tools":bool,"parallel_tools":bool,"reasoning":bool,"system":bool,
 *   "problem":string|null},"threads","cpu","cpu_path",
 *   "load_ms","context_ms","sent_bytes","devices":[{"name","model_bytes","context_bytes","compute_bytes","free_bytes"}],"host":{...},
 *   "draft":{"devices","host"},"head":{"devices","host"},"spec":"mtp","confinement":{"seccomp":"in_force"|"unused"|"unsupported"|"refused",…}
 * (base/confine.h)} FAILED (failure.h):
 * {"stage":"load"|"context"|"decode","out_of_memory":bool,"device":"CUDA1"|null,"asked_bytes","free_bytes",
 *   "missing_bytes","message","left":[{"name","free_bytes"}],"log":["the engine's last lines"]}
 *   bytes are 0 where unknown; "left" is what devices had free after the failure, empty when they could not be asked
 * PROGRESS: {"stage":"load"|"context"|"warmup","percent":42,"sent_bytes"}; sent_bytes: to other machines that lend
 *   devices, since the process began; in READY, until the weights were loaded
 * ERROR: {"message","param":string|null,"code":string|null}; its type follows from the status; of a prompt that exceeds
 *   the context also "n_prompt_tokens" and "n_ctx"
 * STATUS: {"slots":[{"id","state":"idle"|"prompt"|"text","request","n_cached","n_prompt","n_text"}],"n_ctx_seq",
 *   "running","queued","prompt_tokens","text_tokens","cached_tokens","prompt_tok_s","text_tok_s","batches",
 *   "begun","cancelled","errors","preempted","drafted_tokens","accepted_tokens","filler_tokens",
 *   "spec":{"kind","acceptance","gain"},
 *   "cache":{"limit_bytes","bytes","prompts","checkpoints","saved_tokens","restored_tokens","recomputed_tokens",
 *   "disk_limit_bytes","disk_bytes","disk_prompts"}}
 *   totals of requests and tokens since this process was started; rates over the last second or so */
#ifndef VR_ENGINE_WIRE_WIRE_H
#define VR_ENGINE_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define VR_WIRE_HEAD 9

enum vr_wire_kind {
#define WIRE(name, number, sender, max) VR_WIRE_##name = (number),
#include "engine/wire/wire.def"
#undef WIRE
};
enum vr_wire_side { VR_FROM_FRONT, VR_FROM_ENGINE };

struct vr_frame {
    enum vr_wire_kind kind;
    uint32_t id;
    const uint8_t *data; /* the payload, in the buffer that was parsed */
    size_t n;
};

const char *vr_wire_name(enum vr_wire_kind kind); /* "DELTA"; "?" for none */

/* Reads the head of a frame that `side` sent: kind, id and n are set, data is not. False: malformed. */
bool vr_wire_head(const uint8_t head[VR_WIRE_HEAD], enum vr_wire_side side, struct vr_frame *out) VR_MUST_CHECK;
/* The first frame of n bytes: its length with the head; 0 when it is not all there; -1 when it is malformed. */
long vr_wire_parse(const uint8_t *data, size_t n, enum vr_wire_side side, struct vr_frame *out) VR_MUST_CHECK;

/* Appends a frame. Payloads past the cap are a fault of the caller (assert). */
void vr_wire_add(struct vr_buf *out, enum vr_wire_kind kind, uint32_t id, const void *payload, size_t n);
/* The same in place: begin, append the payload to `out`, end with what begin returned. */
size_t vr_wire_open(struct vr_buf *out, enum vr_wire_kind kind, uint32_t id);
void vr_wire_close(struct vr_buf *out, size_t at);

/* --- payloads that are not JSON --- */

struct vr_wire_begin {
    uint32_t prompt_tokens; /* of all prompts */
    uint32_t cached_tokens; /* of the first one, as far as known; END has the final number */
    uint32_t slot;          /* of the first choice, and 1; 0: none */
};

enum vr_delta {
    VR_DELTA_TEXT,
    VR_DELTA_REASONING,
    VR_DELTA_TOOL,
    VR_DELTA_LOGPROBS,
    VR_DELTA_TIMINGS,
    VR_DELTA_PROGRESS,
    VR_N_DELTAS
};

/* u8 choice, u8 what, bytes.
 * TEXT, REASONING: valid UTF-8, never a split character, nothing of a stop string.
 * TOOL: one entry of OpenAI's delta.tool_calls:
 * {"index":0,"id":"...","type":"function","function":{"name","arguments"}}; id, type and name come with the first delta
 * of an index, arguments in pieces. LOGPROBS: of the tokens of the delta before: OpenAI's entries
 * {"id","token","logprob","bytes","top_logprobs"} separated by commas, without the brackets around them.
 * TIMINGS: where they were asked for, before each token of a stream, or once at the end: llama.cpp's {"cache_n",
 * "prompt_n",...}. PROGRESS: the same for a stream's prompt, {"total","cache","processed","time_ms"}. */
struct vr_wire_delta {
    uint8_t choice;
    enum vr_delta what;
    const char *text; /* in the frame; no NUL */
    size_t n;
};

enum vr_end { VR_END_STOP, VR_END_LENGTH, VR_END_TOOL_CALLS, VR_END_CANCELLED, VR_END_ERROR, VR_N_ENDS };

/* u8 choice, u8 reason, u8 stop, u8 0, six u32, three f32: in the order below */
struct vr_wire_end {
    uint8_t choice;
    enum vr_end reason;
    uint8_t stop;               /* which of "stop" ended it; VR_NO_STOP: none */
    uint32_t completion_tokens; /* with those of the reasoning */
    uint32_t reasoning_tokens;
    uint32_t cached_tokens; /* of the prompt, not computed again; 0 for all but the first choice of a prompt */
    uint32_t drafted_tokens, accepted_tokens; /* what a draft guessed, and what of it was right */
    uint32_t slot;                            /* where it was computed last, and 1; 0: nowhere */
    float queue_ms, prompt_ms, text_ms;
};
#define VR_NO_STOP 255

/* u32 index, u32 n_tokens, u32 n_dims, f32 x n_dims */
struct vr_wire_result {
    uint32_t index, n_tokens, n_dims;
    const uint8_t *floats; /* little-endian, not aligned */
};

/* four u32: in the order below. Sent by the thread that hears the front, so it comes also when no other thread does
 * anything. */
struct vr_wire_pulse {
    uint32_t stalled_ms; /* a thread has work, and has not come on for so long: nothing was computed, or accepted */
    uint32_t preparing;  /* requests that are not prepared yet, */
    uint32_t oldest_ms;  /* and for how long the oldest is here */
    uint32_t killed;     /* since the start: requests that took too much */
};

/* u16 status, JSON */
struct vr_wire_error {
    uint16_t status;
    const char *json; /* in the frame; no NUL */
    size_t n;
};

void vr_wire_add_begin(struct vr_buf *out, uint32_t id, const struct vr_wire_begin *b);
void vr_wire_add_delta(struct vr_buf *out, uint32_t id, uint8_t choice, enum vr_delta what, const char *text, size_t n);
void vr_wire_add_end(struct vr_buf *out, uint32_t id, const struct vr_wire_end *e);
void vr_wire_add_result(struct vr_buf *out, uint32_t id, uint32_t index, uint32_t n_tokens, const float *v, uint32_t n);
/* param and code may be NULL. */
void vr_wire_add_error(struct vr_buf *out, uint32_t id, uint16_t status, const char *param, const char *code,
                       const char *message);
/* What a request is refused for. */
struct vr_refusal;
void vr_wire_add_refusal(struct vr_buf *out, uint32_t id, const struct vr_refusal *why);
void vr_wire_add_stop(struct vr_buf *out, uint32_t ms);
void vr_wire_add_lora(struct vr_buf *out, const float *scales, size_t n);
void vr_wire_add_pulse(struct vr_buf *out, const struct vr_wire_pulse *p);

bool vr_wire_get_begin(const struct vr_frame *f, struct vr_wire_begin *out) VR_MUST_CHECK;
bool vr_wire_get_delta(const struct vr_frame *f, struct vr_wire_delta *out) VR_MUST_CHECK;
bool vr_wire_get_end(const struct vr_frame *f, struct vr_wire_end *out) VR_MUST_CHECK;
bool vr_wire_get_result(const struct vr_frame *f, struct vr_wire_result *out) VR_MUST_CHECK;
bool vr_wire_get_error(const struct vr_frame *f, struct vr_wire_error *out) VR_MUST_CHECK;
bool vr_wire_get_stop(const struct vr_frame *f, uint32_t *ms) VR_MUST_CHECK;
/* n scales, which are finite. */
bool vr_wire_get_lora(const struct vr_frame *f, float *scales, size_t n) VR_MUST_CHECK;
bool vr_wire_get_pulse(const struct vr_frame *f, struct vr_wire_pulse *out) VR_MUST_CHECK;

/* Whose a REQUEST is: its last two fields, ,"client":N,"tenant":N} to the byte. Where JSON ends so, it can be nothing
 * else. 0 where there are none. */
struct vr_whose {
    uint64_t client, tenant;
};
struct vr_whose vr_wire_whose(const char *json, size_t n);

const char *vr_end_name(enum vr_end reason); /* as in finish_reason: "stop", "length", "tool_calls", ... */

#endif
