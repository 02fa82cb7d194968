/* Cases by the dozen, the same ones for the same seed: case i takes fixture i % 10 and machine i / 10 % all, so that
 * a few hundred cover every pair, and draws the rest. The draw is weighted towards what people do (everything on the
 * GPUs, f16 cache, flash attention on its own) but visits every setting that changes a byte. */
#include "oracle.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MAX_RIGS 32

/* Beside the fixtures' rigs: the compute capabilities that those leave out. */
static const char *const mixes[] = {
    "[{'name':'NVIDIA GeForce GTX 1080 Ti','total_mib':11264,'free_mib':11000,'cc':'6.1'},"
    " {'name':'NVIDIA GeForce GTX 1080 Ti','total_mib':11264,'free_mib':11000,'cc':'6.1'}]",
    "[{'name':'NVIDIA GeForce RTX 2080 Ti','total_mib':11264,'free_mib':10900,'cc':'7.5'},"
    " {'name':'Tesla P40','total_mib':24576,'free_mib':24300,'cc':'6.1'},"
    " {'name':'Tesla T4','total_mib':15360,'free_mib':15000,'cc':'7.5'}]",
    "[{'name':'NVIDIA H200','total_mib':143771,'free_mib':143100,'cc':'9.0'},"
    " {'name':'NVIDIA A100-SXM4-80GB','total_mib':81920,'free_mib':81000,'cc':'8.0'}]",
    "[{'name':'NVIDIA H100 80GB HBM3','total_mib':81559,'free_mib':81000,'cc':'9.0'}]",
    "[{'name':'NVIDIA B200','total_mib':183359,'free_mib':182000,'cc':'10.0'},"
    " {'name':'NVIDIA GeForce RTX 5090','total_mib':32607,'free_mib':32000,'cc':'12.0'},"
    " {'name':'NVIDIA GeForce GTX 1660','total_mib':6144,'free_mib':5900,'cc':'7.5'}]",
};

/* Only for the CUDA 12 build: CUDA 13's holds no code for Volta, so it cannot know Volta's kernels. */
static const char volta[] = "[{'name':'Tesla V100-SXM2-32GB','total_mib':32768,'free_mib':32400,'cc':'7.0'},"
                            " {'name':'NVIDIA GeForce RTX 3090','total_mib':24576,'free_mib':24000,'cc':'8.6'},"
                            " {'name':'Tesla V100-SXM2-32GB','total_mib':32768,'free_mib':32400,'cc':'7.0'}]";

static uint64_t state;

static uint64_t draw(uint64_t n) /* 0 .. n-1; splitmix64 */
{
    uint64_t z = (state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return n ? (z ^ (z >> 31)) % n : 0;
}

static bool chance(uint64_t percent) { return draw(100) < percent; }

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* A rig of the fixtures as the list of devices that a case holds. */
static json_t *read_rig(const char *path)
{
    json_error_t e;
    json_t *rig = json_load_file(path, 0, &e), *out = json_array(), *d;
    size_t i;
    if (!rig) fprintf(stderr, "%s: %s\n", path, e.text);
    json_array_foreach(json_object_get(rig, "devices"), i, d) json_array_append_new(
        out, json_pack("{sOsOsOsO}", "name", json_object_get(d, "name"), "total_mib", json_object_get(d, "total_mib"),
                       "free_mib", json_object_get(d, "free_mib"), "cc", json_object_get(d, "compute_capability")));
    json_decref(rig);
    return out;
}

static json_t *parse_mix(const char *mix)
{
    char text[2048];
    snprintf(text, sizeof(text), "%s", mix);
    for (char *p = text; (p = strchr(p, '\''));) *p = '"';
    return json_loads(text, 0, NULL);
}

static size_t read_rigs(const char *fixtures, bool cuda12, json_t **rigs)
{
    char dir[512], path[1024], *names[MAX_RIGS];
    size_t n = 0;
    snprintf(dir, sizeof(dir), "%s/rigs", fixtures);
    DIR *d = opendir(dir);
    for (struct dirent *e; d && n < MAX_RIGS - COUNT(mixes) - 1 && (e = readdir(d));)
        if (strstr(e->d_name, ".json")) names[n++] = strdup(e->d_name);
    if (d) closedir(d);
    qsort(names, n, sizeof(names[0]), by_name);
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        rigs[i] = read_rig(path);
        free(names[i]);
    }
    for (size_t i = 0; i < COUNT(mixes); i++) rigs[n++] = parse_mix(mixes[i]);
    if (cuda12) rigs[n++] = parse_mix(volta);
    return n;
}

/* Placement order: mostly the machine's; sometimes shuffled and shortened; seldom one device twice. */
static size_t add_order(json_t *c, size_t n)
{
    size_t order[ORACLE_DEVICES], n_order = n;
    for (size_t i = 0; i < n; i++) order[i] = i;
    if (chance(65)) return n;
    for (size_t i = n; i > 1; i--) {
        size_t j = draw(i), t = order[i - 1];
        order[i - 1] = order[j];
        order[j] = t;
    }
    if (n > 1 && chance(50)) n_order = 1 + draw(n);
    if (n_order > 1 && chance(12)) order[n_order++] = order[0];
    json_t *list = json_array();
    for (size_t i = 0; i < n_order; i++) json_array_append_new(list, json_integer((json_int_t)order[i]));
    json_object_set_new(c, "order", list);
    return n_order;
}

static void add_placement(json_t *c, size_t n_order, size_t n_layers)
{
    size_t ngl = n_layers + 1;
    if (chance(30)) ngl = chance(15) ? 0 : 1 + draw(n_layers);
    bool all = ngl == n_layers + 1 && chance(40);
    json_object_set_new(c, "ngl", json_integer(all ? -1 : (json_int_t)ngl));
    if (n_order < 2 || chance(20)) return; /* llama.cpp's own split, by free memory */
    json_t *split = json_array();
    if (chance(10)) {
        for (size_t i = 0; i < n_order; i++) json_array_append_new(split, json_real((double)(1 + draw(100)) / 100));
    } else {
        size_t counts[ORACLE_DEVICES + 1] = { 0 };
        for (size_t left = ngl; left;) { /* in lumps, so that some get nothing */
            size_t lump = 1 + draw(1 + ngl / 3);
            if (lump > left) lump = left;
            counts[draw(n_order)] += lump;
            left -= lump;
        }
        for (size_t i = 0; i < n_order; i++) json_array_append_new(split, json_integer((json_int_t)counts[i]));
        if (!ngl) json_array_set_new(split, 0, json_integer(1));
    }
    json_object_set_new(c, "split", split);
}

/* A device of the placement order, or the host. */
static json_t *draw_place(json_t *c, size_t n_devices, uint64_t host_percent)
{
    json_t *order = json_object_get(c, "order");
    if (chance(host_percent)) return json_string("CPU");
    if (order) return json_incref(json_array_get(order, draw(json_array_size(order))));
    return json_integer((json_int_t)draw(n_devices));
}

static void add_overrides(json_t *c, size_t n_devices, size_t n_layers, bool experts)
{
    static const char *const singles[] = {
        "attn_q",   "attn_output",   "ffn_down", "ffn_gate_inp", "attn_norm",
        "ffn_norm", "attn_kv_a_mqa", "ssm_in",   "ssm_out",
    };
    static const char *const alone[] = { "^output\\.weight$", "^token_embd\\.weight$", "^output_norm\\.weight$",
                                         "attn_.*\\.weight", "ffn_.*\\.weight" };
    json_t *list = json_array();
    size_t n = 1 + draw(3);
    for (size_t i = 0; i < n; i++) {
        char pattern[512];
        size_t at = draw(n_layers);
        json_t *place = draw_place(c, n_devices, 50);
        if (experts && chance(70)) {
            static const char *const which[] = { "ffn_.*_exps", "ffn_(up|gate)_exps", "ffn_down_exps",
                                                 "ffn_(up|down|gate|gate_up)_(ch|)exps" };
            int len = 0;
            if (chance(60)) {
                len = snprintf(pattern, sizeof(pattern), "blk\\.(");
                size_t end = at + 1 + draw(n_layers / 2);
                for (size_t l = at; l < end && l < n_layers; l++)
                    len += snprintf(pattern + len, sizeof(pattern) - (size_t)len, "%s%zu", l > at ? "|" : "", l);
                len += snprintf(pattern + len, sizeof(pattern) - (size_t)len, ")\\.");
            }
            snprintf(pattern + len, sizeof(pattern) - (size_t)len, "%s", which[draw(COUNT(which))]);
        } else if (chance(75)) {
            snprintf(pattern, sizeof(pattern), "blk\\.%zu\\.%s\\.weight", at, singles[draw(COUNT(singles))]);
        } else {
            snprintf(pattern, sizeof(pattern), "%s", alone[draw(COUNT(alone))]);
        }
        json_array_append_new(list, json_pack("[so]", pattern, place));
    }
    json_object_set_new(c, "overrides", list);
}

static void add_bool(json_t *c, const char *key, bool fallback, uint64_t percent_other)
{
    if (chance(percent_other)) json_object_set_new(c, key, json_boolean(!fallback));
}

/* One or two tokens per sequence over a cache that is not f16: only there does the compute capability choose between
 * attention kernels that need different memory. Left to chance it would be seen once in a thousand. */
static void add_tiny_batch(json_t *c)
{
    static const char *const types[] = { "q8_0", "q4_0", "bf16", "bf16", "f32", "q5_1" };
    const char *k = types[draw(COUNT(types))], *v = chance(85) ? k : types[draw(COUNT(types))];
    int n_ubatch = 1 + (int)draw(2), n_seq = chance(30) ? 4 : 1;
    json_object_set_new(c, "n_ubatch", json_integer(n_ubatch * n_seq));
    json_object_set_new(c, "n_batch", json_integer(chance(50) ? 2048 : n_ubatch * n_seq));
    json_object_set_new(c, "n_seq", json_integer(n_seq));
    json_object_set_new(c, "flash", json_string(chance(70) ? "on" : "auto"));
    json_object_set_new(c, "type_k", json_string(k));
    json_object_set_new(c, "type_v", json_string(v));
}

static void add_batch(json_t *c)
{
    static const int ubatch[] = { 64, 128, 256, 512, 512, 1024, 2048 };
    static const char *const flash[] = { "on", "off", "auto", "auto" };
    static const char *const types[] = { "q8_0", "q8_0", "q4_0", "bf16", "f32", "q5_1", "iq4_nl", "q4_1", "q5_0" };
    int n_ubatch = chance(5) ? 8 + (int)draw(56) : ubatch[draw(COUNT(ubatch))];
    json_object_set_new(c, "n_ubatch", json_integer(n_ubatch));
    json_object_set_new(c, "n_batch", json_integer(chance(60) ? 2048 : n_ubatch));
    const char *fa = flash[draw(COUNT(flash))];
    json_object_set_new(c, "flash", json_string(fa));
    if (chance(40)) {
        const char *k = types[draw(COUNT(types))], *v = chance(75) ? k : types[draw(COUNT(types))];
        json_object_set_new(c, "type_k", json_string(k));
        /* without flash attention llama.cpp refuses a quantized V: seen once in a while is enough */
        if (strcmp(fa, "off") || chance(10)) json_object_set_new(c, "type_v", json_string(v));
    }
    if (chance(35)) json_object_set_new(c, "n_seq", json_integer(4));
}

static void add_context(json_t *c)
{
    static const int ctx[] = { 512, 2048, 4096, 5000, 8192, 16384, 32768, 65536, 131072 };
    static const int offload[] = { 1, 8, 64, 200, 512, 65536 };
    json_object_set_new(c, "n_ctx", json_integer(ctx[draw(COUNT(ctx))]));
    if (chance(25))
        add_tiny_batch(c);
    else
        add_batch(c);
    add_bool(c, "kv_unified", false, 30);
    add_bool(c, "swa_full", false, 20);
    add_bool(c, "op_offload", true, 15);
    add_bool(c, "offload_kqv", true, 6);
    if (chance(20)) json_object_set_new(c, "offload_min", json_integer(offload[draw(COUNT(offload))]));
    if (chance(25)) json_object_set_new(c, "n_outputs", json_integer(chance(50) ? 4 : 64));
}

static json_t *make_case(json_t *models, json_t *const *rigs, size_t n_rigs, size_t i)
{
    static const char *const with_experts[] = { "qwen3moe", "gpt-oss", "deepseek2" };
    size_t at = i % json_object_size(models), n_devices;
    void *it = json_object_iter(models);
    while (at--) it = json_object_iter_next(models, it);
    json_t *model = json_object_iter_value(it), *devices = rigs[i / json_object_size(models) % n_rigs];
    size_t n_layers = (size_t)json_integer_value(json_object_get(model, "blocks"));
    bool experts = false;
    for (size_t k = 0; k < COUNT(with_experts); k++)
        experts |= !strcmp(json_string_value(json_object_get(model, "arch")), with_experts[k]);
    n_devices = json_array_size(devices);

    json_t *c = json_pack("{sisssO}", "id", (int)i, "model", json_object_iter_key(it), "devices", devices);
    add_placement(c, add_order(c, n_devices), n_layers);
    if (chance(experts ? 50 : 25))
        add_overrides(c, n_devices, n_layers, experts);
    else
        add_bool(c, "pipeline", true, 25);
    add_context(c);
    return c;
}

bool oracle_cases(const char *fixtures, size_t n, uint64_t seed, bool cuda12)
{
    char path[512];
    json_error_t e;
    json_t *rigs[MAX_RIGS];
    snprintf(path, sizeof(path), "%s/models/index.json", fixtures);
    json_t *models = json_load_file(path, 0, &e);
    if (!models) fprintf(stderr, "%s: %s\n", path, e.text);
    size_t n_rigs = read_rigs(fixtures, cuda12, rigs);
    for (size_t i = 0; models && i < n; i++) {
        state = seed * 0x2545f4914f6cdd1du + i; /* scattered by one draw, or case i + 1 would repeat case i, shifted */
        state = draw(UINT64_MAX);
        json_t *c = make_case(models, rigs, n_rigs, i);
        json_dumpf(c, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(c);
    }
    for (size_t i = 0; i < n_rigs; i++) json_decref(rigs[i]);
    json_decref(models);
    return models != NULL;
}

/* --- split mode tensor --- */

/* A random model of the llama family, with shapes that do not divide: head sizes, groups of heads, matrices whose rows
 * are no multiple of 128, one head for all. */
static json_t *make_model(char *name, size_t n)
{
    static const char *const types[] = { "q8_0", "q4_0", "f16", "q5_1", "q4_K", "q6_K", "mxfp4" };
    static const int sizes[] = { 64, 64, 80, 96, 128, 128, 256 }, groups[] = { 1, 1, 2, 4, 5, 7, 8 };
    const char *type = types[draw(COUNT(types))];
    int block = strchr(type, 'K') ? 256 : 32, size = sizes[draw(COUNT(sizes))], group = groups[draw(COUNT(groups))];
    int kv = chance(10) ? 1 : 1 + (int)draw(16), experts = chance(35) ? 8 << draw(4) : 0;
    while (kv * group * size % block) kv++;
    int ff = block * (1 + (int)draw((uint64_t)(8192 / block))), layers = 1 + (int)draw(24),
        vocab = 2048 + (int)draw(60000);
    snprintf(name, n,
             "made:--layers %d --embd %d --heads %d --kv %d --ff %d --experts %d --used %d --type %s --vocab %d "
             "--ctx 131072",
             layers, kv * group * size, kv * group, kv, ff, experts, experts ? 1 + (int)draw(8) : 2, type, vocab);
    return json_pack("{siss}", "blocks", layers, "arch", experts ? "made with experts" : "made");
}

/* Two to eight cards of a few kinds; one, once in a while. */
static json_t *make_rig(void)
{
    static const struct {
        const char *name, *cc;
        int mib;
    } cards[] = { { "NVIDIA GeForce RTX 3090", "8.6", 24576 },
                  { "NVIDIA GeForce RTX 4090", "8.9", 24564 },
                  { "NVIDIA GeForce RTX 5060 Ti", "12.0", 16311 },
                  { "NVIDIA H100 80GB HBM3", "9.0", 81559 },
                  { "Tesla T4", "7.5", 15360 },
                  { "Tesla P40", "6.1", 24576 } };
    json_t *rig = json_array();
    size_t n = chance(4) ? 1 : 2 + draw(chance(50) ? 3 : 7), kind = draw(COUNT(cards));
    for (size_t i = 0; i < n; i++) {
        if (chance(25)) kind = draw(COUNT(cards));
        json_array_append_new(rig, json_pack("{sssisiss}", "name", cards[kind].name, "total_mib", cards[kind].mib,
                                             "free_mib", cards[kind].mib - 300, "cc", cards[kind].cc));
    }
    return rig;
}

static void add_shares(json_t *c, size_t n)
{
    json_t *split = json_array();
    bool fine = chance(40);
    size_t none = n > 1 && chance(8) ? draw(n) : n;
    for (size_t i = 0; i < n; i++)
        json_array_append_new(split, i == none ? json_integer(0)
                                     : fine    ? json_real((double)(1 + draw(1000)) / 1000)
                                               : json_integer((json_int_t)(1 + draw(4))));
    json_object_set_new(c, "split", split);
}

static json_t *tensor_case(json_t *models, json_t *published, size_t i)
{
    size_t n_models = json_object_size(models), n_published = json_object_size(published);
    size_t at = draw(2 * (n_models + n_published)); /* every second one is made up */
    json_t *list = at < n_models ? models : published, *model, *rig = make_rig();
    char made[256];
    const char *name = made;
    if (at < n_models + n_published) {
        void *it = json_object_iter(list);
        for (size_t k = at < n_models ? at : at - n_models; k; k--) it = json_object_iter_next(list, it);
        name = json_object_iter_key(it);
        model = json_incref(json_object_iter_value(it));
    } else {
        model = make_model(made, sizeof(made));
    }
    const char *arch = json_string_value(json_object_get(model, "arch"));
    bool experts = strstr(arch, "moe") || strstr(arch, "gpt-oss") || strstr(arch, "experts");
    size_t n_layers = (size_t)json_integer_value(json_object_get(model, "blocks")), n = json_array_size(rig);
    json_t *c = json_pack("{sisssssO}", "id", (int)i, "model", name, "mode", "tensor", "devices", rig);
    if (n > 2 && chance(20)) { /* some of them, from the end */
        size_t n_order = 2 + draw(n - 1);
        json_t *order = json_array();
        for (size_t k = 0; k < n_order; k++) json_array_append_new(order, json_integer((json_int_t)(n - 1 - k)));
        json_object_set_new(c, "order", order);
        n = n_order;
    }
    if (chance(75)) add_shares(c, n);
    if (chance(6)) json_object_set_new(c, "ngl", json_integer((json_int_t)draw(n_layers + 1)));
    if (experts && chance(15)) json_object_set_new(c, "overrides", json_pack("[[ss]]", "ffn_.*_exps", "CPU"));
    add_context(c);
    const char *flash = json_string_value(json_object_get(c, "flash"));
    if (!strcmp(flash, "off") && chance(80)) json_object_set_new(c, "flash", json_string("on"));
    if (chance(70)) json_object_del(c, "offload_kqv");
    if (json_object_get(c, "ngl") || json_object_get(c, "offload_kqv")) /* caches of the host are written */
        json_object_set_new(c, "n_ctx", json_integer(2048));
    json_object_set_new(c, "n_outputs", json_integer(chance(60) ? 4 : 16));
    json_int_t n_ubatch = json_integer_value(json_object_get(c, "n_ubatch"));
    if (n_ubatch % 4) /* graphs are reserved for as many tokens of each sequence */
        json_object_set_new(c, "n_ubatch", json_integer(n_ubatch - n_ubatch % 4 + 4));
    if (json_integer_value(json_object_get(c, "n_batch")) < 2048) json_object_del(c, "n_batch");
    json_decref(model);
    json_decref(rig);
    return c;
}

bool oracle_tensor_cases(const char *fixtures, size_t n, uint64_t seed)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/models/index.json", fixtures);
    json_t *models = json_load_file(path, 0, NULL);
    snprintf(path, sizeof(path), "%s/published/index.json", fixtures);
    json_t *published = json_load_file(path, 0, NULL);
    bool ok = models && published;
    if (!ok) fprintf(stderr, "%s: the fixtures cannot be read\n", fixtures);
    for (size_t i = 0; ok && i < n; i++) {
        state = seed * 0x2545f4914f6cdd1du + i;
        state = draw(UINT64_MAX);
        json_t *c = tensor_case(models, published, i);
        json_dumpf(c, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(c);
    }
    json_decref(models);
    json_decref(published);
    return ok;
}

/* --- MTP heads, EAGLE-3 heads and drafts --- */

/* Hybrid models with a head, of the sizes that there are and of odd ones. */
static void make_headed(char *name, size_t n, size_t *n_layers)
{
    static const struct {
        int layers, embd, heads, kv, ff;
    } shapes[] = { { 24, 1024, 8, 2, 3584 },   { 32, 2560, 16, 4, 9216 }, { 32, 4096, 16, 4, 12288 },
                   { 64, 5120, 20, 4, 17408 }, { 9, 640, 5, 1, 1280 },    { 3, 384, 3, 3, 992 } };
    static const char *const types[] = { "q8_0", "q4_0", "f16", "q5_1" };
    size_t k = draw(COUNT(shapes));
    snprintf(
        name, n,
        "made:--arch qwen35 --mtp 1 --layers %d --embd %d --heads %d --kv %d --ff %d --type %s --vocab %d --ctx 131072",
        shapes[k].layers, shapes[k].embd, shapes[k].heads, shapes[k].kv, shapes[k].ff, types[draw(COUNT(types))],
        2048 + (int)draw(30000));
    *n_layers = (size_t)shapes[k].layers + 1; /* with the head */
}

/* How many sequences. */
static int add_guesser_context(json_t *c)
{
    static const int ctx[] = { 512, 4096, 5000, 16384, 65536 }, ubatch[] = { 64, 128, 512, 512, 1024 };
    static const int seqs[] = { 1, 1, 2, 3, 4, 6 };
    int n_seq = seqs[draw(COUNT(seqs))];
    json_object_set_new(c, "n_ctx", json_integer(ctx[draw(COUNT(ctx))]));
    json_object_set_new(c, "n_ubatch", json_integer(ubatch[draw(COUNT(ubatch))]));
    json_object_set_new(c, "n_seq", json_integer(n_seq));
    json_object_set_new(c, "flash", json_string(chance(75) ? "on" : "off"));
    add_bool(c, "op_offload", true, 15);
    return n_seq;
}

static json_t *head_case(json_t *rig, size_t i)
{
    char name[256];
    size_t n_layers;
    int guesses = chance(60) ? 3 : 1 + (int)draw(7);
    make_headed(name, sizeof(name), &n_layers);
    json_t *c = json_pack("{sisssO}", "id", (int)i, "model", name, "devices", rig);
    add_placement(c, add_order(c, json_array_size(rig)), n_layers);
    add_bool(c, "pipeline", true, 25);
    int n_seq = add_guesser_context(c);
    json_object_set_new(c, "guesses", json_integer(guesses));
    json_object_set_new(c, "n_outputs", json_integer(n_seq + (n_seq < 4 ? n_seq : 4) * guesses));
    if (chance(30) && !strcmp(json_string_value(json_object_get(c, "flash")), "on")) {
        json_object_set_new(c, "type_k", json_string("q8_0"));
        json_object_set_new(c, "type_v", json_string(chance(50) ? "q8_0" : "q4_0"));
    }
    return c;
}

/* The same split over two cards or three, a part of every layer on each. */
static json_t *split_head_case(json_t *rig, size_t i)
{
    static const int shapes[][5] = { { 12, 1024, 8, 2, 3584 }, { 9, 2048, 16, 4, 4096 }, { 6, 512, 8, 8, 1024 } };
    static const char *const types[] = { "q8_0", "f16", "q4_0" };
    const int *s = shapes[draw(COUNT(shapes))];
    char name[256];
    size_t n = 2 + (chance(20) ? 1 : 0);
    json_t *cards = json_array();
    for (size_t k = 0; k < n; k++) json_array_append(cards, json_array_get(rig, k % json_array_size(rig)));
    snprintf(name, sizeof(name),
             "made:--arch qwen35 --mtp 1 --layers %d --embd %d --heads %d --kv %d --ff %d --type %s --vocab %d "
             "--ctx 131072",
             s[0], s[1], s[2], s[3], s[4], types[draw(COUNT(types))], 2048 + (int)draw(30000));
    json_t *c = json_pack("{sisssssO}", "id", (int)i, "model", name, "mode", "tensor", "devices", cards);
    int n_seq = chance(10) ? 2 : 1, guesses = 1 + (int)draw(4); /* several, the engine does not split */
    if (chance(60)) add_shares(c, n);
    json_object_set_new(c, "n_ctx", json_integer(chance(50) ? 4096 : 16384));
    json_object_set_new(c, "n_ubatch", json_integer(chance(50) ? 128 : 512));
    json_object_set_new(c, "n_seq", json_integer(n_seq));
    json_object_set_new(c, "flash", json_string("on"));
    json_object_set_new(c, "guesses", json_integer(guesses));
    json_object_set_new(c, "n_outputs", json_integer(n_seq + n_seq * guesses));
    json_decref(cards);
    return c;
}

/* Layers, embeddings, heads, KV heads, FFN; a type and a vocabulary by chance. */
static void name_made(char name[256], const char *arch, const int s[5])
{
    static const char *const types[] = { "q8_0", "q4_0", "f16" };
    snprintf(name, 256,
             "made:--arch %s --layers %d --embd %d --heads %d --kv %d --ff %d --type %s --vocab %d --ctx 131072", arch,
             s[0], s[1], s[2], s[3], s[4], types[draw(COUNT(types))], 2048 + (int)draw(30000));
}

/* A model that an EAGLE-3 head reads: of the kinds that give out their layers, hybrid ones among them. */
static json_t *tapped_case(json_t *rig, size_t i)
{
    static const int shapes[][5] = {
        { 32, 4096, 32, 8, 14336 }, { 36, 2560, 32, 8, 9728 }, { 9, 640, 5, 1, 1280 }, { 3, 384, 3, 3, 992 }
    };
    static const char *const archs[] = { "llama", "qwen3", "qwen35" };
    const int *s = shapes[draw(COUNT(shapes))];
    char name[256];
    name_made(name, archs[draw(COUNT(archs))], s);
    json_t *c = json_pack("{sisssOs[iii]}", "id", (int)i, "model", name, "devices", rig, "taps", chance(50) ? 1 : 0,
                          s[0] / 2, s[0] - 1);
    add_placement(c, add_order(c, json_array_size(rig)), (size_t)s[0]);
    add_bool(c, "pipeline", true, 25);
    json_object_set_new(c, "n_outputs", json_integer(4 * add_guesser_context(c)));
    return c;
}

/* An EAGLE-3 head with embeddings of its own. Its micro-batches are small, and all of their rows have logits. */
static json_t *eagle3_case(json_t *rig, size_t i)
{
    static const int shapes[][3] = { { 4096, 32, 14336 }, { 2560, 20, 9728 }, { 384, 3, 992 } };
    static const char *const types[] = { "q8_0", "q4_0", "f16" };
    const int *s = shapes[draw(COUNT(shapes))];
    char name[256], known[32] = "";
    int vocab = 2048 + (int)draw(30000);
    if (chance(70)) snprintf(known, sizeof known, " --known %d", vocab / 4);
    snprintf(name, sizeof(name),
             "made:--arch eagle3 --own-input --embd %d --heads %d --kv %d --ff %d --type %s --vocab %d --ctx 131072%s",
             s[0], s[1], s[1], s[2], types[draw(COUNT(types))], vocab, known);
    json_t *c = json_pack("{sisssOsbsb}", "id", (int)i, "model", name, "devices", rig, "draft", 1, "eagle3", 1);
    json_object_set_new(c, "order", json_pack("[i]", (int)draw(json_array_size(rig))));
    add_guesser_context(c);
    if (json_integer_value(json_object_get(c, "n_ubatch")) > 128) json_object_set_new(c, "n_ubatch", json_integer(128));
    json_object_set_new(c, "n_batch", json_integer(128));
    json_object_set_new(c, "n_outputs", json_integer(128));
    return c;
}

/* The model beside a head on some device: it ends there, and at most so many of its stations are on another one. */
static void set_beside(json_t *c, const char *name, int n_stations, size_t most)
{
    int n_devices = (int)json_array_size(json_object_get(c, "devices"));
    int last = (int)draw((uint64_t)n_devices), first = (last + 1) % n_devices, n = (int)draw(most);
    json_t *beside = first == last || n == 0
                         ? json_pack("{sss[i]}", "model", name, "order", last)
                         : json_pack("{sss[ii]s[ii]}", "model", name, "order", first, last, "split", n, n_stations - n);
    json_object_set_new(c, "draft", json_integer(1));
    json_object_set_new(c, "order", json_pack("[i]", last));
    json_object_set_new(c, "beside", beside);
}

/* A Gemma 4 model that gives out hidden states, or (every other one) an assistant, on the device of its last layers. */
static json_t *assistant_case(json_t *rig, size_t i)
{
    static const int shapes[][5] = { { 30, 2048, 16, 8, 2112 }, { 12, 1536, 8, 1, 6144 }, { 6, 384, 3, 3, 992 } };
    const int *s = shapes[draw(COUNT(shapes))];
    char name[256], assistant[256], *rest;
    bool head = chance(60);
    int shared = s[0] > 6 ? 3 * (int)draw(3) : 0;
    name_made(name, "gemma4", s);
    snprintf(name + strlen(name), sizeof(name) - strlen(name), " --shared-kv %d --window %d", shared,
             chance(50) ? 512 : 1024);
    rest = strchr(name + strlen("made:--arch "), ' ');
    snprintf(assistant, sizeof(assistant), "made:--arch gemma4-assistant%s", rest);
    json_t *c = json_pack("{sisssO}", "id", (int)i, "model", head ? assistant : name, "devices", rig);
    int n_seq = add_guesser_context(c), n_devices = (int)json_array_size(rig);
    add_bool(c, "kv_unified", false, 25);
    if (chance(30) && !strcmp(json_string_value(json_object_get(c, "flash")), "on"))
        json_object_set_new(c, "type_k", json_string("q8_0"));
    if (!head) {
        add_placement(c, add_order(c, (size_t)n_devices), (size_t)s[0]);
        add_bool(c, "pipeline", true, 25);
        json_object_set_new(c, "states", json_true());
        json_object_set_new(c, "n_outputs", json_integer(4 * n_seq));
        return c;
    }
    json_object_set_new(c, "assistant", json_true());
    set_beside(c, name, s[0] + 1, (size_t)(s[0] - shared - 1)); /* the last two that have a cache of their own */
    return c;
}

/* A head that uses the output of a model: EAGLE-3, DFlash or DSpark, of which some have one of their own. */
static json_t *sharing_case(json_t *rig, size_t i)
{
    static const int shapes[][5] = { { 32, 4096, 32, 8, 14336 }, { 36, 2560, 20, 4, 9728 }, { 4, 384, 3, 3, 992 } };
    const int *s = shapes[draw(COUNT(shapes))];
    char name[256], head[256];
    bool dflash = chance(75), own = dflash && chance(30), dspark = dflash && chance(50);
    name_made(name, "llama", s);
    snprintf(head, sizeof(head), "made:--arch %s%s %s", dflash ? "dflash" : "eagle3",
             own      ? " --known 1500"
             : dflash ? ""
                      : " --shared-output",
             strstr(name, "--layers"));
    json_t *c = json_pack("{sisssO}", "id", (int)i, "model", head, "devices", rig);
    if (!dflash) snprintf(head + strlen(head), sizeof(head) - strlen(head), " --kv %d", s[2]);
    if (dspark) snprintf(head + strlen(head), sizeof(head) - strlen(head), " --markov 64");
    json_object_set_new(c, "model", json_string(head));
    int n_seq = add_guesser_context(c);
    json_object_set_new(c, dflash ? "dflash" : "eagle3", json_true());
    if (dspark && n_seq > 4) json_object_set_new(c, "kv_unified", json_true());
    if (dspark) json_object_set_new(c, "n_draft", json_integer(1 + (json_int_t)draw(8)));
    set_beside(c, name, s[0] + 1, (size_t)s[0] + 1);
    return c;
}

/* Whole, on one device; its cache is f16 whatever the other model has. */
static json_t *draft_case(json_t *rig, size_t i)
{
    static const int shapes[][5] = {
        { 16, 2048, 32, 8, 8192 }, { 28, 1024, 16, 8, 3072 }, { 4, 512, 8, 2, 1536 }, { 2, 384, 3, 3, 992 }
    };
    static const char *const archs[] = { "llama", "qwen3", "gemma3" };
    const int *s = shapes[draw(COUNT(shapes))];
    char name[256];
    name_made(name, archs[draw(COUNT(archs))], s);
    json_t *c = json_pack("{sisssOsb}", "id", (int)i, "model", name, "devices", rig, "draft", 1);
    json_object_set_new(c, "order", json_pack("[i]", (int)draw(json_array_size(rig))));
    json_object_set_new(c, "n_outputs", json_integer(add_guesser_context(c)));
    return c;
}

bool oracle_guesser_cases(const char *fixtures, size_t n, uint64_t seed)
{
    json_t *rigs[MAX_RIGS];
    size_t n_rigs = read_rigs(fixtures, false, rigs);
    for (size_t i = 0; i < n; i++) {
        state = seed * 0x2545f4914f6cdd1du + i;
        state = draw(UINT64_MAX);
        json_t *rig = rigs[i % n_rigs],
               *(*const makers[])(json_t *, size_t) = { head_case,   tapped_case,    draft_case,  split_head_case,
                                                        eagle3_case, assistant_case, sharing_case };
        json_t *c = makers[i / n_rigs % COUNT(makers)](rig, i);
        json_dumpf(c, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(c);
    }
    for (size_t i = 0; i < n_rigs; i++) json_decref(rigs[i]);
    return n_rigs > 0;
}
