/* A CPU backend that claims the best score and is not one: it traps as AMX code does on a virtual machine that only
 * advertises it, or (REFUSES) does not come up. */
int ggml_backend_score(void);
void *ggml_backend_init(void);

int ggml_backend_score(void)
{
#ifdef REFUSES
    return 99998;
#else
    return 99999;
#endif
}

void *ggml_backend_init(void)
{
#ifndef REFUSES
    __builtin_trap();
#endif
    return (void *)0;
}
