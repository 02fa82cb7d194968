/* Files of sound to samples, with the decoder that llama.cpp ships (miniaudio: WAV, MP3, FLAC). Its own helper decodes
 * a file to its end, however long that is, and wants a projector at hand; here the end is told, and a rate. */
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <openssl/evp.h>

#define MINIAUDIO_IMPLEMENTATION
#define MA_NO_ENCODING
#define MA_NO_DEVICE_IO
#define MA_NO_RESOURCE_MANAGER
#define MA_NO_NODE_GRAPH
#define MA_NO_ENGINE
#define MA_NO_GENERATION
#define MA_API static
#define ma_atomic_global_lock                                                                                          \
    vr_ma_atomic_global_lock /* the one name that is not static: llama.cpp's helper has it, too */
#include <miniaudio/miniaudio.h>

#include "engine/llama/bridge.h"
#include "engine/llama/bridge_guard.h"

/* As mtmd names pictures: nobody else's file gets the same one. */
static void name(const uint8_t *file, size_t n, char *out)
{
    unsigned char sum[EVP_MAX_MD_SIZE] = {};
    EVP_Digest(file, n, sum, nullptr, EVP_sha256(), nullptr);
    for (int i = 0; i < VR_RGB_ID / 2; i++) snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

bool vr_bridge_sound_decode(const uint8_t *file, size_t n, uint32_t rate, size_t most, struct vr_rgb *out,
                            struct vr_err *err)
{
    return guard("decoding a sound", false, err, [&] {
        enum { PIECE = 1 << 16 };
        ma_decoder decoder;
        const ma_decoder_config config = ma_decoder_config_init(ma_format_f32, 1, rate);
        if (ma_decoder_init_memory(file, n, &config, &decoder) != MA_SUCCESS)
            return vr_fail(err, VR_EUSAGE, "the file is corrupt");
        std::vector<float> all;
        for (ma_uint64 got = PIECE; got == PIECE && all.size() <= most;) {
            const size_t at = all.size();
            all.resize(at + PIECE);
            if (ma_decoder_read_pcm_frames(&decoder, all.data() + at, PIECE, &got) != MA_SUCCESS) got = 0; /* the end */
            all.resize(at + got);
        }
        ma_decoder_uninit(&decoder);
        if (all.size() > most) return vr_fail(err, VR_ENOFIT, "it is longer than %zu seconds", most / rate);
        if (all.empty()) return vr_fail(err, VR_EUSAGE, "it has no samples");
        for (float &x : all) x = std::isfinite(x) ? x : 0;
        char *samples = (char *)malloc(all.size() * sizeof(float));
        if (!samples) throw std::bad_alloc();
        memcpy(samples, all.data(), all.size() * sizeof(float));
        *out = {};
        out->sound = true;
        out->pixels = { samples, all.size() * sizeof(float) };
        name(file, n, out->id);
        return true;
    });
}
