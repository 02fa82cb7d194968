/* libcurl, loaded where something is fetched and nowhere else: it brings thirty libraries along, which neither the
 * server nor the engine's processes should have in them, and the tarball need not contain. */
#ifndef VR_REMOTE_CURL_H
#define VR_REMOTE_CURL_H

#define CURL_DISABLE_TYPECHECK /* its macros would stand in the way of the names below */
#include <curl/curl.h>
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

#include "base/err.h"

struct vr_curl {
#define FUNCTION(name) __typeof__(&name) name;
#include "remote/curl.def"
#undef FUNCTION
};

/* Loads it once; it stays until the program ends. NULL: it is not there. */
const struct vr_curl *vr_curl_load(struct vr_err *err) VR_MUST_CHECK;

#endif
