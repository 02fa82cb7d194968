/* The engine's CPU backend: one library per generation of processors, beside libllama. */
#ifndef VR_ENGINE_LLAMA_CPU_H
#define VR_ENGINE_LLAMA_CPU_H

#include "base/err.h"

/* Registers the plainest variant in this process: for dry runs, where nothing is computed. */
bool vr_cpu_load_plain(struct vr_err *err) VR_MUST_CHECK;

/* The best variant that really works here: each candidate, best score first, multiplies two small matrices of every
 * common type in a child of its own, because a variant may be one that the processor only claims to run (AMX on
 * virtual machines). "" when the engine has its CPU backend built in. The path goes to vr_cpu_load(). */
bool vr_cpu_choose(char *out, size_t n, struct vr_err *err) VR_MUST_CHECK;
/* The same among the variants in another folder. */
bool vr_cpu_choose_in(const char *dir, char *out, size_t n, struct vr_err *err) VR_MUST_CHECK;
bool vr_cpu_load(const char *path, struct vr_err *err) VR_MUST_CHECK;

/* Threads of a CPU backend; ggml's default is four, on any processor. */
struct ggml_backend;
void vr_cpu_set_threads(struct ggml_backend *cpu, int n);

#endif
