#include "cli/models/model_name.h"

#include <string.h>
#include <strings.h>

#include "catalog/catalog.h"
#include "cli/models/remote_model.h"

/* A word that can only be meant as a file: what is wrong with it, the one who opens it says. */
static bool is_path(const char *word)
{
    size_t n = strlen(word);
    return access(word, F_OK) == 0 || *word == '/' || *word == '.' || *word == '~' ||
           (n > 5 && strcasecmp(word + n - 5, ".gguf") == 0);
}

/* OWNER/NAME of the hub, as other programs and pages write it; NULL: it reads like none. */
static const char *hub_name(const char *word)
{
    static const char *const hosts[] = { "huggingface.co/", "hf.co/" };
    for (size_t i = 0; i < VR_COUNT(hosts); i++)
        if (strncasecmp(word, hosts[i], strlen(hosts[i])) == 0) word += strlen(hosts[i]);
    const char *slash = strchr(word, '/');
    return slash && slash != word && slash[1] && !strchr(slash + 1, '/') ? word : NULL;
}

static bool unknown(const struct vr_catalog *c, const char *word, struct vr_err *err)
{
    const char *near = vr_catalog_nearest(c, word), *hub = hub_name(word);
    vr_fail(err, VR_EUSAGE, "'%s' is neither a file nor the name of a model on this computer", word);
    return near  ? vr_fail_more(err, "; did you mean %s?", near)
           : hub ? vr_fail_more(err, "; on Hugging Face it would be hf:%s", hub)
                 : vr_fail_more(err, "; 'vram-llm models' lists those that are");
}

bool vr_model_name_resolve(struct vr_options *o, enum vr_needs needs, struct vr_err *err)
{
    if (needs == VR_NEEDS_NOTHING) return true;
    if (o->mmproj && strcmp(o->mmproj, "none") == 0) o->mmproj = "";
    bool several = o->n_more && needs == VR_NEEDS_FIT; /* serve sees to each of them */
    if (!several && !vr_remote_options(o, needs, err)) return false;
    if (!several && o->model && !vr_remote_is(o->model) && !is_path(o->model)) {
        static struct vr_catalog c; /* until the program ends */
        static bool is_read;
        struct vr_err why = { 0 };
        if (!is_read && !vr_catalog_read(o->models_dir, &c, err)) return false;
        is_read = true;
        const struct vr_listed *x = vr_catalog_find(&c, o->model, &why);
        if (!x) return why.code ? vr_fail(err, why.code, "%s", why.msg) : unknown(&c, o->model, err);
        if (x->n_found < x->n_parts)
            return vr_fail(err, VR_EFORMAT, "%s: %u of its %u files are missing: %s", x->name, x->n_parts - x->n_found,
                           x->n_parts, x->path);
        o->model = x->path;
        if (!o->alias) o->alias = x->name;
        if (!o->mmproj) o->mmproj = x->mmproj;
    }
    if (o->mmproj && !*o->mmproj) o->mmproj = NULL;
    return true;
}
