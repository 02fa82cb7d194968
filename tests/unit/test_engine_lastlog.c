/* What the engine's lines say about memory. The lines are llama.cpp's own. */
#include "test.h"

#include <jansson.h>
#include <llama.h>

#include "engine/llama/lastlog.h"

static void test_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line, *device;
        uint64_t asked_bytes;
        bool any, mlock;
    } rows[] = {
        { "llama_model_load: all is well", "", 0, false, false },
        { "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1234.50 MiB on device 1: cudaMalloc failed: out of "
          "memory",
          "CUDA1", 1294467072, true, false },
        { "ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 4294967296", "CUDA0", 4294967296, true,
          false },
        { "alloc_tensor_range: failed to allocate Vulkan2 buffer of size 100", "Vulkan2", 100, true, false },
        { "llama_model_load: error loading model: unable to allocate CUDA3 buffer", "CUDA3", 0, true, false },
        { "CUDA error: out of memory", "", 0, true, false },
        { "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", "", 0, true, false },
        { "warning: failed to mlock 1000-byte buffer (after previously locking 0 bytes): Cannot allocate memory", "", 0,
          false, true },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct vr_shortage s = { 0 };
        vr_lastlog_read(rows[i].line, &s);
        if (s.any != rows[i].any || s.mlock != rows[i].mlock || strcmp(s.device, rows[i].device) != 0 ||
            s.asked_bytes != rows[i].asked_bytes)
            fail_msg("%s: any %d, mlock %d, device '%s', %llu bytes", rows[i].line, s.any, s.mlock, s.device,
                     (unsigned long long)s.asked_bytes);
    }
    /* the first line knows the bytes, later ones only repeat it; a device may be told late */
    struct vr_shortage s = { 0 };
    vr_lastlog_read("CUDA error: out of memory", &s);
    vr_lastlog_read("  current device: 2, in function alloc at ggml-cuda.cu:500", &s);
    assert_string_equal(s.device, "CUDA2");
}

static void say(enum ggml_log_level level, const char *text)
{
    ggml_log_callback fn;
    void *ctx;
    llama_log_get(&fn, &ctx);
    fn(level, text, ctx);
}

static void test_ring(void **state)
{
    (void)state;
    char reason[200];
    vr_lastlog_start();
    say(GGML_LOG_LEVEL_ERROR, "llama_x: this is ");
    say(GGML_LOG_LEVEL_CONT, "why\n");
    say(GGML_LOG_LEVEL_ERROR, "llama_model_load_from_file_impl: failed to load model\n");
    say(GGML_LOG_LEVEL_INFO, "something else\n");
    say(GGML_LOG_LEVEL_DEBUG, "noise\n");
    vr_lastlog_reason(reason, sizeof reason);
    assert_string_equal(reason, "this is why");
    for (int i = 0; i < 1000; i++) say(GGML_LOG_LEVEL_WARN, "f: a \"line\"\n");
    vr_lastlog_add("CUDA0: out of memory");
    assert_true(vr_lastlog_shortage().any);
    vr_lastlog_forget();
    assert_false(vr_lastlog_shortage().any);
    VR_AUTO_BUF b = { 0 };
    vr_lastlog_json(&b, true);
    json_t *j = json_loads(b.data, 0, NULL);
    assert_in_range(json_array_size(j), 30, 64);
    assert_string_equal(json_string_value(json_array_get(j, json_array_size(j) - 1)), "CUDA0: out of memory");
    json_decref(j);
    VR_AUTO_BUF lots = { 0 };
    vr_buf_addc(&lots, 'x', 100000);
    vr_lastlog_add(lots.data); /* is cut */
    vr_lastlog_reason(reason, sizeof reason);
    assert_int_equal(strlen(reason), sizeof reason - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines), cmocka_unit_test(test_ring) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
