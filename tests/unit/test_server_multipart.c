/* Forms with files: what a part is, and what is no form. */
#include "test.h"

#include <time.h>

#include "server/http/multipart.h"

static struct vr_slice slice(const char *s) { return (struct vr_slice){ s, strlen(s) }; }

static void boundaries(void **state)
{
    (void)state;
    static const struct {
        const char *type, *boundary; /* NULL: it is none */
    } rows[] = {
        { "multipart/form-data; boundary=abc", "abc" },
        { "Multipart/Form-Data;charset=utf-8; Boundary=\"a b'()+_,-./:=?\"", "a b'()+_,-./:=?" },
        { "multipart/form-data; boundary=----WebKitFormBoundaryx; charset=utf-8", "----WebKitFormBoundaryx" },
        { "multipart/form-data", NULL },
        { "multipart/form-data; boundary=", NULL },
        { "multipart/form-data; boundary=\"\"", NULL },
        { "multipart/form-data; boundary=\"a", NULL },
        { "multipart/form-data; boundary=\"a \"", NULL },
        { "multipart/form-data; boundary=a; boundary=b", NULL },
        { "multipart/form-data; boundary=a\"b", NULL },
        { "multipart/form-data boundary=a", NULL },
        { "multipart/form-datax; boundary=a", NULL },
        { "multipart/mixed; boundary=a", NULL },
        { "application/json", NULL },
        { "multipart/form-data; boundary=0123456789012345678901234567890123456789012345678901234567890123456789",
          "0123456789012345678901234567890123456789012345678901234567890123456789" },
        { "multipart/form-data; boundary=01234567890123456789012345678901234567890123456789012345678901234567890",
          NULL },
    };
    char out[VR_MOST_BOUNDARY + 1];
    assert_false(vr_multipart_boundary((struct vr_slice){ 0 }, out));
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        print_message("%s\n", rows[i].type);
        bool is = vr_multipart_boundary(slice(rows[i].type), out);
        assert_int_equal(is, rows[i].boundary != NULL);
        if (is) assert_string_equal(out, rows[i].boundary);
    }
}

#define HEAD(name) "Content-Disposition: form-data; name=\"" name "\"\r\n\r\n"

static void forms(void **state)
{
    (void)state;
    static const struct {
        const char *name, *body, *parts; /* name=data| of each, and what is wrong with the rest */
    } rows[] = {
        { "two", "--b\r\n" HEAD("a") "1\r\n--b\r\n" HEAD("f") "x\r\ny\r\n--b--\r\n", "a=1|f=x\r\ny|" },
        { "no end of line at the end", "--b\r\n" HEAD("a") "1\r\n--b--", "a=1|" },
        { "an empty part", "--b\r\n" HEAD("a") "\r\n--b--\r\n", "a=|" },
        { "no parts", "--b--\r\n", "" },
        { "nearly a boundary", "--b\r\n" HEAD("a") "\r\n-b\n--b\r\n--\r\n--b--", "a=\r\n-b\n--b\r\n--|" },
        { "a file's name, other headers",
          "--b\r\ncontent-type: audio/wav\r\nCONTENT-DISPOSITION:form-data; filename=\"a\\\";name=z.wav\"; "
          "name=f\r\n\r\n"
          "1\r\n--b--",
          "f=1|" },
        { "as it is", "--b\r\nContent-Transfer-Encoding: binary\r\n" HEAD("a") "1\r\n--b--", "a=1|" },
        { "encoded", "--b\r\nContent-Transfer-Encoding: base64\r\n" HEAD("a") "1\r\n--b--", "encoded" },
        { "nothing", "", "begin with its boundary" },
        { "something before", "x\r\n--b\r\n" HEAD("a") "1\r\n--b--", "begin with its boundary" },
        { "another boundary", "--B\r\n" HEAD("a") "1\r\n--B--", "begin with its boundary" },
        { "something behind", "--b\r\n" HEAD("a") "1\r\n--b--\r\nmore", "a=1|goes on" },
        { "a longer boundary", "--b\r\n" HEAD("a") "1\r\n--bc\r\n--b--", "a=1|does not end its line" },
        { "cut in the data", "--b\r\n" HEAD("a") "1\r\n--", "cut short" },
        { "cut in the head", "--b\r\nContent-Disposition: form", "cut short" },
        { "cut behind a boundary", "--b\r\n" HEAD("a") "1\r\n--b", "a=1|cut short" },
        { "no blank line before the data", "--b\r\n" HEAD("a") "--b--", "cut short" },
        { "no name", "--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--", "no name" },
        { "an empty name", "--b\r\n" HEAD("") "1\r\n--b--", "no name" },
        { "two names", "--b\r\nContent-Disposition: form-data; name=a; name=b\r\n\r\n1\r\n--b--", "two names" },
        { "a name that does not end", "--b\r\nContent-Disposition: form-data; name=\"a\\\r\n\r\n1\r\n--b--",
          "malformed" },
        { "an attachment", "--b\r\nContent-Disposition: attachment; name=a\r\n\r\n1\r\n--b--", "not form-data" },
        { "no header", "--b\r\n\r\n1\r\n--b--", "no name" },
        { "no colon", "--b\r\nabc\r\n\r\n1\r\n--b--", "no colon" },
    };
    for (size_t i = 0; i < VR_COUNT(rows); i++) {
        VR_AUTO_BUF got = { 0 };
        struct vr_multipart m;
        struct vr_form_part part;
        const char *why = NULL;
        enum vr_part_next next;
        size_t n = strlen(rows[i].body);
        VR_AUTO_FREE char *body = malloc(n + 1); /* the sanitizer sees what is behind it */
        memcpy(body, rows[i].body, n);
        print_message("%s\n", rows[i].name);
        vr_multipart_open(&m, body, n, "b");
        while ((next = vr_multipart_next(&m, &part, &why)) == VR_PART)
            vr_buf_addf(&got, "%.*s=%.*s|", (int)part.name.n, part.name.p, (int)part.data.n, part.data.p);
        if (next == VR_PART_BAD) {
            const char *bad = strrchr(rows[i].parts, '|');
            assert_non_null(strstr(why, bad ? bad + 1 : rows[i].parts));
        } else {
            assert_string_equal(vr_buf_str(&got), rows[i].parts);
        }
    }
}

/* What a stranger can make of it: heads without end, and parts without number. */
static void bounds(void **state)
{
    (void)state;
    VR_AUTO_BUF many = { 0 };
    VR_AUTO_BUF head = { 0 };
    struct vr_multipart m;
    struct vr_form_part part;
    const char *why = NULL;
    for (int i = 0; i <= VR_MOST_PARTS; i++) vr_buf_adds(&many, "--b\r\n" HEAD("a") "\r\n");
    vr_buf_adds(&many, "--b--");
    vr_multipart_open(&m, many.data, many.n, "b");
    int n = 0;
    while (vr_multipart_next(&m, &part, &why) == VR_PART) n++;
    assert_int_equal(n, VR_MOST_PARTS);
    assert_non_null(strstr(why, "too many"));
    vr_buf_adds(&head, "--b\r\n");
    while (head.n < 2 * VR_MOST_PART_HEAD) vr_buf_adds(&head, "X-Filler: 0123456789\r\n");
    vr_buf_adds(&head, HEAD("a") "1\r\n--b--");
    vr_multipart_open(&m, head.data, head.n, "b");
    assert_int_equal(vr_multipart_next(&m, &part, &why), VR_PART_BAD);
    assert_non_null(strstr(why, "too long"));
}

/* Sixteen megabytes of what is nearly a boundary take time in proportion. */
static void cost(void **state)
{
    (void)state;
    static const char boundary[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    const size_t n = 16 << 20;
    VR_AUTO_BUF body = { 0 };
    struct vr_multipart m;
    struct vr_form_part part;
    const char *why = NULL;
    vr_buf_addf(&body, "--%s\r\n" HEAD("a"), boundary);
    size_t from = body.n;
    vr_buf_addc(&body, 'a', n);
    for (size_t i = from; i + 80 < body.n; i += 75) memcpy(body.data + i, "\r\n--", 4); /* and 71 letters */
    vr_buf_addf(&body, "\r\n--%s--", boundary);
    clock_t began = clock();
    vr_multipart_open(&m, body.data, body.n, boundary);
    assert_int_equal(vr_multipart_next(&m, &part, &why), VR_PART);
    assert_int_equal(part.data.n, n);
    assert_int_equal(vr_multipart_next(&m, &part, &why), VR_PARTS_OVER);
    double seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
    print_message("%.3f s for 16 MiB\n", seconds);
    assert_true(seconds < 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boundaries),
        cmocka_unit_test(forms),
        cmocka_unit_test(bounds),
        cmocka_unit_test(cost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
