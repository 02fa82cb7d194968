/* Folders as people and other programs have them, and as somebody who wants out would make them. */
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/catalog.h"
#include "test_hw_tree.h"

static struct vr_catalog c;

static const char *in_scratch(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", scratch_dir, name);
    return path;
}

static void read_folder(void)
{
    struct vr_err err = { 0 };
    vr_catalog_done(&c);
    if (!vr_catalog_folder(in_scratch("models"), &c, &err)) fail_msg("%s", err.msg);
}

static int make_tree(void **state)
{
    scratch_setup(state);
    static const char *const files[] = { "Qwen3-30B-A3B-Q4_K_M.gguf", /* ends like a part, and is none */
                                         "b.GGUF",
                                         "hub/org/split-00002-of-00003.gguf",
                                         "hub/org/split-00001-of-00003.gguf",
                                         "hub/org/split-00003-of-00003.gguf",
                                         "half-00002-of-00002.gguf",
                                         "hub/org/mmproj-split-BF16.gguf",
                                         "hub/org/mmproj-split-F16.gguf",
                                         "hub/org/mmproj-split-F32.gguf",
                                         "hub/org/sub/other.gguf",
                                         "hub/org/mtp-split.gguf",
                                         "hub/org/mtp-another.gguf",
                                         "hub/org/sub/EAGLE3-Other-Q8_0.gguf",
                                         "notes.txt",
                                         ".hidden.gguf",
                                         ".cache/x.gguf",
                                         "1/2/3/4/5/deep.gguf",
                                         "1/2/3/4/5/6/too-deep.gguf",
                                         "bad\nname.gguf",
                                         "bad\xff.gguf",
                                         "bad\xc2\x9b\x31m.gguf", /* CSI in one character */
                                         ".gguf",
                                         "odd-00004-of-00003.gguf" };
    for (size_t i = 0; i < VR_COUNT(files); i++) {
        char path[200];
        snprintf(path, sizeof path, "models/%s", files[i]);
        tree_put(path, "12345");
    }
    tree_put("outside/blob", "linked");
    tree_link("models/link.gguf", "outside/blob");
    tree_link("models/twice.gguf", "outside/blob");
    tree_link("models/loop", "models");
    tree_link("models/nowhere.gguf", "outside/nothing");
    return mkfifo(in_scratch("models/fifo.gguf"), 0600);
}

static void test_folder(void **state)
{
    (void)state;
    static const struct {
        const char *id, *name;
        uint64_t bytes;
        unsigned n_parts, n_found;
        const char *mmproj, *head;
    } want[] = {
        { "1/2/3/4/5/deep", "deep", 5, 1, 1, NULL },
        { "Qwen3-30B-A3B-Q4_K_M", "Qwen3-30B-A3B-Q4_K_M", 5, 1, 1, NULL },
        { "b", "b", 5, 1, 1, NULL },
        { "half", "half", 5, 2, 1, NULL },
        { "hub/org/split", "split", 15, 3, 3, "mmproj-split-F16.gguf", "/org/mtp-split.gguf" },
        { "hub/org/sub/other", "other", 5, 1, 1, NULL, "EAGLE3-Other-Q8_0.gguf" },
        { "link", "link", 6, 1, 1, NULL },
    };
    read_folder();
    for (size_t i = 0; i < c.n_items; i++) print_message("%s\n", c.items[i].id);
    assert_int_equal(c.n_items, VR_COUNT(want));
    for (size_t i = 0; i < c.n_items; i++) {
        assert_string_equal(c.items[i].id, want[i].id);
        assert_string_equal(c.items[i].name, want[i].name);
        assert_int_equal(c.items[i].bytes, want[i].bytes);
        assert_int_equal(c.items[i].n_parts, want[i].n_parts);
        assert_int_equal(c.items[i].n_found, want[i].n_found);
        assert_true(!c.items[i].mmproj == !want[i].mmproj);
        if (want[i].mmproj) assert_contains(c.items[i].mmproj, want[i].mmproj);
        assert_true(!c.items[i].head == !want[i].head);
        if (want[i].head) assert_contains(c.items[i].head, want[i].head);
    }
    assert_contains(c.items[4].path, "/models/hub/org/split-00001-of-00003.gguf");
    assert_false(c.more);
}

static void test_find(void **state)
{
    (void)state;
    static const char *const no[] = { "",          "nothing",     "../outside/blob", "./b.GGUF", "hub/../b.GGUF", "/b",
                                      "notes.txt", "/etc/passwd", "fifo.gguf",       "plit",     "too-deep",      "/" };
    static const struct {
        const char *word, *id;
    } yes[] = { { "b.GGUF", "b" },
                { "B", "b" },
                { "split", "hub/org/split" },
                { "org/split", "hub/org/split" },
                { "hub/org/split-00001-of-00003.gguf", "hub/org/split" } };
    struct vr_err err = { 0 };
    read_folder();
    for (size_t i = 0; i < VR_COUNT(no); i++)
        if (vr_catalog_find(&c, no[i], &err)) fail_msg("'%s' was found", no[i]);
    assert_int_equal(err.code, VR_OK);
    for (size_t i = 0; i < VR_COUNT(yes); i++) {
        const struct vr_listed *x = vr_catalog_find(&c, yes[i].word, &err);
        assert_non_null(x);
        assert_string_equal(x->id, yes[i].id);
    }
    assert_string_equal(vr_catalog_nearest(&c, "qwen3"), "Qwen3-30B-A3B-Q4_K_M");
    struct vr_catalog none;
    assert_false(vr_catalog_folder("/nowhere/at/all", &none, &err));
    assert_contains(err.msg, "/nowhere/at/all: No such file");
}

/* --- other programs' --- */

#define HASH_1              "1111111111111111111111111111111111111111111111111111111111111111"
#define HASH_2              "2222222222222222222222222222222222222222222222222222222222222222"
#define HASH_3              "3333333333333333333333333333333333333333333333333333333333333333"
#define HUB                 "home/.cache/huggingface/hub/models--org--Two--Words-GGUF/"
#define OLLAMA              "home/.ollama/models/"
#define LIBRARY             OLLAMA "manifests/host.example/library/"
#define LAYER(kind, digest) "{\"mediaType\":\"application/vnd.ollama.image." kind "\",\"digest\":\"sha256:" digest "\"}"

static void make_home(void)
{
    tree_put(HUB "blobs/aa", "first");
    tree_put(HUB "blobs/bb", "second one");
    tree_put(HUB "refs/main", "new");
    tree_link(HUB "snapshots/new/Model-Q4_K_M.gguf", HUB "blobs/bb");
    tree_link(HUB "snapshots/old/Model-Q4_K_M.gguf", HUB "blobs/aa");
    tree_link(HUB "snapshots/new/Q8_0/Model-Q8_0-00001-of-00002.gguf", HUB "blobs/cc");
    tree_put("home/.cache/huggingface/hub/datasets--org--data/snapshots/x/no.gguf", "data");
    tree_put("home/.cache/llama.cpp/org_old_model.gguf", "old");
    tree_put("home/.lmstudio/models/pub/Model-GGUF/Model-Q4_K_M.gguf", "another");
    tree_put("home/.lmstudio/models/pub/Model-GGUF/mmproj-model-f16.gguf", "sees");
    tree_put(OLLAMA "blobs/sha256-" HASH_1, "the model");
    tree_put(OLLAMA "blobs/sha256-" HASH_2, "its projector");
    tree_put(LIBRARY "llava/latest", "{\"layers\":[" LAYER("projector", HASH_2) "," LAYER("model", HASH_1) "," LAYER(
                                         "draft", HASH_2) "," LAYER("adapter", HASH_3) "]}");
    tree_put(LIBRARY "gone/7b", "{\"layers\":[" LAYER("model", HASH_3) "]}");
    tree_put(LIBRARY "evil/1", "{\"layers\":[" LAYER("model", "../../../../secret") "]}");
    tree_put(LIBRARY "evil/2", "{\"layers\":[" LAYER("tensor", HASH_1) "]}");
    tree_put(LIBRARY "evil/3", "{\"layers\":{\"digest\":7}}");
    tree_put(LIBRARY "evil/4", "not JSON at all");
    static const char *const other[] = { "LLAMA_CACHE", "HF_HUB_CACHE",   "HUGGINGFACE_HUB_CACHE",
                                         "HF_HOME",     "XDG_CACHE_HOME", "OLLAMA_MODELS" };
    for (size_t i = 0; i < VR_COUNT(other); i++) unsetenv(other[i]);
    setenv("HOME", in_scratch("home"), 1);
}

static void test_keepers(void **state)
{
    (void)state;
    static const struct {
        const char *name, *keeper;
        uint64_t bytes;
        bool mmproj;
    } want[] = {
        { "Two--Words-GGUF/Model-Q4_K_M", "Hugging Face", 10, false }, /* the newer snapshot */
        { "org_old_model", "llama.cpp", 3, false },
        { "Model-GGUF/Model-Q4_K_M", "LM Studio", 7, true },
        { "gone:7b", "Ollama", 0, false },
        { "llava:latest", "Ollama", 9, true },
    };
    make_home();
    struct timespec old[2] = { { .tv_sec = 1000 }, { .tv_sec = 1000 } };
    utimensat(AT_FDCWD, in_scratch(HUB "blobs/aa"), old, 0);
    struct vr_err err = { 0 };
    vr_catalog_done(&c);
    if (!vr_catalog_read(NULL, &c, &err)) fail_msg("%s", err.msg);
    for (size_t i = 0; i < c.n_items; i++) print_message("%s\n", c.items[i].id);
    assert_int_equal(c.n_items, VR_COUNT(want));
    for (size_t i = 0; i < c.n_items; i++) {
        assert_string_equal(c.items[i].name, want[i].name);
        assert_string_equal(vr_keeper_name(c.items[i].keeper), want[i].keeper);
        assert_int_equal(c.items[i].bytes, want[i].bytes);
        assert_int_equal(c.items[i].mmproj != NULL, want[i].mmproj);
    }
    assert_string_equal(c.items[0].id, "org/Two--Words-GGUF/Model-Q4_K_M");
    assert_ptr_equal(vr_catalog_find(&c, "llava", &err), &c.items[4]);
    assert_contains(c.items[4].head, "sha256-" HASH_2);
    assert_ptr_equal(vr_catalog_find(&c, "gone:7b", &err), &c.items[3]);
    assert_int_equal(c.items[3].n_found, 0);
    assert_null(vr_catalog_find(&c, "Model-Q4_K_M", &err));
    assert_int_equal(err.code, VR_EUSAGE);
    assert_contains(err.msg, "2 models: Two--Words-GGUF/Model-Q4_K_M, Model-GGUF/Model-Q4_K_M");
    vr_catalog_done(&c);
    assert_false(vr_catalog_read("/nowhere", &c, &err));
}

static void test_many(void **state)
{
    (void)state;
    for (int i = 0; i < VR_MAX_LISTED + 10; i++) {
        char path[80];
        snprintf(path, sizeof path, "models/many/%04d.gguf", i);
        tree_put(path, "");
    }
    read_folder();
    assert_int_equal(c.n_items, VR_MAX_LISTED);
    assert_true(c.more);
    vr_catalog_done(&c);
    assert_int_equal(c.n_items, 0);
}

/* Several models in one directory: a vision projector goes to the one that it is named for. */
static void test_projectors(void **state)
{
    (void)state;
    static const struct {
        const char *model, *projector, *other; /* `other`: the model beside it, which has `others` */
        const char *others;
    } rows[] = {
        { "seer-7b-Q4_K_M", "mmproj-seer-7b-F16", "chat-8b-Q8_0", NULL },
        { "Seer-7B-Q4_K_M", "seer-7b-mmproj.bf16", "chat-8b-Q8_0", NULL },
        { "seer-7b-Q4_K_M", "mmproj-seer-7b-Q8_0", "seer-7b-Q8_0", "mmproj-seer-7b-Q8_0" },
        { "seer-7b-Q4_K_M", "mmproj-F16", "seer-7b-Q8_0", "mmproj-F16" },
        { "seer-7b-Q4_K_M", "mmproj-model-f16", "chat-8b-Q8_0", "mmproj-model-f16" },
        { "seer-7b-Q4_K_M", "mmproj", "chat-8b-Q8_0", "mmproj" },
        { "seer-7b-Q4_K_M", "mmproj-Seer 2 - vision", "chat-8b-Q8_0", "mmproj-Seer 2 - vision" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        const char *const files[] = { rows[i].model, rows[i].projector, rows[i].other };
        char path[128], root[32];
        struct vr_err err = { 0 };
        snprintf(root, sizeof root, "flat-%zu", i);
        for (size_t k = 0; k < VR_COUNT(files); k++) {
            snprintf(path, sizeof path, "%s/%s.gguf", root, files[k]);
            tree_put(path, "bytes");
        }
        vr_catalog_done(&c);
        if (!vr_catalog_folder(in_scratch(root), &c, &err)) fail_msg("%s", err.msg);
        assert_int_equal(c.n_items, 2);
        for (size_t k = 0; k < c.n_items; k++) {
            const char *want = strcmp(c.items[k].id, rows[i].model) == 0 ? rows[i].projector : rows[i].others;
            if (!want != !c.items[k].mmproj) fail_msg("row %zu: %s has %s", i, c.items[k].id, c.items[k].mmproj);
            if (want) assert_contains(c.items[k].mmproj, want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_folder), cmocka_unit_test(test_projectors),
                                        cmocka_unit_test(test_find), cmocka_unit_test(test_keepers),
                                        cmocka_unit_test(test_many) };
    return cmocka_run_group_tests(tests, make_tree, scratch_teardown);
}
