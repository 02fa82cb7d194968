/* Schemas: what would be enforced passes, everything else is refused by name. */
#include "test.h"

#include "base/buf.h"
#include "engine/wire/limits.h"
#include "engine/wire/schema.h"

static bool no_plus(void *ctx, const char *pattern, struct vr_err *err)
{
    (void)ctx;
    return !strchr(pattern, '+') || vr_fail(err, VR_EUSAGE, "no plus");
}

static const struct {
    const char *schema, *says; /* NULL: passes */
} rows[] = {
    { "{}", NULL },
    { "{'type':'object'}", NULL },
    { "{'$schema':'x','title':'T','description':'d','type':'object','properties':{'a':{'type':'string','default':'x'}},"
      "'required':['a'],'additionalProperties':false,'x-mine':1}",
      NULL },
    { "{'type':['string','null']}", NULL },
    { "{'anyOf':[{'type':'string'},{'type':'null'}],'description':'d'}", NULL },
    { "{'type':'string','enum':['a','b']}", NULL },
    { "{'const':5}", NULL },
    { "{'enum':['a',1,null]}", NULL },
    { "{'type':'integer','minimum':1,'exclusiveMaximum':10}", NULL },
    { "{'type':'string','minLength':1,'maxLength':2000}", NULL },
    { "{'type':'string','format':'date-time'}", NULL },
    { "{'type':'string','format':'email'}", NULL }, /* an annotation */
    { "{'type':'string','pattern':'^a$'}", NULL },
    { "{'type':'array','items':{'type':'number'},'minItems':0,'maxItems':3}", NULL },
    { "{'type':'array','prefixItems':[{'type':'number'},{}],'minItems':2,'maxItems':2}", NULL },
    { "{'$ref':'#/$defs/node','$defs':{'node':{'type':'object','properties':{'next':{'anyOf':[{'$ref':'#/$defs/node'},"
      "{'type':'null'}]}},'required':['next'],'additionalProperties':false}}}",
      NULL },
    { "{'type':'object','additionalProperties':{'type':'integer'}}", NULL },
    { "{'minLength':3}", NULL }, /* only a string is made of it */

    { "[]", "must be an object" },
    { "{'type':'strnig'}", "\"type\"" },
    { "{'type':[]}", "is empty" },
    { "{'oneOf':[{'type':'string'}]}", "use \"anyOf\"" },
    { "{'allOf':[{'type':'string'}]}", "\"allOf\" cannot be enforced" },
    { "{'not':{}}", "\"not\" cannot" },
    { "{'type':'object','patternProperties':{}}", "\"patternProperties\" cannot" },
    { "{'type':'object','minProperties':1}", "\"minProperties\" cannot" },
    { "{'type':'array','uniqueItems':true}", "\"uniqueItems\" cannot" },
    { "{'type':'integer','multipleOf':2}", "\"multipleOf\" cannot" },
    { "{'type':'number','minimum':0}", "for integers only" },
    { "{'type':['integer','number'],'maximum':0}", "for integers only" },
    { "{'minimum':0}", "for integers only" },
    { "{'type':'integer','minimum':5,'maximum':4}", "no number" },
    { "{'type':'integer','minimum':1,'exclusiveMinimum':1}", "both" },
    { "{'type':'integer','minimum':1e300}", "2^53" },
    { "{'type':'integer','exclusiveMinimum':3,'exclusiveMaximum':4}", "no number" },
    { "{'type':'string','maxLength':2001}", "more than 2000" },
    { "{'type':'string','minLength':4,'maxLength':3}", "\"minLength\" is more than" },
    { "{'type':'string','minLength':-1}", "non-negative" },
    { "{'type':'string','pattern':'a+'}", "no plus" },
    { "{'type':'string','pattern':'^a$','maxLength':3}", "cannot both" },
    { "{'type':'string','enum':['a'],'minLength':2}", "together with" },
    { "{'type':'string','enum':['a',1]}", "does not match" },
    { "{'type':'integer','const':'x'}", "does not match" },
    { "{'enum':[]}", "non-empty" },
    { "{'enum':[1],'const':1}", "both" },
    { "{'type':'object','anyOf':[{'type':'object'}]}", "together with" },
    { "{'anyOf':[]}", "non-empty" },
    { "{'anyOf':[{'type':'string'},{'type':'object','required':['q']}]}", "#/anyOf/1: \"required\" names 'q'" },
    { "{'$ref':'#/$defs/a','type':'object','$defs':{'a':{}}}", "together with" },
    { "{'$ref':'#'}", "must point" },
    { "{'$ref':'http://x/y'}", "must point" },
    { "{'$ref':'#/$defs/b','$defs':{'a':{}}}", "points to nothing" },
    { "{'$ref':'#/title/b','title':{}}", "\"$defs\" or" },
    { "{'$defs':{'a':{'not':{}}}}", "#/$defs/a: \"not\"" },
    { "{'type':'object','required':['a']}", "not a property" },
    { "{'type':'object','properties':{'a':{'type':'array','items':{'type':'x'}}}}", "#/properties/a/items" },
    { "{'type':'object','properties':[]}", "must be an object" },
    { "{'type':'object','additionalProperties':3}", "true, false" },
    { "{'type':'array','items':[{}],'prefixItems':[{}]}", "both" },
    { "{'type':'array','prefixItems':[{},{}],'maxItems':1}", "must equal the length" },
    { "{'type':'array','items':false}", "must be an object" },
};

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        char *text = strdup(rows[i].schema);
        for (char *c = text; *c; c++)
            if (*c == '\'') *c = '"';
        json_t *j = json_loads(text, 0, NULL);
        struct vr_err err = { 0 };
        bool ok = vr_schema_check(j, no_plus, NULL, &err);
        if (ok != !rows[i].says) fail_msg("%s: %s", rows[i].schema, ok ? "passes" : err.msg);
        if (rows[i].says && !strstr(err.msg, rows[i].says)) fail_msg("%s: '%s'", rows[i].schema, err.msg);
        json_decref(j);
        free(text);
    }
}

static void test_size(void **state)
{
    (void)state;
    struct vr_err err = { 0 };
    for (int depth = 20; depth <= 1000; depth *= 7) {
        VR_AUTO_BUF b = { 0 };
        for (int i = 0; i < depth; i++) vr_buf_adds(&b, "{\"type\":\"array\",\"items\":");
        vr_buf_adds(&b, "{}");
        vr_buf_addc(&b, '}', (size_t)depth);
        json_t *j = json_loads(b.data, 0, NULL);
        assert_int_equal(vr_schema_check(j, NULL, NULL, &err), depth <= VR_MOST_SCHEMA_DEPTH);
        json_decref(j);
    }
    assert_contains(err.msg, "deep");
    json_t *wide = json_object(), *properties = json_object();
    json_object_set_new(wide, "properties", properties);
    for (int i = 0; i < VR_MOST_SCHEMA_NODES; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        json_object_set_new(properties, name, json_object());
    }
    assert_false(vr_schema_check(wide, NULL, NULL, &err));
    assert_contains(err.msg, "nodes");
    json_decref(wide);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows), cmocka_unit_test(test_size) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
