/* Speeds that others published, and what we would have said: one row of tests/fixtures/published is one question to the
 * dry run and the price, asked as its README says. */
#ifndef PUBLISHED_H
#define PUBLISHED_H

#include <jansson.h>

#include "base/buf.h"
#include "engine/params/load_params.h"
#include "hw/machine.h"
#include "plan/phase.h"

#define MAX_ROWS 512

/* Of a row, what decides its prediction and what it is compared with. Strings are the fixture's. */
struct row {
    const char *id, *source, *model, *quant, *backend, *generation, *on_cpu, *host, *header;
    const char *gpus[VR_MAX_DEVICES];
    size_t n_gpus;
    enum { ROW_NOW, ROW_OLD, ROW_PAIR } era; /* 2025-26; builds that computed prompts another way; of pairs.jsonl */
    bool kept;                               /* a third, by a hash of the source: constants are not fitted to them */
    bool moe;
    bool nccl; /* added up by NCCL: the engine had no kernel of its own for two cards then (before its PR 22299) */
    enum vr_split_mode split_mode;
    double split[VR_MAX_SPLIT];
    size_t n_split;
    int n_gpu_layers;
    struct vr_context context; /* long enough for the tests; 0 of n_ctx: as given */
    uint32_t depth, tokens[VR_N_PHASES];
    double size_bytes;                                     /* of the file that was used; 0: not told */
    double published[VR_N_PHASES], predicted[VR_N_PHASES]; /* tokens per second; 0: none */
    char why[160];                                         /* why there is no prediction */
};

struct rows {
    struct row items[MAX_ROWS];
    size_t n;
    json_t *json, *index; /* own the strings; index.json of the headers */
    char dir[512];
};

bool rows_read(const char *dir, struct rows *out, struct vr_err *err) VR_MUST_CHECK;
void rows_done(struct rows *r);

/* Fills predicted[], or why. */
void row_predict(const struct rows *all, struct row *r);

/* The tables as Markdown, and whether the thresholds hold. */
void report_write(const struct rows *r, struct vr_buf *out);
bool report_check(const struct rows *r, struct vr_buf *failures);

#endif
