/* Pictures and sounds: llama.cpp's mtmd. Files are decoded in one process (engine/prepare), and computed in another. */
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <mtmd.h>
#include <mtmd-helper.h>

#include "engine/llama/bridge.h"
#include "engine/llama/bridge_guard.h"

struct vr_pauses {
    vr_pause_fn *fn;
    void *ctx;
    unsigned n_nodes; /* since the last one */
    bool left;        /* nobody wants the rest */
};

struct vr_vision {
    mtmd_context *ctx;
    std::string marker;
    mutable vr_pauses pause;                      /* of the picture that is being computed */
    uint32_t short_tokens = 0, window_tokens = 0; /* of silence: SHORT_S; WINDOW_S more of it */
};

/* Most models hear in windows of 30 s, and fill up the last one; others have as many tokens for each second. */
static constexpr double SHORT_S = 0.1;
static constexpr size_t WINDOW_S = 30;

/* Asked before and after nodes of the graph: after every PIECE of them there is a pause. */
static bool between_nodes(struct ggml_tensor *, bool ask, void *user)
{
    enum { PIECE = 16 };
    vr_pauses *p = &((vr_vision *)user)->pause;
    if (!p->fn) return !ask;
    if (ask) return p->left || ++p->n_nodes % PIECE == 0;
    if (!p->left) p->left = !p->fn(p->ctx);
    return !p->left;
}

struct vr_media_prompt {
    const vr_vision *vision;
    mtmd::input_chunks chunks;
    std::vector<uint64_t> ids;
};

/* Tokens of so much silence; 0: it takes none. */
static uint32_t silence_tokens(const vr_vision *e, size_t n_samples)
{
    struct vr_err ignored = {};
    const std::vector<float> silence(n_samples);
    vr_rgb sound = {};
    sound.sound = true;
    sound.pixels = { (const char *)silence.data(), n_samples * sizeof(float) };
    vr_media_prompt *s = vr_bridge_media_new(e, { e->marker.data(), e->marker.size() }, {}, &sound, 1, &ignored);
    uint32_t n = 0;
    for (size_t i = 0; s && i < vr_bridge_media_parts(s); i++) {
        const vr_media_part part = vr_bridge_media_part(s, i);
        n += part.tokens ? 0 : part.n_tokens;
    }
    vr_bridge_media_free(s);
    return n;
}

static void try_silence(vr_vision *e)
{
    const uint32_t rate = vr_bridge_vision_rate(e);
    e->short_tokens = silence_tokens(e, (size_t)(SHORT_S * rate));
    /* by how much it grows: the last window may be filled up, or another one be added */
    const uint32_t one = silence_tokens(e, WINDOW_S * rate), two = silence_tokens(e, 2 * WINDOW_S * rate);
    e->window_tokens = two > one ? std::min(one, two - one) : 0;
}

uint32_t vr_bridge_sound_least(const struct vr_vision *e, size_t n_samples)
{
    const uint32_t rate = vr_bridge_vision_rate(e);
    if (n_samples < SHORT_S * rate) return 0;
    const uint64_t whole = n_samples / (WINDOW_S * rate) * e->window_tokens;
    return (uint32_t)std::max<uint64_t>(whole, e->short_tokens);
}

struct vr_vision *vr_bridge_vision_open(const char *path, const struct llama_model *model, ggml_backend_dev_t dev,
                                        enum llama_flash_attn_type flash, int n_threads, ggml_log_callback log,
                                        struct vr_err *err)
{
    return guard("mmproj", (vr_vision *)nullptr, err, [&]() -> vr_vision * {
        std::random_device random;
        char marker[64];
        snprintf(marker, sizeof marker, "<__media_%08x%08x__>", random(), random());
        mtmd_context_params p = mtmd_context_params_default();
        p.use_gpu = dev != nullptr;
        p.device = dev;
        p.print_timings = false;
        p.n_threads = n_threads;
        p.media_marker = marker;
        p.flash_attn_type = flash;
        std::unique_ptr<vr_vision> vision(new vr_vision{ nullptr, marker, {} });
        p.cb_eval = between_nodes;
        p.cb_eval_user_data = vision.get();
        mtmd_log_set(log, nullptr);
        mtmd_helper_log_set(log, nullptr);
        mtmd_context *ctx = vision->ctx = mtmd_init_from_file(path, model, p);
        if (!ctx) return vr_fail(err, VR_EENGINE, "the vision projector (mmproj) could not be loaded"), nullptr;
        if (mtmd_support_audio(ctx)) try_silence(vision.get());
        if (mtmd_support_vision(ctx) || mtmd_support_audio(ctx)) return vision.release();
        mtmd_free(ctx);
        return vr_fail(err, VR_EUSAGE, "this mmproj takes neither images nor sound"), nullptr;
    });
}

void vr_bridge_vision_close(struct vr_vision *e)
{
    if (e) mtmd_free(e->ctx);
    delete e;
}

bool vr_bridge_vision_sees(const struct vr_vision *e) { return mtmd_support_vision(e->ctx); }

uint32_t vr_bridge_vision_rate(const struct vr_vision *e)
{
    int rate = mtmd_support_audio(e->ctx) ? mtmd_get_audio_sample_rate(e->ctx) : 0;
    return rate > 0 ? (uint32_t)rate : 0;
}

const char *vr_bridge_vision_marker(const struct vr_vision *e) { return e->marker.c_str(); }

/* A file may become several parts: each has its own number behind the file's. */
static std::vector<uint64_t> number_chunks(const mtmd_input_chunks *chunks)
{
    std::vector<uint64_t> ids;
    uint64_t n = 0;
    for (size_t i = 0; i < mtmd_input_chunks_size(chunks); i++) {
        const char *name = mtmd_input_chunk_get_id(mtmd_input_chunks_get(chunks, i));
        ids.push_back(name ? std::hash<std::string>{}(std::string(name) + ":" + std::to_string(n++)) : 0);
    }
    return ids;
}

bool vr_bridge_picture_decode(const uint8_t *file, size_t n, struct vr_rgb *out, struct vr_err *err)
{
    return guard("decoding an image", false, err, [&] {
        /* no context is asked for anything but sounds, which the file is not */
        auto b = mtmd_helper_bitmap_init_from_buf(nullptr, file, n, false, mtmd_helper_init_opt_default());
        const mtmd::bitmap_ptr bitmap(b.bitmap);
        if (!bitmap) return vr_fail(err, VR_EUSAGE, "the file is corrupt");
        const size_t bytes = mtmd_bitmap_get_n_bytes(bitmap.get());
        char *pixels = (char *)malloc(bytes + 1);
        if (!pixels) throw std::bad_alloc();
        memcpy(pixels, mtmd_bitmap_get_data(bitmap.get()), bytes);
        out->width = mtmd_bitmap_get_nx(bitmap.get());
        out->height = mtmd_bitmap_get_ny(bitmap.get());
        out->pixels = { pixels, bytes };
        snprintf(out->id, sizeof out->id, "%s", mtmd_bitmap_get_id(bitmap.get()));
        return true;
    });
}

/* A text as the vision library takes it: pictures where markers are, and pieces of text between them and the cuts. */
struct media_parts {
    std::vector<mtmd_input_text> texts;
    std::vector<mtmd_input_part> parts;
    std::vector<const mtmd_input_part *> list;
    size_t n_pictures = 0;
    media_parts(const std::string &all, const std::string &marker, const std::string &cut,
                const std::vector<const mtmd_bitmap *> &pictures)
    {
        std::vector<const mtmd_bitmap *> shown; /* behind each text */
        for (size_t at = 0, end; at <= all.size(); at = end) {
            const size_t picture = all.find(marker, at), seam = cut.empty() ? std::string::npos : all.find(cut, at);
            end = std::min({ picture, seam, all.size() });
            texts.push_back({ all.data() + at, end - at, false, true });
            shown.push_back(end == picture && n_pictures < pictures.size() ? pictures[n_pictures] : nullptr);
            n_pictures += end == picture;
            end += end == picture ? marker.size() : end == seam ? cut.size() : 1;
        }
        for (size_t i = 0; i < texts.size(); i++) {
            if (texts[i].text_len) parts.push_back({ &texts[i], nullptr });
            if (shown[i]) parts.push_back({ nullptr, shown[i] });
        }
        for (const auto &p : parts) list.push_back(&p);
    }
};

struct vr_media_prompt *vr_bridge_media_new(const struct vr_vision *e, struct vr_span text, struct vr_span cut,
                                            const struct vr_rgb *pictures, size_t n_pictures, struct vr_err *err)
{
    return guard("image", (vr_media_prompt *)nullptr, err, [&]() -> vr_media_prompt * {
        mtmd::bitmaps all;
        for (size_t i = 0; i < n_pictures; i++) {
            const vr_rgb *p = &pictures[i];
            all.entries.emplace_back(
                p->sound ? mtmd_bitmap_init_from_audio(p->pixels.n / sizeof(float), (const float *)p->pixels.data)
                         : mtmd_bitmap_init(p->width, p->height, (const unsigned char *)p->pixels.data));
            all.entries.back().set_id(p->id);
        }
        std::unique_ptr<vr_media_prompt> s(new vr_media_prompt{ e, mtmd::input_chunks(mtmd_input_chunks_init()), {} });
        const std::string whole(text.data, text.n);
        const media_parts in(whole, e->marker, std::string(cut.data, cut.n), all.c_ptr());
        if (in.n_pictures != n_pictures)
            return vr_fail(err, VR_EUSAGE, "the model's chat template does not support images or sound"), nullptr;
        if (mtmd_tokenize_from_parts(e->ctx, s->chunks.ptr.get(), in.list.data(), in.list.size(), true) != 0)
            return vr_fail(err, VR_EUSAGE, "an image or a sound cannot be preprocessed for this model"), nullptr;
        s->ids = number_chunks(s->chunks.ptr.get());
        return s.release();
    });
}

void vr_bridge_media_free(struct vr_media_prompt *s) { delete s; }
size_t vr_bridge_media_parts(const struct vr_media_prompt *s) { return mtmd_input_chunks_size(s->chunks.ptr.get()); }

struct vr_media_part vr_bridge_media_part(const struct vr_media_prompt *s, size_t i)
{
    const mtmd_input_chunk *c = mtmd_input_chunks_get(s->chunks.ptr.get(), i);
    vr_media_part p = {};
    size_t n = mtmd_input_chunk_get_n_tokens(c);
    if (mtmd_input_chunk_get_type(c) == MTMD_INPUT_CHUNK_TYPE_TEXT)
        p.tokens = mtmd_input_chunk_get_tokens_text(c, &n);
    else
        p.whole = mtmd_decode_use_non_causal(s->vision->ctx, c);
    p.n_tokens = (uint32_t)n;
    p.n_pos = (uint32_t)mtmd_input_chunk_get_n_pos(c);
    p.id = s->ids[i];
    return p;
}

int vr_bridge_media_encode(const struct vr_media_prompt *s, size_t i, vr_pause_fn *pause, void *ctx, struct vr_err *err)
{
    return guard("image", -3, err, [&] {
        s->vision->pause = { pause, ctx, 0, false };
        int rc = mtmd_encode_chunk(s->vision->ctx, mtmd_input_chunks_get(s->chunks.ptr.get(), i));
        bool left = s->vision->pause.left;
        s->vision->pause = {};
        if (left) return 2;
        return rc == 0 ? 0 : (vr_fail(err, VR_EENGINE, "an image or a sound could not be encoded"), -3);
    });
}

int vr_bridge_media_decode(const struct vr_media_prompt *s, size_t i, struct llama_context *llama, llama_pos pos,
                           llama_seq_id seq, uint32_t n_batch, vr_pause_fn *pause, void *ctx, struct vr_err *err)
{
    return guard("image", -3, err, [&] {
        const mtmd_input_chunk *c = mtmd_input_chunks_get(s->chunks.ptr.get(), i);
        llama_pos end = 0;
        bool whole = mtmd_decode_use_non_causal(s->vision->ctx, c); /* others would be computed so, too */
        vr_pauses p = { pause, ctx, 0, false };
        auto next = [](llama_batch, void *user) -> int32_t {
            auto *q = (vr_pauses *)user;
            q->left = !q->fn(q->ctx);
            return q->left ? 2 : 0;
        };
        return (int)mtmd_helper_decode_image_chunk(s->vision->ctx, llama, c, mtmd_get_output_embd(s->vision->ctx), pos,
                                                   seq, (int32_t)(whole ? llama_n_batch(llama) : n_batch), &end,
                                                   whole ? nullptr : +next, &p);
    });
}
