/* Where a model is: the same text from every placement, memory that runs out at each stage, loads that are refused. */
#include "test_engine.h"

void test_same_text_everywhere(void **state)
{
    (void)state;
#define THREE "'vgpus': [{'name':'CUDA0','mib':64},{'name':'CUDA1','mib':24},{'name':'CUDA2','mib':40,'cc':890}]"
    static const struct {
        const char *what, *more;
        bool experts;
        int n_devices;
    } rows[] = {
        { "dense, three cards",
          FOUR ", " THREE ", 'devices': ['CUDA2','CUDA0','CUDA1'], 'tensor_split': [3,3,1], 'n_gpu_layers': 7", false,
          3 },
        { "dense, half on the host",
          FOUR ", " THREE ", 'devices': ['CUDA1','CUDA0'], 'tensor_split': [2,2], 'n_gpu_layers': 4", false, 2 },
        { "dense, no pipeline",
          FOUR ", " THREE ", 'devices': ['CUDA0','CUDA1','CUDA2'], 'tensor_split': [1,1,5], 'n_gpu_layers': 7,"
               " 'pipeline': false",
          false, 3 },
        { "experts, three cards",
          FOUR ", " THREE ", 'devices': ['CUDA0','CUDA1','CUDA2'], 'tensor_split': [4,1,2], 'n_gpu_layers': 7", true,
          3 },
        { "experts on the host",
          FOUR ", " THREE ", 'devices': ['CUDA0','CUDA1','CUDA2'], 'tensor_split': [2,2,3], 'n_gpu_layers': 7,"
               " 'overrides': [{'pattern':'ffn_.*_exps','device':'CPU'}]",
          true, 3 },
        { "one expert tensor elsewhere",
          FOUR
          ", " THREE ", 'devices': ['CUDA0','CUDA1'], 'tensor_split': [4,3], 'n_gpu_layers': 7,"
          " 'overrides': "
          "[{'pattern':'blk\\\\.2\\\\.ffn_up_exps','device':'CUDA1'},{'pattern':'blk\\\\.[45].*exps','device':'CPU'}]",
          true, 2 },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct client c;
        up(&c, rows[i].experts ? moe : dense, FOUR);
        char *want = ask_text(&c, GREEDY);
        assert_true(strlen(want) > 40);
        down(&c);
        up(&c, rows[i].experts ? moe : dense, rows[i].more);
        char *got = ask_text(&c, GREEDY);
        if (strcmp(want, got) != 0) fail_msg("%s: '%s' is not '%s'", rows[i].what, got, want);
        const json_t *devices = json_object_get(c.ready, "devices");
        assert_int_equal(json_array_size(devices), rows[i].n_devices);
        for (size_t k = 0; k < json_array_size(devices); k++)
            assert_true(json_integer_value(json_object_get(json_array_get(devices, k), "model_bytes")) > 0);
        down(&c);
        free(want);
        free(got);
    }
}

void test_out_of_memory(void **state)
{
    (void)state;
    static const struct {
        const char *stage, *device, *cap, *n_ctx;
    } rows[] = {
        { "load", "CUDA1", "'cap_mib':0.5", "4096" },
        { "context", "CUDA1", "'cap_mib':3", "16384" },
        { "decode", "CUDA1", "'cap_mib':40,'run_mib':64", "4096" },
        { "load", "CUDA1", "'cap_mib':0.5,'like_cuda':true", "4096" },
        { "context", "CUDA1", "'cap_mib':3,'like_cuda':true", "16384" },
        { "decode", "CUDA1", "'cap_mib':40,'run_mib':64,'like_cuda':true", "4096" }, /* dies, and says why before */
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct client c;
        client_start(
            &c,
            "{'model': '%s', 'n_seq': 1, 'n_ctx': %s, 'n_batch': 128, 'n_ubatch': 128, 'devices': ['CUDA0','CUDA1'], "
            "'tensor_split': [4,3], 'n_gpu_layers': 7, 'vgpus': "
            "[{'name':'CUDA0','mib':256},{'name':'CUDA1','mib':64,%s}]}",
            dense, rows[i].n_ctx, rows[i].cap);
        assert_null(c.ready);
        assert_non_null(c.failed);
        assert_string_equal(json_string_value(json_object_get(c.failed, "stage")), rows[i].stage);
        assert_true(json_is_true(json_object_get(c.failed, "out_of_memory")));
        assert_string_equal(json_string_value(json_object_get(c.failed, "device")), rows[i].device);
        bool dies = strstr(rows[i].cap, "like_cuda") && strcmp(rows[i].stage, "decode") == 0;
        /* all that is free on both, but for what the model has there already */
        const json_t *each = json_object_get(c.failed, "left"), *d;
        assert_int_equal(json_array_size(each), dies ? 0 : 2);
        for (size_t k = 0; k < json_array_size(each); k++) {
            d = json_array_get(each, k);
            json_int_t has = json_integer_value(json_object_get(d, "free_bytes"));
            assert_string_equal(json_string_value(json_object_get(d, "name")), k ? "CUDA1" : "CUDA0");
            if (strcmp(rows[i].stage, "load") == 0) assert_int_equal(has, k ? 512 << 10 : 256 << 20);
            assert_true(has > 0 && has <= 256 << 20);
        }
        json_int_t asked = json_integer_value(json_object_get(c.failed, "asked_bytes"));
        json_int_t left = json_integer_value(json_object_get(c.failed, "free_bytes"));
        json_int_t missing = json_integer_value(json_object_get(c.failed, "missing_bytes"));
        if (!dies) assert_true(asked > 0 && (missing == asked - left || (missing == 0 && asked <= left)));
        assert_contains(json_string_value(json_object_get(c.failed, "message")), "CUDA1");
        assert_true(json_array_size(json_object_get(c.failed, "log")) > 0);
        assert_int_equal(client_stop(&c, 0), 1);
    }
}

void test_load_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *load, *says;
    } rows[] = {
        { "{}", "\"model\" is missing" },
        { "{'model': '/nowhere/x.gguf'}", "No such file" },
        { "{'model': '/dev/null'}", "did not load" },
        { "{'model': 'x', 'speed': 1}", "\"speed\" is not known" },
        { "{'model': 'x', 'n_seq': 0}", "n_seq" },
        { "{'model': 'MODEL', 'devices': ['CUDA7']}", "does not see the device CUDA7" },
        { "{'model': 'MODEL', 'type_k': 'q9'}", "type_k" },
        { "{'model': 'MODEL', 'chat_template': '{% if %}'}", "chat template" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        struct client c;
        VR_AUTO_BUF load = { 0 };
        const char *model = strstr(rows[i].load, "MODEL");
        vr_buf_add(&load, rows[i].load, model ? (size_t)(model - rows[i].load) : strlen(rows[i].load));
        if (model) vr_buf_addf(&load, "%s%s", dense, model + 5);
        client_start(&c, "%s", load.data);
        assert_non_null(c.failed);
        assert_contains(json_string_value(json_object_get(c.failed, "message")), rows[i].says);
        assert_int_equal(client_stop(&c, 0), 1);
    }
}
