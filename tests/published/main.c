/* Predicted against published, as Markdown on standard output (docs/accuracy.md has it). Fails where more is off than
 * report.c allows.
 *   published FIXTURE-DIR */
#include <stdio.h>
#include <stdlib.h>

#include "published.h"

int main(int argc, char **argv)
{
    struct vr_err err = { 0 };
    VR_AUTO_FREE struct rows *rows = calloc(1, sizeof *rows);
    VR_AUTO_BUF out = { 0 }, failures = { 0 };
    if (argc != 2 || !rows || !rows_read(argv[1], rows, &err)) {
        fprintf(stderr, "published: %s\n", argc != 2 ? "usage: published FIXTURE-DIR" : err.msg);
        return 2;
    }
    for (size_t i = 0; i < rows->n; i++) row_predict(rows, &rows->items[i]);
    report_write(rows, &out);
    fputs(vr_buf_str(&out), stdout);
    bool ok = report_check(rows, &failures);
    fputs(vr_buf_str(&failures), stderr);
    rows_done(rows);
    return ok ? 0 : 1;
}
