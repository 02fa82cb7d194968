/* Grammars: reading them must not crash, hang or grow; with -DWITH_ENGINE what passes goes to the engine's own parser
 * too, which must survive it. */
#include <stdint.h>
#include <string.h>

#include "engine/wire/limits.h"

#ifdef WITH_ENGINE
#include "engine/llama/bridge.h"
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct vr_err err;
    if (!vr_limit_grammar((const char *)data, n, &err)) return 0;
#ifdef WITH_ENGINE
    char *text = malloc(n + 1);
    if (!text) return 0;
    memcpy(text, data, n);
    text[n] = '\0';
    vr_bridge_grammar_free(vr_bridge_grammar_new(NULL, text, &err));
    free(text);
#endif
    return 0;
}
