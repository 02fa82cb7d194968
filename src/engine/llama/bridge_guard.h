/* Inside the bridge, C++: no exception passes. Running out of memory is told apart, since memory may be limited for one
 * request (engine/prepare). */
#ifndef VR_ENGINE_LLAMA_BRIDGE_GUARD_H
#define VR_ENGINE_LLAMA_BRIDGE_GUARD_H

#include <exception>
#include <new>

extern "C" {
#include "base/err.h"
}

template <typename T, typename F> static T guard(const char *what, T failed, struct vr_err *err, F f)
{
    try {
        return f();
    } catch (const std::bad_alloc &) {
        vr_fail(err, VR_ENOMEM, "%s: out of memory", what);
    } catch (const std::exception &e) {
        vr_fail(err, VR_EENGINE, "%s: %s", what, e.what());
    } catch (...) {
        vr_fail(err, VR_EENGINE, "%s failed for an unknown reason", what);
    }
    return failed;
}

#endif
