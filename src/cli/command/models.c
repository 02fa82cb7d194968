/* `models`: what lies on this computer, or in a repository elsewhere, and what each of them would do here. */
#include "base/text.h"
#include "cli/commands.h"
#include "cli/models/model_rows.h"
#include "cli/models/model_table.h"
#include "cli/models/repository.h"
#include "cli/text/show.h"
#include "remote/hub.h"

static void show(struct vr_buf *out, const struct vr_options *o, const json_t *rows)
{
    struct vr_num x;
    if (json_array_size(rows) == 0) {
        vr_buf_adds(out, "No models were found in the caches of Hugging Face and llama.cpp, or those of LM Studio and "
                         "Ollama. --models-dir DIR adds a folder to search.\n");
        return;
    }
    vr_model_table(out, rows, true);
    vr_buf_addc(out, '\n', 1);
    vr_model_table_machine(out, o);
    vr_buf_addf(out, ", with a half-full context of %s tokens. vram-llm serve %s%s%sMODEL runs one.\n",
                vr_fmt_count(&x, o->n_ctx), o->models_dir ? "--models-dir " : "", o->models_dir ? o->models_dir : "",
                o->models_dir ? " " : "");
}

bool vr_cmd_models(const struct vr_options *o, struct vr_buf *out, struct vr_err *err)
{
    if (o->n_ctx == 0)
        return vr_fail(err, VR_EUSAGE, "--n-ctx 0: 'models' shows the largest context of each model in any case");
    if (o->n_more && !vr_remote_is(o->more[0]))
        return vr_fail(err, VR_EUSAGE,
                       "'models' lists all models on this computer, or those at hf:OWNER/NAME or a URL; for a single "
                       "model here, use 'vram-llm plan %s'",
                       o->more[0]);
    VR_AUTO(vr_input) in = vr_input_read(o, err);
    if (!in) return false;
    if (o->n_more) return vr_plan_repository(o, o->more[0], in, out, err);
    VR_AUTO_CATALOG c = { 0 };
    if (!vr_catalog_read(o->models_dir, &c, err)) return false;
    json_t *rows = vr_model_rows(o, in, &c, "models.json", err);
    if (!rows) return false;
    if (o->json) return vr_json_print(json_pack("{s:b, s:o}", "more", c.more, "models", rows), out, err);
    show(out, o, rows);
    if (c.more) vr_buf_addf(out, "Only the first %d models are listed.\n", VR_MAX_LISTED);
    json_decref(rows);
    return true;
}
