/* Schemas: what would be enforced passes, everything else is refused by name. */
#include "test.h"

#include <time.h>

#include "base/buf.h"
#include "engine/wire/limits.h"
#include "engine/wire/schema.h"
#include "engine/wire/schema_forms.h"

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
    { "{'type':'number','minimum':0.25,'exclusiveMaximum':1e300}", NULL },
    { "{'type':['integer','number','null'],'maximum':0}", NULL },
    { "{'type':'string','minLength':1,'maxLength':1000000}", NULL },
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
    { "{'minimum':0}", "needs \"type\"" },
    { "{'type':'number','minimum':0.5,'maximum':0.4}", "no number" },
    { "{'type':'number','minimum':0.5,'exclusiveMaximum':0.5}", "no number" },
    { "{'type':'number','minimum':1e-17}", "too many decimals" },
    { "{'type':'number','minimum':12345678901.12345}", "too many digits" },
    { "{'type':'number','minimum':'x'}", "must be a number" },
    { "{'type':'integer','minimum':5,'maximum':4}", "no number" },
    { "{'type':'integer','minimum':1,'exclusiveMinimum':1}", "both" },
    { "{'type':'integer','minimum':1e300}", "2^53" },
    { "{'type':'integer','exclusiveMinimum':3,'exclusiveMaximum':4}", "no number" },
    { "{'type':'string','maxLength':1000001}", "more than 1000000" },
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
        bool ok = vr_schema_check(j, VR_SCHEMA_ANSWER, no_plus, NULL, &err);
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
        assert_int_equal(vr_schema_check(j, VR_SCHEMA_ANSWER, NULL, NULL, &err), depth <= VR_MOST_SCHEMA_DEPTH);
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
    assert_false(vr_schema_check(wide, VR_SCHEMA_ANSWER, NULL, NULL, &err));
    assert_contains(err.msg, "nodes");
    json_decref(wide);
}

/* What a schema becomes, and NULL where that is still refused. */
static const struct {
    const char *from, *to;
} forms[] = {
    { "{'type':'string'}", "{'type':'string'}" },
    { "{'type':'integer','format':'int32','maximum':5}",
      "{'type':'integer','format':'int32','maximum':5,'minimum':-2147483648}" },
    { "{'type':'string','format':'ipv4','minLength':1,'maxLength':99,'pattern':'^1$'}",
      NULL }, /* the client's counts */
    { "{'type':'string','format':'email','maxLength':20}", NULL },
    { "{'type':'string','enum':['a'],'format':'email'}", "{'type':'string','enum':['a'],'format':'email'}" },
    { "{'type':'object','propertyNames':{'type':'string'},'additionalProperties':{}}",
      "{'type':'object','additionalProperties':{}}" },
    { "{'type':'object','propertyNames':{'type':'string','minLength':2}}", NULL },
    { "{'type':'object','propertyNames':{'type':'string','enum':['a','b']},'additionalProperties':{'type':'null'},"
      "'required':['a']}",
      "{'type':'object','properties':{'a':{'type':'null'},'b':{'type':'null'}},'required':['a'],"
      "'additionalProperties':false}" },
    { "{'type':'object','propertyNames':{'enum':['a']},'additionalProperties':true}", NULL },
    { "{'type':'object','propertyNames':{'enum':['a'],'maxLength':1},'additionalProperties':{}}", NULL },
    { "{'type':'array','uniqueItems':false}", "{'type':'array'}" },
    { "{'type':'array','prefixItems':[{}],'items':false}", "{'type':'array','prefixItems':[{}]}" },
    { "{'type':'array','prefixItems':[{}],'items':{}}", NULL },

    { "{'oneOf':[{'type':'string'},{'type':'null'}]}", "{'anyOf':[{'type':'string'},{'type':'null'}]}" },
    { "{'oneOf':[{'type':'string'}]}", "{'anyOf':[{'type':'string'}]}" },
    { "{'oneOf':[{'type':'integer'},{'type':'number'}]}", NULL },
    { "{'oneOf':[{'const':1},{'const':1}]}", NULL },
    { "{'oneOf':[{'const':1},{'enum':[2,3]}]}", "{'anyOf':[{'const':1},{'enum':[2,3]}]}" },
    { "{'oneOf':[{},{'type':'string'}]}", NULL },
    { "{'oneOf':[{'$ref':'#/$defs/a'},{'type':'string'}],'$defs':{'a':{'type':'null'}}}",
      "{'anyOf':[{'$ref':'#/$defs/a'},{'type':'string'}],'$defs':{'a':{'type':'null'}}}" },
    { "{'oneOf':[{'type':'object','properties':{'k':{'const':'a'}}},{'type':'object','properties':{'k':{'const':'b'}},"
      "'required':[]}]}",
      "{'anyOf':[{'type':'object','properties':{'k':{'const':'a'}},'required':['k']},{'type':'object','properties':{"
      "'k':{'const':'b'}},'required':['k']}]}" },
    { "{'oneOf':[{'type':'object','properties':{'k':{'const':'a'}}},{'type':'object','properties':{'k':{'const':'a'}}}]"
      "}",
      NULL },

    { "{'allOf':[{'type':'string'}],'title':'t'}", "{'type':'string','title':'t'}" },
    { "{'allOf':[{'$ref':'#/$defs/a'}],'$defs':{'a':{'type':'string'}}}",
      "{'$ref':'#/$defs/a','$defs':{'a':{'type':'string'}}}" },
    { "{'allOf':[{'$ref':'#/$defs/a'},{'type':'object','properties':{'y':{}},'required':['y']}],'$defs':{'a':{'type':"
      "'object','properties':{'x':{}},'required':['x']}}}",
      "{'type':'object','properties':{'x':{},'y':{}},'required':['x','y'],'$defs':{'a':{'type':'object','properties':{"
      "'x':{}},'required':['x']}}}" },
    { "{'allOf':[{'allOf':[{'$ref':'#/$defs/a'}]},{'properties':{'y':{}}}],'$defs':{'a':{'type':'object','properties':{"
      "'x':{}}}}}",
      "{'type':'object','properties':{'x':{},'y':{}},'$defs':{'a':{'type':'object','properties':{'x':{}}}}}" },
    { "{'allOf':[{'type':'string'},{'type':'integer'}]}", NULL },
    { "{'allOf':[{'properties':{'x':{'type':'string'}}},{'properties':{'x':{'type':'null'}}}]}", NULL },
    { "{'allOf':[{'properties':{'x':{}},'additionalProperties':false},{'properties':{'y':{}}}]}", NULL },
    { "{'allOf':[{'$ref':'#/$defs/a'},{}],'$defs':{'a':{'allOf':[{'$ref':'#/$defs/a'},{}]}}}", NULL }, /* itself */
    { "{'allOf':[]}", NULL },

    { "{'type':'object','properties':{'n':{'anyOf':[{'$ref':'#'},{'type':'null'}]}}}",
      "{'$defs':{'vr_root':{'type':'object','properties':{'n':{'anyOf':[{'$ref':'#/$defs/"
      "vr_root'},{'type':'null'}]}}}},"
      "'$ref':'#/$defs/vr_root'}" },
    /* values are not schemas */
    { "{'const':{'oneOf':[{'type':'null'}],'format':'date'}}",
      "{'const':{'oneOf':[{'type':'null'}],'format':'date'}}" },
};

static json_t *read_quoted(const char *text)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *c = copy; *c; c++)
        if (*c == '\'') *c = '"';
    json_t *v = json_loads(copy, 0, NULL);
    assert_non_null(v);
    return v;
}

static void test_forms(void **state)
{
    (void)state;
    for (size_t i = 0; i < VR_COUNT(forms); i++) {
        json_t *v = read_quoted(forms[i].from), *to = forms[i].to ? read_quoted(forms[i].to) : NULL;
        struct vr_err err = { 0 };
        assert_true(vr_schema_rewrite(v));
        if (vr_schema_check(v, VR_SCHEMA_ANSWER, NULL, NULL, &err) != (to != NULL))
            fail_msg("%s: %s", forms[i].from, err.msg);
        if (to && !json_equal(v, to)) fail_msg("%s became %s", forms[i].from, json_dumps(v, JSON_COMPACT));
        json_decref(v);
        json_decref(to);
    }
}

/* Formats become patterns, and lengths that say nothing more are gone. */
static void test_formats(void **state)
{
    (void)state;
    static const char *const names[] = { "date", "time", "date-time", "duration", "email",        "hostname",
                                         "ipv4", "ipv6", "uri",       "byte",     "uri-reference" };
    for (size_t i = 0; i < VR_COUNT(names); i++) {
        json_t *v = json_pack("{s:[s,s],s:s,s:i,s:i}", "type", "string", "null", "format", names[i], "minLength", 0,
                              "maxLength", 5000);
        struct vr_err err = { 0 };
        assert_true(vr_schema_rewrite(v));
        assert_true(vr_schema_check(v, VR_SCHEMA_ANSWER, NULL, NULL, &err));
        assert_int_equal(json_object_size(v), 2);
        assert_true(json_is_string(json_object_get(v, "pattern")));
        json_decref(v);
    }
}

/* Parts that repeat each other: what is copied is bounded, and the time with it. */
static void test_parts_that_double(void **state)
{
    (void)state;
    VR_AUTO_BUF text = { 0 };
    vr_buf_adds(&text, "{\"$ref\":\"#/$defs/d0\",\"$defs\":{");
    for (int i = 0; i < 30; i++)
        vr_buf_addf(&text, "\"d%d\":{\"allOf\":[{\"$ref\":\"#/$defs/d%d\"},{\"$ref\":\"#/$defs/d%d\"}]},", i, i + 1,
                    i + 1);
    vr_buf_adds(&text, "\"d30\":{\"type\":\"string\"}}}");
    json_t *v = json_loadb(text.data, text.n, 0, NULL);
    assert_non_null(v);
    assert_true(vr_schema_rewrite(v));
    assert_true(json_dumpb(v, NULL, 0, 0) < 4 * VR_MOST_SCHEMA_BYTES);
    json_decref(v);
}

/* Values that are many are not compared with each other for ever. */
static void test_many_values(void **state)
{
    (void)state;
    json_t *a = json_array(), *b = json_array();
    for (int i = 0; i < 16000; i++) {
        json_array_append_new(a, json_integer(i));
        json_array_append_new(b, json_integer(-1 - i));
    }
    json_t *v = json_pack("{s:[{s:o},{s:o}]}", "oneOf", "enum", a, "enum", b);
    struct vr_err err = { 0 };
    clock_t from = clock();
    assert_true(vr_schema_rewrite(v));
    assert_true(clock() - from < CLOCKS_PER_SEC / 2);
    assert_false(vr_schema_check(v, VR_SCHEMA_ANSWER, NULL, NULL, &err));
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_rows),
                                        cmocka_unit_test(test_size),
                                        cmocka_unit_test(test_forms),
                                        cmocka_unit_test(test_formats),
                                        cmocka_unit_test(test_parts_that_double),
                                        cmocka_unit_test(test_many_values) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
